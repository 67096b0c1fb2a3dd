package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"text/template/parse"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
)

//go:embed templates/*.html
var templates embed.FS

// A Frame is what every page has around its main part. Person and what a page
// adds may be text that others wrote: it never becomes a title or a heading on
// the way to an approval.
type Frame struct {
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
	Crumbs    []Crumb
	Demo      *Demo // under dev alone
}

// A Crumb is a link to what a page belongs to: Text is ours, Name is not.
type Crumb struct{ Text, Name, Path string }

// Under says to which organization a page belongs, and to what of it.
func (f *Frame) Under(v *Visit, o org.Organization, more ...Crumb) {
	f.Crumbs = append([]Crumb{{Text: v.Words.Say("home.title").String(), Path: "/"}, {Name: o.Name, Path: "/#of-" + o.ID}}, more...)
}

func (f *Frame) around() *Frame { return f }

// Frame gives what is around a page. title is the id of a message, values what
// it needs.
func (s *Site) Frame(v *Visit, title string, values ...any) Frame {
	f := Frame{Title: v.Words.Say(title, values...).String(), Service: s.Service, Base: v.Base, Person: v.Person, Actor: v.Actor, Stops: v.Acting(),
		Secrets: !s.NoPasswords, Reference: v.Reference(), Slim: true}
	if v.Session != "" {
		f.CSRF = s.Ring.FormToken(v.Session)
		f.Account = f.CSRF
		f.Zone = ZoneText(v.Now.Location())
	}
	f.Same = s.SealPath(v.here())
	f.Demo = s.Demo
	look := s.look.Load()
	f.Logo, f.Help, f.Legal = look.logo, look.branding.Support, look.branding.Links
	return f
}

// TitleOf chooses between the titles of a form: one with a fault says that
// before anything else (ux 10).
func TitleOf(fault, title, wrong string) string {
	if fault != "" {
		return wrong
	}
	return title
}

// Self is who is at the keyboard.
func (f *Frame) Self() org.Person {
	if f.Actor.ID != "" {
		return f.Actor
	}
	return f.Person
}

// Staff reports whether support staff is at the keyboard, as themselves.
func (f *Frame) Staff() bool { return f.Person.Support && f.Actor.ID == "" }

// Host is the server's own, as the address bar shows it.
func (f *Frame) Host() string {
	_, host, _ := strings.Cut(f.Base, "://")
	return host
}

var (
	frameTemplate = template.Must(template.New("frame.html").Funcs((*Words)(nil).functions()).ParseFS(templates, "templates/frame.html", "templates/mark.html"))

	refusedTemplate  = Parse(templates, "refused.html")
	guestTemplate    = Parse(templates, "page.html")
	activityTemplate = Parse(templates, "activity.html")
)

// Parse gives a page in this frame, of embedded files in a folder templates.
func Parse(from embed.FS, files ...string) *template.Template {
	t := template.Must(frameTemplate.Clone())
	for _, file := range files {
		template.Must(t.ParseFS(from, "templates/"+file))
	}
	return t
}

// Mark is the template of the drawing before the service's name, for the frame of
// the operators' pages.
func Mark() *parse.Tree { return frameTemplate.Lookup("mark").Tree.Copy() }

// Page answers with a page of others in the look of these. content is executed with
// data as the main part; it brings its own heading.
func (s *Site) Page(w http.ResponseWriter, r *http.Request, status int, title string, content *template.Template, data any) error {
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
	v := s.Visit(w, r)
	v.Words = s.look.Load().wording.all[0] // content has words of its own
	if err := s.identify(v); err != nil {
		return err
	}
	p := struct {
		Frame
		Data any
	}{s.Frame(v, title), data}
	p.Other, p.Slim, p.Same = true, false, ""
	return s.Show(v, status, t, &p)
}

// Show answers with a page.
func (s *Site) Show(v *Visit, status int, t *template.Template, p interface{ around() *Frame }) error {
	f := p.around()
	f.Secrets = f.Secrets && s.hasPassword(v, f)
	var b bytes.Buffer
	if err := s.render(v, &b, t, "frame.html", p); err != nil {
		return err
	}
	h := v.W.Header()
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
	if f.Packed && ledHere(v.R) && acceptsGzip(v.R) {
		h.Set("Content-Encoding", "gzip")
		body = packed(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	v.W.WriteHeader(status)
	v.W.Write(body)
	return nil
}

// ShowPart answers a script with one part of a page.
func (s *Site) ShowPart(v *Visit, t *template.Template, part string, data any) error {
	var b bytes.Buffer
	if err := s.render(v, &b, t, part, data); err != nil {
		return err
	}
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = v.W.Write(b.Bytes())
	return nil
}

func (s *Site) render(v *Visit, to *bytes.Buffer, t *template.Template, part string, data any) error {
	t, err := s.look.Load().wording.in(v.Words, t)
	if err != nil {
		return err
	}
	if err := t.ExecuteTemplate(to, part, data); err != nil {
		return fmt.Errorf("page %s: %w", t.Name(), err)
	}
	return nil
}

// hasPassword reports whether the menu of a page offers what belongs to a password:
// to whoever has one here. A page is not lost with the answer.
func (s *Site) hasPassword(v *Visit, f *Frame) bool {
	if f.Account == "" || f.Instead != "" || f.Actor.ID != "" {
		return false // such menus offer neither
	}
	_, stored, err := s.Store.Password(v.R.Context(), f.Person.Email)
	return err == nil && stored != ""
}

// policy has no form-action: Chromium applies it to every redirect that
// follows a form, and the answer to an approval leads to the client, whose
// callback may lead anywhere. Pages off that way add it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// PageHeaders sets those of every page, and of what is said to a browser without
// one. There is no Cross-Origin-Opener-Policy: each of its values cuts off the client's popup.
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
