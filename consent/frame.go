package consent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// A frame is what every page has around its main part. Person and what a page
// adds may be text that others wrote: it never becomes a title or a heading on
// the way to an approval.
type frame struct {
	Title     string // stands before the service's name; may hold a name where Other is
	Service   string
	Base      string // {base}, as the address bar shows it
	Person    org.Person
	Actor     org.Person // of support staff, who acts as Person; zero otherwise
	Stops     bool       // has the button by which support staff are themselves again
	Reference string
	CSRF      string // form token; empty where nobody is signed in
	Slim      bool   // one narrow column
	Wide      bool   // room for a table
	Other     bool   // not on the way to an approval: may post to this server alone
	Script    bool   // has the consent page's script
	Packed    bool   // may be compressed: shows nothing of its own address
	Logo      string // its path; empty: the shield
	Help      string // URL; empty where there is none
	Legal     []Link
	Same      string // sealed: the page's own address, to come back to in another language
}

func (f *frame) around() *frame { return f }

// frame gives what is around a page. title is the id of a message, values what
// it needs.
func (s *Server) frame(v *visit, title string, values ...any) frame {
	f := frame{Title: v.words.say(title, values...).String(), Service: s.Service, Base: v.base, Person: v.person, Actor: v.actor, Stops: v.acting(), Reference: v.reference(), Slim: true}
	if v.session != "" {
		f.CSRF = s.Ring.FormToken(v.session)
	}
	f.Same = s.sealPath(v.here())
	look := s.look.Load()
	f.Logo, f.Help, f.Legal = look.logo, look.branding.Support, look.branding.Links
	return f
}

// Host is the server's own, as the address bar shows it.
func (f *frame) Host() string {
	_, host, _ := strings.Cut(f.Base, "://")
	return host
}

var (
	frameTemplate   = parse("frame.html")
	consentTemplate = parsePage("consent.html", "choices.html")
	faultTemplate   = parsePage("fault.html")
	nowhereTemplate = parsePage("nowhere.html")
	refusedTemplate = parsePage("refused.html")
	signInTemplate  = parsePage("signin.html")
	outsideTemplate = parsePage("outside.html")
	secondTemplate  = parsePage("second.html")
	againTemplate   = parsePage("again.html")
	factorsTemplate = parsePage("factors.html")
	homeTemplate    = parsePage("home.html")
	appsTemplate    = parsePage("apps.html")
	editTemplate    = parsePage("edit.html", "choices.html")
	revokeTemplate  = parsePage("revoke.html")
	leaveTemplate   = parsePage("leave.html")

	integrationTemplate   = parsePage("integration.html")
	connectionTemplate    = parsePage("connection.html")
	endConnectionTemplate = parsePage("endconnection.html")
	offTemplate           = parsePage("off.html")

	accountTemplate = parsePage("account.html", "newpassword.html")
	resetTemplate   = parsePage("reset.html", "newpassword.html")
	supportTemplate = parsePage("support.html")
	actAsTemplate   = parsePage("actas.html")
	actingTemplate  = parsePage("acting.html")

	guestTemplate = parsePage("page.html")
)

func parse(file string) *template.Template {
	return template.Must(template.New(file).Funcs((*words)(nil).functions()).ParseFS(templateFiles, "templates/"+file))
}

func parsePage(files ...string) *template.Template {
	t := template.Must(frameTemplate.Clone())
	for _, file := range files {
		template.Must(t.ParseFS(templateFiles, "templates/"+file))
	}
	return t
}

// Page answers with a page in the look of this door. content is executed with
// data as the main part; it brings its own heading.
func (s *Server) Page(w http.ResponseWriter, r *http.Request, status int, title string, content *template.Template, data any) error {
	t, err := guestTemplate.Clone()
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	for _, part := range content.Templates() {
		if _, err := t.AddParseTree(part.Name(), part.Tree); err != nil {
			return fmt.Errorf("page: %w", err)
		}
	}
	if _, err := t.AddParseTree("content", content.Tree); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	v := s.visit(w, r)
	v.words = s.look.Load().wording.all[0] // content has words of its own
	if err := s.identify(v); err != nil {
		return err
	}
	p := struct {
		frame
		Data any
	}{s.frame(v, title), data}
	p.Other, p.Slim, p.Same = true, false, ""
	return s.show(v, status, t, &p)
}

// Stylesheet is the pages' style, for pages of others that are to look alike.
func Stylesheet() []byte { return assets.files[path.Base(assetPath("app.css"))].content }

// show answers with a page.
func (s *Server) show(v *visit, status int, t *template.Template, p interface{ around() *frame }) error {
	t, err := s.look.Load().wording.in(v.words, t)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "frame.html", p); err != nil {
		return fmt.Errorf("page %s: %w", t.Name(), err)
	}
	f, h := p.around(), v.w.Header()
	flowHeaders(h)
	if f.Other {
		h.Set("Content-Security-Policy", policy+"; form-action 'self'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	body := b.Bytes()
	if !utf8.Valid(body) { // an address or a field that the page repeats can hold any bytes
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if f.Packed && acceptsGzip(v.r) {
		h.Set("Content-Encoding", "gzip")
		body = packed(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	v.w.WriteHeader(status)
	v.w.Write(body)
	return nil
}

// policy has no form-action: Chromium applies it to every redirect that
// follows a form, and the answer to an approval leads to the client, whose
// callback may lead anywhere. Pages off that way add it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// flowHeaders are those of every answer of this door. There is no
// Cross-Origin-Opener-Policy: each of its values cuts off the client's popup.
// The referrer policy is not no-referrer, which would make browsers send
// "Origin: null" on our own forms.
func flowHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Vary", "Cookie, Accept-Language")
}

// acceptsGzip reads Accept-Encoding (RFC 9110 section 12.5.3).
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighed := strings.Cut(weight, "=")
		n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !weighed || err == nil && n > 0
	}
	return false
}

var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func packed(body []byte) []byte {
	var b bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&b)
	z.Write(body) // a bytes.Buffer takes everything
	z.Close()
	return b.Bytes()
}

// An asset has a name with its hash, so it can be kept for ever.
type assetFile struct {
	content, packed []byte
	kind            string
}

var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".png": "image/png",
}

// An assetSet is what pages fetch, by name with the hash, and the paths of it
// by name without.
type assetSet struct {
	files map[string]assetFile
	paths map[string]string
}

var assets = newAssets(embedded())

func embedded() map[string][]byte {
	files := map[string][]byte{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		if files[e.Name()], err = assetFiles.ReadFile("assets/" + e.Name()); err != nil {
			panic(err) // embedded
		}
	}
	return files
}

func newAssets(files map[string][]byte) *assetSet {
	s := &assetSet{map[string]assetFile{}, map[string]string{}}
	for file, content := range files {
		sum := sha256.Sum256(content)
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		s.files[name] = assetFile{content, packed(content), assetKinds[ext]}
		s.paths[file] = "/assets/" + name
	}
	return s
}

func assetPath(name string) string { return assets.paths[name] }

// asset serves a file under its name with the hash, and no other name.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	f, ok := s.look.Load().assets.files[r.PathValue("file")]
	if !ok {
		s.handle(func(*visit) error { return errNoPage })(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox") // of a drawing opened by itself
	h.Set("Vary", "Accept-Encoding")
	body := f.content
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
