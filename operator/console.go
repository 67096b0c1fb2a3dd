package operator

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/console.css
var consoleStyle []byte

// console is the part of this door that answers in pages. They are made by the
// server and work without script, and are in English alone: operators read the
// log and the API's errors beside them.
type console struct {
	*Server
	style     []byte
	stylePath string
	iconPath  string
	formKey   [32]byte // of this process: a form does not outlive it
}

func newConsole(s *Server) *console {
	c := &console{Server: s, style: append(append([]byte{}, s.Style...), consoleStyle...)}
	sum := sha256.Sum256(c.style)
	c.stylePath = "/assets/console." + hex.EncodeToString(sum[:6]) + ".css"
	sum = sha256.Sum256(s.Icon)
	c.iconPath = "/assets/mark." + hex.EncodeToString(sum[:6]) + ".svg"
	rand.Read(c.formKey[:])
	return c
}

// isConsole tells the console's paths from those that answer in JSON.
func isConsole(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "clients", "approvals", "events", "events.jsonl":
		return true
	}
	return path == "/"
}

// handler gives the pages, behind the password.
func (s *console) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.page(s.overview))
	mux.Handle("GET /clients", s.page(s.clientsPage))
	mux.Handle("GET /clients/{id}", s.page(s.clientPage))
	mux.Handle("GET /clients/{id}/{action}", s.page(s.confirmClient))
	mux.Handle("POST /clients/{id}/{action}", s.page(s.changeClient))
	mux.Handle("GET /approvals", s.page(s.approvalsPage))
	mux.Handle("GET /approvals/{id}/revoke", s.page(s.confirmRevoke))
	mux.Handle("POST /approvals/{id}/revoke", s.page(s.revokePage))
	mux.Handle("GET /events", s.page(s.eventsPage))
	mux.Handle("GET /events.jsonl", s.page(s.eventLines))
	return s.Guard(s.WithNotFound(mux, s.noPage), s.refusePage)
}

func (s *console) noPage(w http.ResponseWriter, c Call, allow string) {
	e := &Error{http.StatusNotFound, "not_found", "There is no such page."}
	if allow != "" {
		e = &Error{http.StatusMethodNotAllowed, "method_not_allowed", "This page cannot be used that way."}
	}
	s.refusePage(w, c, e)
}

// A visit is one request for a page.
type visit struct {
	Call
	w   http.ResponseWriter
	now time.Time
}

// page makes a handler of a function that answers, or returns why it did not.
func (s *console) page(f func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Call: s.NewCall(w, r), w: w, now: s.Store.Now().UTC()}
		if err := f(v); err != nil {
			s.refusePage(w, v.Call, err)
		}
	})
}

func (v *visit) see(to string) error {
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// A frame is what every page has around its main part.
type frame struct {
	Title, Tab string
	Service    string
	Host       string // of the installation, and how many more there are
	Stylesheet string
	Icon       string
	Version    string
	Database   string // how long it took to answer a write
	Degraded   string // why; "" is healthy
	Reference  string
	Signed     bool // the password was right
}

// frame asks the database for a write, as /readyz does, and says how long that
// took.
func (s *console) frame(v *visit, tab, title string) frame {
	f := s.bare(v.Call, title)
	f.Tab, f.Signed = tab, true
	start := time.Now()
	missing := s.Missing(v.Call)
	f.Database = "under 1 ms"
	if took := time.Since(start); took >= time.Millisecond {
		f.Database = fmt.Sprintf("%d ms", took.Milliseconds())
	}
	f.Degraded = strings.Join(missing, ", ")
	return f
}

// bare is a frame that asks nothing.
func (s *console) bare(c Call, title string) frame {
	f := frame{Title: title, Service: s.Service, Stylesheet: s.stylePath, Icon: s.iconPath, Version: s.Version.Version, Reference: c.Reference}
	if hosts := s.hosts(); len(hosts) > 0 {
		_, f.Host, _ = strings.Cut(hosts[0], "://")
		if more := len(hosts) - 1; more > 0 {
			f.Host += fmt.Sprintf(" and %d more", more)
		}
	}
	return f
}

func (s *console) hosts() []string {
	if s.Hosts == nil {
		return nil
	}
	return s.Hosts()
}

var (
	overviewTemplate  = parsePage("overview.html", "parts.html")
	clientsTemplate   = parsePage("clients.html", "parts.html")
	clientTemplate    = parsePage("client.html", "parts.html")
	confirmTemplate   = parsePage("confirm.html")
	approvalsTemplate = parsePage("approvals.html")
	eventsTemplate    = parsePage("events.html", "parts.html")
	refusedTemplate   = parsePage("refused.html")
)

func parsePage(files ...string) *template.Template {
	t := template.New("frame.html").Funcs(template.FuncMap{"number": Number[int], "count": Count})
	for _, file := range append([]string{"frame.html"}, files...) {
		template.Must(t.ParseFS(templateFiles, "templates/"+file))
	}
	return t
}

// show answers with a page and the headers of one (ux 2.1).
func (s *console) show(w http.ResponseWriter, status int, t *template.Template, p any) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "frame.html", p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	h := w.Header()
	pageHeaders(h)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the operator may have gone
	return nil
}

func pageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'; form-action 'self'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Vary", "Cookie, Accept-Language")
}

// A refusedPage says why there is nothing else.
type refusedPage struct {
	frame
	Text   string
	Status int
}

func (s *console) refusePage(w http.ResponseWriter, c Call, err error) {
	e := s.Refusal(c, err)
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	text := []rune(e.Description)
	text[0] = unicode.ToUpper(text[0])
	p := refusedPage{s.bare(c, "Not possible"), strings.TrimSuffix(string(text), ".") + ".", e.Status}
	if err := s.show(w, e.Status, refusedTemplate, &p); err != nil {
		s.Log.ErrorContext(c.Context(), "page failed", "request_id", c.Reference, "err", err)
	}
}

// asset serves style and icon under their names with the hash, and no other
// name. It needs no password.
func (s *console) asset(w http.ResponseWriter, r *http.Request) {
	kind, content := "text/css; charset=utf-8", s.style
	switch r.URL.Path {
	case s.stylePath:
	case s.iconPath:
		kind, content = "image/svg+xml", s.Icon
	default:
		s.refusePage(w, s.NewCall(w, r), &Error{http.StatusNotFound, "not_found", "There is no such page."})
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(content)
}

// formTag is what a form for a path carries, masked. A page of another site
// cannot know it, and the form of one change is none for another.
func (s *console) formTag(path string) []byte {
	mac := hmac.New(sha256.New, s.formKey[:])
	mac.Write([]byte(path))
	return mac.Sum(nil)[:16]
}

// errOldForm is what a form of another process, or of nobody, is told.
var errOldForm = &Error{http.StatusForbidden, "old_form", "This form was made before the server was started, or not by it. Open the page again."}

// form reads the form of a change.
func (s *console) form(v *visit) (url.Values, error) {
	v.Body = http.MaxBytesReader(v.w, v.Body, MaxBody)
	if err := v.ParseForm(); err != nil || v.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return nil, BadRequest("the form cannot be read")
	}
	if !token.Masks(s.formTag(v.URL.Path), v.PostForm.Get("csrf")) {
		return nil, errOldForm
	}
	return v.PostForm, nil
}

// orNotFound makes the store's answer to an unknown ID one for people.
func orNotFound(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return NotFound(what)
	}
	return err
}

// Number writes thousands apart: 12,432.
func Number[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count gives the form of a message that goes with a number.
func Count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, Number(n))
}
