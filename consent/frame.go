package consent

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
)

//go:embed templates/*.html
var templateFiles embed.FS

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
	Account   string // the session's form token, for the account's menu; a page's CSRF may be another
	Instead   string // sealed: on the way somewhere, what another account would go on to
	Secrets   bool   // the person has a password, and can have second factors, here
	Slim      bool   // one narrow column
	Wide      bool   // room for a table
	Other     bool   // not on the way to an approval: may post to this server alone
	Script    bool   // has the consent page's script
	Packed    bool   // may be compressed, when no other site led here
	Logo      string // its path; empty: the shield
	Help      string // URL; empty where there is none
	Legal     []Link
	Zone      string // in which times are said; empty where nobody is signed in, and there are none
	Same      string // sealed: the page's own address, to come back to in another language
	Crumbs    []crumb
	Demo      *Demo // under dev alone
}

// A crumb is a link to what a page belongs to: Text is ours, Name is not.
type crumb struct{ Text, Name, Path string }

// under says to which organization a page belongs, and to what of it.
func (f *frame) under(v *visit, o org.Organization, more ...crumb) {
	f.Crumbs = append([]crumb{{Text: v.words.say("home.title").String(), Path: "/"}, {Name: o.Name, Path: "/#of-" + o.ID}}, more...)
}

func (f *frame) around() *frame { return f }

// frame gives what is around a page. title is the id of a message, values what
// it needs.
func (s *Server) frame(v *visit, title string, values ...any) frame {
	f := frame{Title: v.words.say(title, values...).String(), Service: s.Service, Base: v.base, Person: v.person, Actor: v.actor, Stops: v.acting(),
		Secrets: !s.Ways.NoPasswords, Reference: v.reference(), Slim: true}
	if v.session != "" {
		f.CSRF = s.Ring.FormToken(v.session)
		f.Account = f.CSRF
		f.Zone = zoneText(v.now.Location())
	}
	f.Same = s.sealPath(v.here())
	f.Demo = s.Demo
	look := s.look.Load()
	f.Logo, f.Help, f.Legal = look.logo, look.branding.Support, look.branding.Links
	return f
}

// titleOf chooses between the titles of a form: one with a fault says that
// before anything else (ux 10).
func titleOf(fault, title, wrong string) string {
	if fault != "" {
		return wrong
	}
	return title
}

// Self is who is at the keyboard.
func (f *frame) Self() org.Person {
	if f.Actor.ID != "" {
		return f.Actor
	}
	return f.Person
}

// Staff reports whether support staff is at the keyboard, as themselves.
func (f *frame) Staff() bool { return f.Person.Support && f.Actor.ID == "" }

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
	everyTemplate   = parsePage("every.html")
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
	forgotTemplate  = parsePage("forgot.html")
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

// show answers with a page.
func (s *Server) show(v *visit, status int, t *template.Template, p interface{ around() *frame }) error {
	t, err := s.look.Load().wording.in(v.words, t)
	if err != nil {
		return err
	}
	f := p.around()
	f.Secrets = f.Secrets && s.hasPassword(v, f)
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "frame.html", p); err != nil {
		return fmt.Errorf("page %s: %w", t.Name(), err)
	}
	h := v.w.Header()
	PageHeaders(h)
	policy := policy
	if f.Script { // it asks what the choices give
		policy += "; connect-src 'self'"
	}
	if f.Other {
		policy += "; form-action 'self'"
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	body := b.Bytes()
	if !utf8.Valid(body) { // an address or a field that the page repeats can hold any bytes
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if f.Packed && ledHere(v.r) && acceptsGzip(v.r) {
		h.Set("Content-Encoding", "gzip")
		body = packed(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	v.w.WriteHeader(status)
	v.w.Write(body)
	return nil
}

// hasPassword reports whether the menu of a page offers what belongs to a password:
// to whoever has one here. A page is not lost with the answer.
func (s *Server) hasPassword(v *visit, f *frame) bool {
	if f.Account == "" || f.Instead != "" || f.Actor.ID != "" {
		return false // such menus offer neither
	}
	_, stored, err := s.Store.Password(v.r.Context(), f.Person.Email)
	return err == nil && stored != ""
}

// policy has no form-action: Chromium applies it to every redirect that
// follows a form, and the answer to an approval leads to the client, whose
// callback may lead anywhere. Pages off that way add it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// PageHeaders sets those of every answer of this door, and of what is said to
// a browser without it. There is no
// Cross-Origin-Opener-Policy: each of its values cuts off the client's popup.
// The referrer policy is not no-referrer, which would make browsers send
// "Origin: null" on our own forms.
func PageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Vary", "Cookie, Accept-Language")
}
