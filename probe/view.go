package probe

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

// A view is an inquiry, read: what stands where.
type view struct {
	q     *Inquiry
	given *url.URL // nil when it is no URL that may be asked

	get    Answer // to GET of it
	called bool   // get is there
	ping   Answer // to a message of MCP
	pinged bool
	issuer bool // it is one, by its metadata

	challenged bool      // one of the two was answered 401
	answer     Answer    // that one, or the last
	header     bool      // it has WWW-Authenticate
	bearer     challenge // the one of Bearer; zero when there is none
	named      string    // the metadata that it names

	prm      document   // metadata of the resource that a client uses
	prms     []document // all that were looked for
	resource string     // its identifier, or the URL where it has none
	servers  []*server
}

// A server is an authorization server that is looked at.
type server struct {
	issuer string
	typed  bool // its issuer is the address that was given, or its host, and no document names it
	docs   []document
	doc    document // the one that a client uses
}

func (s *server) documents() []Request {
	u, ok := parse(s.issuer)
	if !ok || u.RawQuery != "" {
		return nil
	}
	return documents(issuerDocuments(u))
}

// view reads what was answered so far.
func (q *Inquiry) view() *view {
	v := &view{q: q}
	u, ok := parse(q.URL)
	if !ok {
		return v
	}
	v.given = u
	v.get, v.called = q.find("call", "")
	v.ping, v.pinged = q.find("ping", "")
	v.readIssuer()
	v.readChallenge()
	if v.issuer {
		v.servers = []*server{v.server(q.URL, true)}
		return v
	}
	v.readResource()
	v.readServers()
	return v
}

// likesPOST reports whether GET was answered as MCP endpoints do that take POST alone,
// or begin a session first, or wait with all of a stream for its first event.
func (v *view) likesPOST() bool {
	return v.get.Error == Slow || v.get.Status == 400 || v.get.Status == 405 || v.get.Status == 406 || strings.HasPrefix(v.get.Type, "text/event-stream")
}

// readIssuer finds out whether the URL is an issuer: nothing challenged, and metadata
// of it are there that name it.
func (v *view) readIssuer() {
	if v.get.Status == 401 || v.ping.Status == 401 {
		return
	}
	for _, address := range issuerDocuments(v.given) {
		d := v.q.document(address)
		said, _ := d.text("issuer")
		v.issuer = v.issuer || d.usable() && said != "" && sameButSlash(said, v.q.URL)
	}
}

func (v *view) readChallenge() {
	v.answer = v.get
	if v.pinged {
		v.answer = v.ping
	}
	v.challenged = v.answer.Status == 401
	v.header = len(v.answer.Challenges) > 0
	if !v.challenged {
		return
	}
	for _, c := range challenges(v.answer.Challenges) {
		if c.bearer() && v.named == "" {
			v.bearer, v.named = c, c.params["resource_metadata"]
		}
	}
}

// resourceAddresses are all places where metadata of the resource are looked for.
func (v *view) resourceAddresses() (all []string) {
	if v.named != "" {
		all = append(all, v.named)
	}
	for _, a := range resourceDocuments(v.given) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// readResource takes the metadata that a client would: those which the challenge
// names, or else the first that are there.
func (v *view) readResource() {
	for _, a := range v.resourceAddresses() {
		v.prms = append(v.prms, v.q.document(a))
	}
	for _, d := range v.prms {
		if !v.prm.usable() && d.usable() {
			v.prm = d
		}
	}
	if v.resource, _ = v.prm.text("resource"); v.resource == "" {
		v.resource = v.q.URL
	}
}

func (v *view) readServers() {
	if first := v.prms[0].answer; !v.prm.usable() && (first.Error != "" || first.Status == 429) {
		return // nobody knows whether there are such metadata
	}
	if !v.prm.usable() { // as before there was such metadata, or an issuer that calls itself otherwise
		for _, base := range []string{v.q.URL, origin(v.given)} {
			if s := v.server(base, true); s.doc.usable() && len(v.servers) == 0 {
				v.servers = []*server{s}
			}
		}
		return
	}
	issuers, _, _ := v.prm.list("authorization_servers")
	for _, issuer := range issuers {
		if len(v.servers) < mostServers && !slices.ContainsFunc(v.servers, func(s *server) bool { return s.issuer == issuer }) {
			v.servers = append(v.servers, v.server(issuer, false))
		}
	}
}

// root are the metadata at the root of the host, where clients of 2025-03-26 look.
func (v *view) root() document {
	return v.q.document(origin(v.given) + "/.well-known/oauth-authorization-server")
}

// server gathers the metadata of an issuer. A client uses the first that are there and
// say so.
func (v *view) server(issuer string, typed bool) *server {
	s := &server{issuer: issuer, typed: typed}
	for _, r := range s.documents() {
		s.docs = append(s.docs, v.q.document(r.URL))
	}
	for _, exact := range []bool{true, false} {
		for _, d := range s.docs {
			said, _ := d.text("issuer")
			if !s.doc.usable() && d.usable() && (said == issuer || !exact) {
				s.doc = d
			}
		}
	}
	if said, _ := s.doc.text("issuer"); typed && said != "" && sameButSlash(said, issuer) {
		s.issuer = said
	}
	return s
}

// endpoint says what is wrong with an address that metadata name; "" when clients may
// go there.
func (v *view) endpoint(d document, name string) string {
	raw, there := d.text(name)
	if !there {
		return name + " is missing"
	}
	return v.address(name, raw)
}

func (v *view) address(name, raw string) string {
	u, ok := parse(raw)
	local := v.given != nil && privateName(v.given.Hostname())
	switch {
	case !ok:
		return name + " is no URL to go to: " + shown(raw)
	case privateName(u.Hostname()) && !local:
		return name + " is a private address, which only the server's own network reaches: " + shown(raw)
	case u.Scheme != "https" && !client.Loopback(u.Hostname()):
		return name + " is not https: " + shown(raw)
	}
	return ""
}

// status names an HTTP status, and where it leads.
func status(a Answer) string {
	if a.Error != "" {
		return failures[a.Error]
	}
	if a.Location != "" {
		at, _, _ := strings.Cut(a.Location, "?") // behind it may be what opens something
		return strconv.Itoa(a.Status) + " to " + shown(at)
	}
	return strconv.Itoa(a.Status)
}
