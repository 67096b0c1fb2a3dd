package flows

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A walk is bytes, read as steps: each takes what it likes of them, zeros are right
// values, and where they end everything is zero. So any bytes are a walk.
type walk struct {
	h     *house
	m     *model
	id    string // begins every ID in it
	bytes []byte
	read  int
	cuts  []int // where each step begins
	words []string

	browsers []*browser
	held     []*credential // in the order in which they came
	cookies  []string      // values that nobody may find
	made     int           // numbers values
	began    int64
	looked   int // of held, at the end of steps
	steps    int
	events   map[string]int // what has happened, for the test that much does
}

// A browser is one person's at one host.
type browser struct {
	person *person
	base   int
	jar    map[string]string
	in     *session
	csrf   string // a form token of that session
}

// failed is what stops a walk.
type failed struct{ why string }

func (w *walk) fail(format string, args ...any) { panic(failed{fmt.Sprintf(format, args...)}) }

func (w *walk) byte() byte {
	w.read++
	if w.read > len(w.bytes) {
		return 0
	}
	return w.bytes[w.read-1]
}

// n gives 0 to k-1.
func (w *walk) n(k int) int { return int(w.byte()) % k }

func (w *walk) n64(k int) int64 { return int64(w.n(k)) }

// rarely gives 0 three times in four, and otherwise 1 to k-1.
func (w *walk) rarely(k int) int {
	b := int(w.byte())
	if b < 192 || k < 2 {
		return 0
	}
	return 1 + b%(k-1)
}

// late gives one of a list, half the time the last.
func late[T any](w *walk, all []T) T {
	b := int(w.byte())
	if b < 128 {
		return all[len(all)-1]
	}
	return all[b%len(all)]
}

// mostly gives the first, and now and then another.
func mostly[T any](w *walk, right T, others ...T) T {
	if i := w.rarely(len(others) + 1); i > 0 {
		return others[i-1]
	}
	return right
}

// value makes a value of a walk: marked, so that it is found wherever it should not be.
func (w *walk) value(mark string) string {
	w.made++
	return fmt.Sprintf("%s-%s-%04d-%s", mark, w.id, w.made, strings.Repeat("x", 40-len(mark)))
}

// Marks of values, and what tokens begin with.
const (
	verifierMark = "flowsverifier"
	stateMark    = "flowsstate"
)

func (w *walk) say(format string, args ...any) {
	w.words = append(w.words, "   "+fmt.Sprintf(format, args...))
}

// begins puts the people, organizations and clients of a walk into the house.
func (w *walk) begins() {
	m := w.m
	m.now = w.h.clock.Load()
	w.began = m.now
	for _, name := range []string{"ada", "tor", "eve"} {
		m.people = append(m.people, &person{id: w.id + name, active: true})
	}
	ada, tor, eve := m.people[0], m.people[1], m.people[2]
	ada.key = w.id + "-key-of-ada-for-scripts"
	for _, name := range []string{"nord", "fjell", "havn"} {
		m.orgs = append(m.orgs, &organization{id: w.id + name, ai: name != "havn", members: map[*person]*membership{}})
	}
	for o, who := range [][]*person{{ada, tor}, {ada, tor, eve}, {ada, eve}} {
		for _, p := range who {
			m.orgs[o].members[p] = &membership{admin: o == 0 && p == ada || o == 1 && p == tor}
		}
	}
	role := func(o int, name, circle string, who ...*person) {
		r := &role{w.id + name, w.id + circle, map[*person]bool{}}
		for _, p := range who {
			r.fills[p] = true
		}
		m.orgs[o].roles = append(m.orgs[o].roles, r)
	}
	role(0, "treasurer", "money", ada)
	role(0, "buyer", "money", ada, tor)
	role(0, "guide", "people", tor, ada)
	role(1, "steward", "land", ada, eve)
	role(1, "keeper", "land", tor)
	var d struct {
		Organizations, People, Members, Circles, Roles, Keys []map[string]any
	}
	for _, p := range m.people {
		d.People = append(d.People, map[string]any{"id": p.id, "email": p.id + "@flows.example", "name": "Person " + p.id})
	}
	for _, o := range m.orgs {
		d.Organizations = append(d.Organizations, map[string]any{"id": o.id, "name": "Organization " + o.id, "ai_integration": o.ai})
		for p, at := range o.members {
			d.Members = append(d.Members, map[string]any{"organization": o.id, "person": p.id, "admin": at.admin})
		}
		for _, r := range o.roles {
			if !slices.ContainsFunc(d.Circles, func(c map[string]any) bool { return c["id"] == r.circle }) {
				d.Circles = append(d.Circles, map[string]any{"id": r.circle, "organization": o.id, "name": "Circle " + r.circle})
			}
			var fillers []string
			for p := range r.fills {
				fillers = append(fillers, p.id)
			}
			d.Roles = append(d.Roles, map[string]any{"id": r.id, "organization": o.id, "circle": r.circle, "name": "Role " + r.id, "fillers": fillers})
		}
	}
	d.Keys = append(d.Keys, map[string]any{"key": ada.key, "organization": m.orgs[0].id, "person": ada.id, "name": "Script"})
	body, _ := json.Marshal(map[string]any{"organizations": d.Organizations, "people": d.People, "members": d.Members, "circles": d.Circles, "roles": d.Roles, "api_keys": d.Keys})
	w.operate("POST", "/v1/directory", string(body), 200)
	for base := range bases {
		for _, p := range m.people {
			w.browsers = append(w.browsers, &browser{person: p, base: base, jar: map[string]string{}})
		}
	}
	c := &client{id: w.id + "-connector", name: "Connector", host: "connector." + w.id + ".example", preregistered: true, by: map[*person]bool{}}
	c.redirects = []string{"https://" + c.host + "/cb"}
	w.operate("POST", "/v1/clients", fmt.Sprintf(`{"client_id":%q,"client_name":"Connector","redirect_uris":[%q]}`, c.id, c.redirects[0]), 200)
	m.clients = append(m.clients, c)
	w.register("app0." + w.id + ".example")
}

// register registers a client as it should be.
func (w *walk) register(host string) {
	c := &client{host: host, name: "App at " + host, by: map[*person]bool{}}
	c.redirects = []string{"https://" + host + "/cb", "https://" + host + "/other?x=1"}
	text, _ := json.Marshal(map[string]any{"client_name": c.name, "redirect_uris": c.redirects})
	r := request{method: "POST", path: "/oauth/register", host: w.host(0), body: string(text)}
	r.set("Content-Type", "application/json")
	a := w.ask(r, want{status: []int{201}})
	if c.id, c.registered = a.text("client_id"), w.m.now; c.id == "" || !w.isNow(a.fields()["client_id_issued_at"]) || a.text("client_name") != c.name || a.text("scope") != "api" {
		w.fail("the registration says %s", a.body)
	}
	w.m.clients = append(w.m.clients, c)
	w.say("client %d is %s", len(w.m.clients)-1, host)
}

// isNow reports whether a time that was answered is that of the answer.
func (w *walk) isNow(at any) bool {
	t, _ := at.(float64)
	return t == float64(w.m.now) || w.h.real && t-float64(w.m.now) < 600 && t >= float64(w.began)-1
}

func (w *walk) host(base int) string { return strings.TrimPrefix(bases[base], "https://") }

// operate asks the operators' API for what it has to do.
func (w *walk) operate(method, path, body string, status ...int) answer {
	a, err := w.h.operate(method, path, body)
	if err != nil || !slices.Contains(status, a.status) {
		w.fail("operators: %s %s %s: %v %d %s", method, path, body, err, a.status, a.body)
	}
	return a
}

// ask sends a request to the public listener from an address of its own, and holds the
// answer to what is wanted.
func (w *walk) ask(r request, of want) answer {
	w.h.walks++ // each request has an address of its own: the limits are another test's
	n := w.h.walks
	r.set("X-Forwarded-For", fmt.Sprintf("%d.%d.%d.%d", 20+n>>24&63, n>>16&255, n>>8&255, n&255))
	a, err := w.h.public.do(r)
	if err != nil {
		w.fail("%s %s: %v", r.method, r.path, err)
	}
	w.holds(r, a)
	w.wanted(r, a, of)
	return a
}

// holds checks what is true of every answer.
func (w *walk) holds(r request, a answer) {
	path, _, _ := strings.Cut(r.path, "?")
	api := strings.HasPrefix(path, "/api/")
	if a.status >= 500 {
		w.fail("%s %s: %d %s", r.method, path, a.status, a.body)
	}
	if cache := a.header.Get("Cache-Control"); !strings.HasPrefix(path, "/.well-known/") && !strings.Contains(cache, "no-store") {
		w.fail("%s %s: %d is not no-store but %q", r.method, path, a.status, cache)
	}
	given := path == "/oauth/token" && a.status == 200
	for _, mark := range []string{"svo_", "svr_", "svc_", verifierMark, w.id + "-key-of"} {
		if strings.Contains(a.body, mark) && !given && (mark[0] != 's' || w.told(a.body)) {
			w.fail("%s %s: %d tells %s: %s", r.method, path, a.status, mark, short(a))
		}
	}
	if (api || strings.HasPrefix(path, "/oauth/") && path != "/oauth/authorize") && strings.Contains(a.body, stateMark) {
		w.fail("%s %s: %d tells a state", r.method, path, a.status)
	}
	for _, cookie := range w.cookies {
		if strings.Contains(a.body, cookie) {
			w.fail("%s %s: %d tells a cookie", r.method, path, a.status)
		}
	}
	if a.status >= 400 && (api || path == "/oauth/token" || path == "/oauth/revoke" || path == "/oauth/register") && r.method != "HEAD" && a.text("error") == "" && a.fields()["jsonrpc"] == nil {
		w.fail("%s %s: %d has no error: %s", r.method, path, a.status, a.body)
	}
	if challenge := a.header.Get("WWW-Authenticate"); (challenge != "") != (a.status == 401) && api {
		w.fail("%s %s: %d with the challenge %q", r.method, path, a.status, challenge)
	}
	if a.status == 429 {
		w.fail("%s %s: 429: a walk was not to reach a limit", r.method, path)
	}
	if a.status == 302 || a.status == 307 || a.status == 308 { // A10
		w.fail("%s %s: %d", r.method, path, a.status)
	}
}

// told reports whether a text has a token: what is sealed looks like the beginning of one by
// chance.
func (w *walk) told(text string) bool {
	return slices.ContainsFunc(w.held, func(x *credential) bool { return strings.Contains(text, x.text[:24]) })
}

func (w *walk) wanted(r request, a answer, of want) {
	if of.free {
		return
	}
	if !slices.Contains(of.status, a.status) {
		w.fail("got %d, want %v: %s %s", a.status, of.status, a.header.Get("Location"), short(a))
	}
	where, q := a.location()
	switch {
	case of.to != "":
		to, own, _ := strings.Cut(of.to, "?")
		if where != to || !strings.HasPrefix(a.header.Get("Location"), to+"?"+own) {
			w.fail("leads to %q, want %q", where, of.to)
		}
		if q.Get("iss") != "https://"+r.host { // A5
			w.fail("iss is %q at %s", q.Get("iss"), r.host)
		}
		if q.Get("error") != of.code || (of.code != "") == q.Has("code") {
			w.fail("got error %q, want %q; a code: %v", q.Get("error"), of.code, q.Has("code"))
		}
	case a.status == 303 && !strings.HasPrefix(where, "/") || a.status != 303 && where != "":
		w.fail("%d leads to %q", a.status, where)
	case of.code != "" && a.text("error") != of.code:
		w.fail("got error %q, want %q: %s", a.text("error"), of.code, short(a))
	}
	if of.realm {
		w.challenged(r, a, of.reject)
	}
}

// challenged checks the challenge of a 401 (spec 5.7, B1, B2).
func (w *walk) challenged(r request, a answer, reject bool) {
	path, _, _ := strings.Cut(r.path, "?")
	text := `Bearer realm="` + service + `"`
	if path == "/api/v5/mcp" {
		text += `, resource_metadata="https://` + r.host + `/.well-known/oauth-protected-resource/api/v5/mcp"`
	} else if strings.HasPrefix(path, "/api/v5") {
		text += `, resource_metadata="https://` + r.host + `/.well-known/oauth-protected-resource/api/v5"`
	}
	if reject {
		text += `, error="invalid_token"`
	}
	if got := a.header.Values("WWW-Authenticate"); len(got) != 1 || got[0] != text {
		w.fail("challenged with %q, want %q", got, text)
	}
}

func short(a answer) string {
	if len(a.body) > 300 {
		if at := strings.Index(a.body, "<h1"); at >= 0 {
			return a.body[at:min(len(a.body), at+700)]
		}
		return a.body[:300]
	}
	return a.body
}

// visit is a request of a browser, with its cookies, which it keeps.
func (w *walk) visit(b *browser, r request, of want) answer {
	r.host = w.host(b.base)
	if len(b.jar) > 0 {
		var all []string
		for name, value := range b.jar {
			all = append(all, name+"="+value)
		}
		r.set("Cookie", strings.Join(all, "; "))
	}
	a := w.ask(r, of)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.MaxAge < 0 || c.Value == "" {
			delete(b.jar, c.Name)
			continue
		}
		b.jar[c.Name] = c.Value
		if len(c.Value) > 16 {
			w.cookies = append(w.cookies, c.Value)
		}
	}
	if b.in != nil && w.m.alive(b.in) {
		b.in.used = w.m.now
	}
	return a
}

// signsIn signs a browser's person in by the hand-off.
func (w *walk) signsIn(b *browser) bool {
	if w.m.alive(b.in) {
		return true
	}
	b.in, b.jar, b.csrf = nil, map[string]string{}, ""
	a := w.visit(b, request{method: "GET", path: "/signin/with/handoff"}, want{status: []int{303}, free: true})
	_, q := a.location()
	assertion, err := w.h.assertion(bases[b.base], q.Get("challenge"), b.person.id)
	if err != nil || a.status != 303 {
		w.fail("hand-off: %v, %d", err, a.status)
	}
	of := status(303)
	if !b.person.active {
		of = status(403)
	}
	w.visit(b, request{method: "GET", path: "/signin/callback/handoff?assertion=" + url.QueryEscape(assertion)}, of)
	if b.person.active {
		b.in = &session{person: b.person, base: b.base, began: w.m.now, used: w.m.now}
	}
	return b.person.active
}

// holdsStill looks at one credential as operators see it: whatever was refused, and whatever
// else has moved, the server has to stand where the model stands.
func (w *walk) holdsStill(x *credential) {
	if x.kind == "code" && x.of.page.from != x.of { // whether the next answer of the page has its row, is open
		return
	}
	a := w.operate("POST", "/v1/tokens/inspect", fmt.Sprintf(`{"token":%q}`, x.text), 200)
	if got, of := a.text("state"), w.m.stateOf(x); !slices.Contains(of, got) {
		w.fail("the %s of approval %d is %s, want %v: %s", x.kind, x.of.n, got, of, a.text("reason"))
	}
	if a.text("person") != x.of.person.id || a.text("organization") != x.of.org.id || a.text("client_id") != x.of.client.id {
		w.fail("the %s of approval %d is of %s", x.kind, x.of.n, a.body)
	}
	x.of.id = a.text("approval")
}

// stateOf is what may be said of a credential.
func (m *model) stateOf(x *credential) []string {
	a := x.of
	m.lives(a)
	switch {
	case a.phase == ended:
		return []string{"ended"}
	case x.kind == "code" && x.issued != a.issuedAt: // swept as never connected, or not yet
		return []string{"expired", "used", "ended"}
	case x.kind == "code" && a.phase == live, x.kind == "refresh" && x.generation != a.generation:
		return []string{"used"}
	case x.kind == "code" && m.now >= a.issuedAt+codeLife:
		return []string{"expired", "ended"}
	case x.kind == "access" && m.now >= x.expires:
		return []string{"expired"}
	}
	return []string{"valid"}
}
