package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

var (
	overviewTemplate      = parsePage("overview.html", "parts.html")
	clientsTemplate       = parsePage("clients.html", "parts.html")
	clientTemplate        = parsePage("client.html", "parts.html")
	confirmTemplate       = parsePage("confirm.html")
	approvalsTemplate     = parsePage("approvals.html")
	eventsTemplate        = parsePage("events.html", "parts.html")
	refusedTemplate       = parsePage("refused.html")
	signInTemplate        = parsePage("signin.html")
	changeTemplate        = parsePage("change.html")
	peopleTemplate        = parsePage("people.html")
	personTemplate        = parsePage("person.html", "parts.html")
	organizationsTemplate = parsePage("organizations.html")
	organizationTemplate  = parsePage("organization.html")
	membersTemplate       = parsePage("members.html")
	healthTemplate        = parsePage("health.html")
	explainTemplate       = parsePage("explain.html", "parts.html")
	activityTemplate      = parsePage("activity.html", "parts.html")
	inspectTemplate       = parsePage("inspect.html")
	linkTemplate          = parsePage("link.html")
	attemptsTemplate      = parsePage("attempts.html", "attemptparts.html")
	attemptTemplate       = parsePage("attempt.html", "attemptparts.html")
)

func parsePage(files ...string) *template.Template {
	t := template.New("frame.html").Funcs(template.FuncMap{"number": operator.Number[int], "count": operator.Count, "words": withSpaces, "eleven": func(n int) int { return 11 * n }})
	template.Must(t.AddParseTree("mark", page.Mark()))
	for _, file := range append([]string{"frame.html"}, files...) {
		template.Must(t.ParseFS(templateFiles, "templates/"+file))
	}
	return t
}

// A frame is what every page has around its main part.
type frame struct {
	Title, Tab string
	Service    string
	Host       string // the first of the installation, and how many more it has
	Stylesheet string
	Icon       string
	Version    string
	Database   string // how long it took to answer a write, in words
	Degraded   string // what is missing; "" is healthy
	Reference  string
	SignedIn   bool // somebody is
	Slim       bool // narrow, for one form
	Script     string
	Zone       string // in which times are said
	Tabs       []tab
	Faults     int    // that the checks found last
	Worst      string // of them; "" is none
	Who        whoView

	s *Server
	v *visit
}

// A tab is one way through the console, in the order of the page.
type tab struct{ ID, Path, Name string }

var tabs = []tab{
	{"overview", "/", "Overview"},
	{"attempts", "/attempts", "Attempts"},
	{"clients", "/clients", "Clients"},
	{"approvals", "/approvals", "Approvals"},
	{"people", "/people", "People"},
	{"organizations", "/organizations", "Organizations"},
	{"events", "/events", "Events"},
	{"health", "/health", "Health"},
}

// A whoView is who is signed in, as every page shows it. Its Name is "" for who knows
// the shared password.
type whoView struct {
	Name, Initials, Email string
	Rights                string // after the word may
	CSRF                  string // to sign out
}

func (s *Server) whoView(c operator.Call) whoView {
	n := c.Who.Named
	if n.Name == "" {
		return whoView{}
	}
	return whoView{n.Name, strings.ToUpper(n.Name[:1]), n.Email, n.Rights.Words(), s.formTag(c.Who.Session, "/signout")}
}

// May reports whether who sees the page may go by a path of the table of routes.
func (f frame) May(path string) bool { return f.s.mayAt(f.v, path) }

// frame is the frame of a page behind the password. It asks the database for a
// write, as /readyz does, and says how long that took.
func (s *Server) frame(v *visit, under, title string) frame {
	f := s.bareFrame(v.Call, title)
	f.Tab, f.SignedIn, f.s, f.v = under, true, s, v
	f.Tabs, f.Who = tabs, s.whoView(v.Call)
	if s.Doctor == nil {
		f.Tabs = slices.DeleteFunc(slices.Clone(tabs), func(t tab) bool { return t.ID == "health" })
	}
	report := s.health.known()
	f.Faults, f.Worst = report.count("fail"), report.worst()
	start := time.Now()
	missing := s.API.Missing(v.Call)
	f.Database = "under 1 ms"
	if took := time.Since(start); took >= time.Millisecond {
		f.Database = fmt.Sprintf("%d ms", took.Milliseconds())
	}
	f.Degraded = strings.Join(missing, ", ")
	return f
}

// bareFrame is a frame without tabs, of a refusal. It reads no database.
func (s *Server) bareFrame(c operator.Call, title string) frame {
	f := frame{
		Title: title, Service: s.Service, Stylesheet: s.assets.stylePath, Icon: s.assets.iconPath, Script: s.assets.scriptPath,
		Version: s.API.Version.Version, Reference: c.Reference, Zone: page.ZoneText(zoneOf(c.Request)),
	}
	if s.Hosts == nil {
		return f
	}
	if hosts := s.Hosts(); len(hosts) > 0 {
		_, f.Host, _ = strings.Cut(hosts[0], "://")
		if more := len(hosts) - 1; more > 0 {
			f.Host += fmt.Sprintf(" and %d more", more)
		}
	}
	return f
}

// render answers with a page and the headers of one (ux 2.1).
func (s *Server) render(w http.ResponseWriter, status int, t *template.Template, p any) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "frame.html", p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	h := w.Header()
	page.PageHeaders(h)
	// No form here leads to another site, and no other site has these pages open.
	h.Set("Content-Security-Policy", h.Get("Content-Security-Policy")+"; form-action 'self'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may have closed the connection
	return nil
}

// sentence makes one of a description of the API.
func sentence(description string) string {
	text := []rune(strings.TrimSuffix(description, "."))
	text[0] = unicode.ToUpper(text[0])
	return string(text) + "."
}

// A refusedPage says why a request was refused.
type refusedPage struct {
	frame
	Text   string
	Status int
}

// refuse answers with the page of a refusal.
func (s *Server) refuse(w http.ResponseWriter, c operator.Call, err error) {
	e := s.API.Refusal(c, err)
	if wait, ok := errors.AsType[operator.TooMany](err); ok {
		w.Header().Set("Retry-After", limit.RetryAfter(wait.Wait))
	}
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	s.API.TellFault(w, e)
	f := s.bareFrame(c, "Not possible")
	f.Who = s.whoView(c)
	p := refusedPage{f, sentence(e.Description), e.Status}
	if err := s.render(w, e.Status, refusedTemplate, &p); err != nil {
		s.API.Log.ErrorContext(c.Context(), "page failed", "request_id", c.Reference, "err", err)
	}
}
