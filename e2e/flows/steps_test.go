package flows

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// steps are what a walk can do next. What leads on stands there more often.
var steps = []func(*walk){
	(*walk).connects, (*walk).connects, (*walk).connects, (*walk).connects, (*walk).connects,
	(*walk).asks, (*walk).answers, (*walk).answers, (*walk).answers,
	(*walk).exchanges, (*walk).exchanges, (*walk).exchanges,
	(*walk).refreshes, (*walk).refreshes, (*walk).refreshes, (*walk).refreshes,
	(*walk).revokes, (*walk).calls, (*walk).calls, (*walk).calls,
	(*walk).toolCalls, (*walk).toolCalls, (*walk).decisions, (*walk).forwarded,
	(*walk).endsApp, (*walk).edits, (*walk).edits,
	(*walk).members, (*walk).roles, (*walk).ruled, (*walk).ruled,
	(*walk).facts, (*walk).passes, (*walk).passes, (*walk).passes,
	(*walk).registers, (*walk).comesAndGoes, (*walk).oddities,
}

// step takes one.
func (w *walk) step() {
	w.cuts = append(w.cuts, w.read)
	w.steps++
	w.words = append(w.words, fmt.Sprintf("%d.", w.steps))
	steps[w.n(len(steps))](w)
	if len(w.held) > 0 { // one of the latest, and one in turn
		w.looked++
		w.holdsStill(w.held[[]int{len(w.held) - 1, w.looked % len(w.held)}[w.looked%2]])
	}
}

func (w *walk) did(what string) { w.events[what]++ }

// pairs are parameters in order.
type pairs [][2]string

func (p pairs) encode() string {
	var all []string
	for _, one := range p {
		all = append(all, url.QueryEscape(one[0])+"="+url.QueryEscape(one[1]))
	}
	return strings.Join(all, "&")
}

var hostile = []string{"", " ", "null", "<script>alert(1)</script>", "'; DROP TABLE approval; --", "../../etc/passwd", "\u202egnp.exe", "svr_0", "a&b=c", "\r\nX-Evil: 1", strings.Repeat("A", 3000), "https://evil.example/"}

// tampered is a form that is posted, now and then not as it should be.
func (w *walk) tampered(r request, p pairs) request {
	r.method, r.host = "POST", cmp.Or(r.host, w.host(0))
	kind := formType
	at := w.n(len(p))
	body := ""
	how := 0
	if b := w.byte(); b > 200 {
		how = 1 + int(b)%16
	}
	switch how {
	case 1:
		p = slices.Delete(slices.Clone(p), at, at+1)
	case 2:
		p = append(slices.Clone(p), p[at])
	case 3:
		p = append(slices.Clone(p), [2]string{p[at][0], "other"})
	case 4:
		p = append(slices.Clone(p), [2]string{p[at][0], ""})
	case 5:
		p[at][1] = hostile[w.n(len(hostile))]
	case 6:
		p = append(slices.Clone(p), [2]string{"unknown", hostile[w.n(len(hostile))]})
	case 7:
		kind = []string{"text/plain", "application/json", "", "multipart/form-data; boundary=x"}[w.n(4)]
	case 8:
		r.method = []string{"GET", "PUT", "DELETE", "PATCH", "HEAD"}[w.n(5)]
	case 9:
		r.set("Authorization", []string{"Basic Y2xpZW50OnNlY3JldA==", "Bearer x", ""}[w.n(3)])
	case 10:
		p = append(slices.Clone(p), [2]string{"client_secret", []string{"", "secret"}[w.n(2)]})
	case 11:
		r.path, body = r.path+"?"+p.encode(), " "
	case 12:
		p = append(slices.Clone(p), [2]string{"scope", []string{"api", "admin", "api api", ""}[w.n(4)]})
	case 13:
		base := "https://" + r.host
		p = append(slices.Clone(p), [2]string{"resource", []string{base, base + "/api/v5/mcp", base + "/api/v5/x", "https://evil.example", base + "/api/v4", bases[1]}[w.n(6)]})
	case 14:
		body = p.encode() + []string{"&x=%zz", "&x=%ff", "&x=a%00b", "&%=1"}[w.n(4)]
	case 15:
		p[at][1], p[0][1] = p[0][1], p[at][1]
	case 16:
		p[at][0] = strings.ToUpper(p[at][0])
	}
	if how > 0 {
		w.say("tampered with: %d at %s", how, p[min(at, len(p)-1)][0])
		w.did("tampered")
	}
	if r.body = strings.TrimSpace(body); body == "" {
		r.body = p.encode()
	}
	if r.method == "GET" || r.method == "HEAD" {
		r.path, r.body = r.path+"?"+r.body, ""
	}
	if kind != "" {
		r.set("Content-Type", kind)
	}
	return r
}

// --- from the request to the first tokens

// connects goes the whole way, with everything right but what is chosen.
func (w *walk) connects() {
	if p := w.askFor(w.browser(), late(w, w.m.clients), false); p != nil {
		if x := w.answer(p, false); x != nil && w.n(5) < 4 {
			w.exchange(x, false)
		}
	}
}

func (w *walk) browser() *browser { return w.browsers[(w.n(3)+3*w.rarely(2))%len(w.browsers)] }

func (w *walk) asks() { w.askFor(w.browser(), late(w, w.m.clients), true) }

// askFor is GET /oauth/authorize, signed in or not.
func (w *walk) askFor(b *browser, c *client, wild bool) *page {
	if !wild || w.rarely(2) == 0 {
		if !w.signsIn(b) {
			return nil
		}
	}
	verifier, state := w.value(verifierMark), w.value(stateMark)
	sum := sha256.Sum256([]byte(verifier))
	p := pairs{{"response_type", "code"}, {"client_id", c.id}, {"redirect_uri", c.redirects[w.n(len(c.redirects))]}, {"state", state},
		{"code_challenge", base64.RawURLEncoding.EncodeToString(sum[:])}, {"code_challenge_method", "S256"}}
	w.say("%s asks at host %d for client %d", b.person.id, b.base, slices.Index(w.m.clients, c))
	if at := w.n(len(p)); wild {
		switch how := w.rarely(14); how {
		case 1:
			p = slices.Delete(p, at, at+1)
		case 2:
			p = append(p, p[at])
		case 3:
			p = append(p, [2]string{p[at][0], ""})
		case 4, 5:
			p[at][1] = hostile[w.n(len(hostile))]
		case 6:
			p[5][1] = []string{"plain", "s256", "S512"}[w.n(3)]
		case 7:
			p = append(p, [2]string{"scope", []string{"api", "admin", "openid"}[w.n(3)]})
		case 8:
			p = append(p, [2]string{"resource", []string{bases[b.base] + "/api/v5/mcp", "https://evil.example", bases[1-b.base]}[w.n(3)]})
		case 9:
			p[0][1] = []string{"token", "code token", "none"}[w.n(3)]
		case 10:
			p[2][1] += []string{"/", "?", "#x", "%2e", "&code=1"}[w.n(5)]
		case 11:
			p[3][1] = strings.Repeat("s", 4095+w.n(3))
		case 12:
			p[4][1] += []string{"A", "=", "+"}[w.n(3)]
		case 13:
			p = append(p, [2]string{"prompt", "none"}, [2]string{"response_mode", "fragment"})
		}
		w.say("as %s", strings.ReplaceAll(fmt.Sprintf("%.300v", p), w.id, ""))
	}
	of := w.m.authorize(b.base, p.encode(), b.in)
	a := w.visit(b, request{method: "GET", path: "/oauth/authorize?" + p.encode()}, of)
	if of.to != "" {
		if _, q := a.location(); q.Get("state") != returned(p) {
			w.fail("state comes back as %q", q.Get("state"))
		}
	}
	if of.gives == nil {
		w.did(fmt.Sprint("asked in vain ", a.status))
		return nil
	}
	w.did("asked")
	page := of.gives
	if page.request, page.verifier = a.hidden("request"), verifier; page.request == "" {
		w.did("page without a form")
		return nil
	}
	_, rest, _ := strings.Cut(a.body, page.request)
	page.csrf = answer{body: rest}.hidden("csrf")
	w.m.forms[page.csrf] = b.in
	b.csrf = page.csrf
	w.m.pages = append(w.m.pages, page)
	return page
}

// returned is the state that a refused request gets back (A4).
func returned(p pairs) string {
	state := ""
	for _, one := range p {
		if one[0] == "state" && one[1] != "" {
			if state != "" {
				return ""
			}
			state = one[1]
		}
	}
	if len(state) > 4096 {
		return ""
	}
	return state
}

func (w *walk) answers() {
	if len(w.m.pages) == 0 {
		w.connects()
		return
	}
	w.answer(late(w, w.m.pages), true)
}

// choice is what is chosen on a page: mostly what can be.
func (w *walk) choice(p *person, o *organization) url.Values {
	f := url.Values{"organization": {o.id}, "grant": {[]string{"roles", "everything", "roles", "organization"}[w.n(4)]}}
	for _, r := range o.roles {
		if b := w.byte(); r.fills[p] || b > 240 {
			f.Set("role:"+r.id, []string{"change", "read", "none", "change", "read"}[b%5])
		}
	}
	if w.n(3) == 2 {
		f.Set("personal", "1")
	}
	f.Set("ends", []string{"", "", "", "7", "1", "30", "max", "", ""}[w.n(9)])
	if o.rules.maxDays > 0 && w.rarely(2) == 0 {
		f.Set("ends", "max")
	}
	return f
}

// answer posts a page: approve, cancel, something else, or what no page sends.
func (w *walk) answer(p *page, wild bool) *credential {
	i := slices.IndexFunc(w.browsers, func(b *browser) bool { return b.person == p.person && b.base == p.base })
	b := w.browsers[i]
	o := w.m.orgs[0]
	for at, k := w.n(3), 0; k < 3; k++ {
		if o = w.m.orgs[(at+k)%3]; w.m.eligible(p.person, o) && w.m.rule(o, p.client, p.redirect) != "block" {
			break
		}
	}
	f := w.choice(p.person, o)
	f.Set("request", p.request)
	f.Set("csrf", b.csrf)
	f.Set("decision", "approve")
	if w.byte() > 200 {
		f.Set("replace", "1")
	}
	r, on := request{method: "POST", path: "/oauth/authorize"}, p
	kind := formType
	if wild {
		if w.n(8) == 7 {
			f.Set("decision", "cancel")
		}
		switch how := w.rarely(24); how {
		case 4:
			f.Set("decision", []string{"maybe", "", "APPROVE"}[w.n(3)])
		case 5:
			f.Add("decision", "cancel")
		case 6:
			f.Set([]string{"action", "bulk"}[w.n(2)], "review")
		case 7:
			f.Set("csrf", late(w, w.m.pages).csrf)
		case 8:
			f.Del("csrf")
		case 9:
			f.Set("request", f.Get("request")[1:])
			on = nil
		case 10:
			f.Add("request", p.request)
			on = p
		case 11:
			on = late(w, w.m.pages)
			f.Set("request", on.request)
		case 12:
			r.set("Origin", []string{bases[b.base], "https://evil.example", "null"}[w.n(3)])
		case 13:
			r.set("Sec-Fetch-Site", []string{"same-origin", "cross-site", "same-site", "none"}[w.n(4)])
		case 14:
			f.Set("organization", late(w, w.m.orgs).id)
		case 15:
			f.Add("organization", o.id)
		case 16:
			f.Set("grant", []string{"all", "Roles", ""}[w.n(3)])
		case 17:
			f.Set("ends", []string{"8", "365", "-1", "07"}[w.n(4)])
		case 18:
			f.Set("replace", "2")
		case 19:
			kind = "text/plain"
		case 20:
			b = w.browsers[3*p.base+w.n(3)]
			if w.m.alive(b.in) && w.form(b) {
				f.Set("csrf", b.csrf)
			}
		case 21:
			f.Set("role:"+hostile[w.n(len(hostile))], "change")
		case 22:
			f.Set("personal", "2")
		case 23:
			f.Set(hostile[w.n(len(hostile))], hostile[w.n(len(hostile))])
		}
	}
	r.body, r.host = f.Encode(), w.host(b.base)
	r.set("Content-Type", kind)
	w.say("page %d is answered in the browser of %s at host %d: %s", slices.Index(w.m.pages, on), b.person.id, b.base, told(f))
	of := w.m.decide(r, b.in, on, f)
	a := w.visit(b, r, of)
	if of.to != "" {
		if _, q := a.location(); q.Get("state") != on.state {
			w.fail("state comes back as %q", q.Get("state"))
		}
	}
	w.did(fmt.Sprint("answered ", a.status, " ", of.code))
	if of.code2 == nil {
		return nil
	}
	_, q := a.location()
	code := q.Get("code")
	if x := w.m.given[code]; x != nil { // the same code comes back (A12)
		if x.of != on.from || x.issued != on.from.issuedAt {
			w.fail("the code of approval %d comes for approval %d", x.of.n, on.from.n)
		}
		return x
	}
	for _, x := range w.held {
		if x.kind == "code" && x.of == on.from && x.issued == on.from.issuedAt {
			w.fail("approval %d has a second code", on.from.n)
		}
	}
	w.did("code")
	return w.hold(&credential{of: on.from, kind: "code", text: code, issued: on.from.issuedAt})
}

// told is a form without what is secret or opaque.
func told(f url.Values) string {
	f = maps.Clone(f)
	f.Del("request")
	f.Del("csrf")
	s, _ := url.QueryUnescape(f.Encode())
	return s
}

func (w *walk) hold(x *credential) *credential {
	if !strings.HasPrefix(x.text, map[string]string{"code": "svc_", "access": "svo_", "refresh": "svr_"}[x.kind]) || w.m.given[x.text] != nil {
		w.fail("a bad %s, or one that was given before", x.kind)
	}
	w.m.given[x.text] = x
	w.held = append(w.held, x)
	return x
}

// pick gives one of the credentials of a kind: mostly one that works, and where none does, one
// is got first. nil is none.
func (w *walk) pick(kind string) *credential {
	all, good := w.ofKind(kind)
	if only := w.rarely(2) == 0; only && len(good) == 0 && kind != "code" {
		w.connects()
		all, good = w.ofKind(kind)
	} else if !only {
		good = nil
	}
	if len(good) > 0 {
		all = good
	}
	if len(all) == 0 {
		return nil
	}
	return late(w, all)
}

func (w *walk) ofKind(kind string) (all, good []*credential) {
	for _, x := range w.held {
		if x.kind != kind {
			continue
		}
		all = append(all, x)
		if state := w.m.stateOf(x); state[0] == "valid" {
			good = append(good, x)
		}
	}
	return all, good
}

func (w *walk) exchanges() {
	if x := w.pick("code"); x != nil {
		w.exchange(x, true)
	} else {
		w.connects()
	}
}

func (w *walk) exchange(x *credential, wild bool) {
	a := x.of
	c, to, verifier, host, code := a.client, a.page.redirect, a.page.verifier, w.host(a.page.base), x.text
	if wild {
		c = mostly(w, c, w.m.clients...)
		to = mostly(w, to, c.redirects[0], c.redirects[len(c.redirects)-1], to+"/")
		verifier = mostly(w, verifier, late(w, w.m.pages).verifier, verifier+"x", strings.Repeat("v", 43), "short")
		host = mostly(w, host, w.host(0), w.host(1))
		code = mostly(w, code, code[:len(code)-1], code+"0", "svc_"+code[4:len(code)-1]+"0", w.pickText("refresh"), w.pickText("access"))
	}
	w.say("client %d exchanges the code of approval %d at %s; right are redirect URI %v, verifier %v, code %v", slices.Index(w.m.clients, c), a.n, host, to == a.page.redirect, verifier == a.page.verifier, code == x.text)
	p := pairs{{"grant_type", "authorization_code"}, {"code", code}, {"redirect_uri", to}, {"client_id", c.id}, {"code_verifier", verifier}}
	r := request{path: "/oauth/token", host: host}
	if wild {
		r = w.tampered(r, p)
	} else {
		r.method, r.body = "POST", p.encode()
		r.set("Content-Type", formType)
	}
	w.tokens(r, "exchange")
}

func (w *walk) pickText(kind string) string {
	if x := w.pick(kind); x != nil {
		return x.text
	}
	return "none"
}

// tokens sends a token request, and takes what it gives.
func (w *walk) tokens(r request, what string) {
	of := w.m.token(r)
	a := w.ask(r, of)
	w.did(fmt.Sprint(what, " ", a.status, " ", of.code))
	if of.tokens == nil {
		return
	}
	f, to := a.fields(), of.tokens.of
	if f["token_type"] != "Bearer" || f["expires_in"] != float64(accessLife) || f["scope"] != "api" || !w.isNow(f["created_at"]) || len(f) != 6 || a.header.Get("Pragma") != "no-cache" {
		w.fail("token response %v", a.header)
	}
	w.hold(&credential{of: to, kind: "access", text: a.text("access_token"), generation: to.generation, expires: w.m.now + accessLife})
	w.hold(&credential{of: to, kind: "refresh", text: a.text("refresh_token"), generation: to.generation})
}

func (w *walk) refreshes() {
	x := w.pick("refresh")
	if x == nil {
		w.connects()
		return
	}
	c := mostly(w, x.of.client, w.m.clients...)
	text := mostly(w, x.text, x.text[:len(x.text)-1], "svr_"+x.text[5:]+"0", w.pickText("access"), w.pickText("code"))
	w.say("client %d refreshes approval %d (of client %d) with generation %d of %d, as it is: %v", slices.Index(w.m.clients, c), x.of.n, slices.Index(w.m.clients, x.of.client), x.generation, x.of.generation, text == x.text)
	w.tokens(w.tampered(request{path: "/oauth/token", host: w.host(w.rarely(2))}, pairs{{"grant_type", "refresh_token"}, {"refresh_token", text}, {"client_id", c.id}}), "refresh")
}

func (w *walk) revokes() {
	if len(w.held) == 0 {
		w.connects()
		return
	}
	x := late(w, w.held)
	c := mostly(w, x.of.client, w.m.clients...)
	w.say("client %d revokes a %s of approval %d", slices.Index(w.m.clients, c), x.kind, x.of.n)
	r := w.tampered(request{path: "/oauth/revoke"}, pairs{{"token", x.text}, {"client_id", c.id}, {"token_type_hint", []string{"access_token", "refresh_token", "nonsense"}[w.n(3)]}})
	of := w.m.revoke(r)
	a := w.ask(r, of)
	w.did(fmt.Sprint("revoke ", a.status, " ", of.code))
}

// --- calls

// credentials puts a credential into a request, in most ways in which one can be sent.
func (w *walk) credentials(r *request) {
	text := w.pickText("access")
	ada := w.m.people[0]
	switch w.rarely(14) {
	case 0:
		r.set("Authorization", []string{"Bearer ", "bearer ", "Bearer "}[w.n(3)]+text)
	case 1:
		r.set("X-Auth-Token", text)
	case 2:
		r.set("Authorization", "Bearer "+w.pickText("refresh"))
	case 3:
		r.set("Authorization", "Bearer "+w.pickText("code"))
	case 4:
		r.set("X-Auth-Token", ada.key)
	case 5:
		r.set("Authorization", "Bearer "+text)
		r.set("X-Auth-Token", ada.key)
	case 6:
		r.set("Authorization", "Bearer "+text)
		r.set("Authorization", "Bearer "+text)
	case 7:
		r.path += "?access_token=" + text
	case 8:
		r.set("Authorization", "Bearer "+text[:len(text)-1])
	case 9:
		r.set("Authorization", "Bearer "+text+" x")
	case 10:
		r.set("Authorization", []string{"Basic " + text, text, "Bearer", "Bearer "}[w.n(4)])
	case 11:
		r.set("Authorization", "DPoP "+text)
	case 12:
		r.set("Cookie", "access_token="+text)
	case 13:
		r.set("X-Auth-Token", w.pickText("refresh"))
	}
}

// said is who a request was sent for, in words.
func said(x *credential) string {
	if x == nil {
		return "nobody's token"
	}
	return fmt.Sprintf("a token of approval %d, generation %d", x.of.n, x.generation)
}

func (w *walk) calls() {
	r := request{method: "GET", host: w.host(w.rarely(2)), path: []string{"/api/v5/me", "/api/v5/me", "/api/v5/roles", "/api/v5/own", "/api/v5/settings", "/api/v3/me", "/api/v4/me", "/api/v5/other"}[w.n(8)]}
	of, _ := w.roleOf()
	switch r.path {
	case "/api/v5/roles":
		r.path += "/" + of.id + "/items"
		if w.n(2) == 1 {
			r.method = "POST"
		}
	case "/api/v5/own", "/api/v5/settings":
		r.method = "POST"
	}
	path := r.path
	w.credentials(&r)
	want, x, key := w.m.call(r)
	w.say("%s %s with %s", r.method, path, said(x))
	if x == nil && key == nil || strings.HasSuffix(path, "/me") {
		a := w.ask(r, want)
		if w.did(fmt.Sprint("call ", a.status)); x != nil {
			w.isMe(a, x.of)
		}
		return
	}
	before := w.h.reached.Load()
	ok, sure := true, key == nil
	if x != nil {
		touches := map[string]string{"/api/v5/own": "personal", "/api/v5/settings": "admin", "/api/v5/other": "unlisted"}[path]
		ok, sure = w.m.rights(x.of).may(touches, r.method == "POST", of)
	}
	a := w.ask(r, want0(ok, sure))
	w.reached(a.status == 200, before, path)
	w.did(fmt.Sprint("service ", a.status))
}

func want0(ok, sure bool) want {
	switch {
	case !sure:
		return status(200, 403)
	case ok:
		return status(200)
	}
	return refuse(403, "forbidden")
}

// reached holds what the service behind was told of to what was answered.
func (w *walk) reached(passed bool, before int64, what string) {
	if got := w.h.reached.Load() - before; (got > 0) != passed {
		w.fail("%s: the service behind heard of %d calls, passed: %v", what, got, passed)
	}
}

// roleOf gives a role, mostly one that was picked for an approval; by is whose that is.
func (w *walk) roleOf() (of *role, by *person) {
	if len(w.m.all) > 0 && w.n(4) > 0 {
		a := late(w, w.m.all)
		for _, r := range a.org.roles {
			if of == nil && a.grant.picks[r] != "" || a.grant.picks[r] != "" && w.n(2) == 0 {
				of, by = r, a.person
			}
		}
	}
	if of == nil {
		o := w.m.orgs[w.n(2)]
		of, by = o.roles[w.n(len(o.roles))], w.m.people[w.n(3)]
	}
	return of, by
}

// isMe holds what the server says of a client's rights to the model's.
func (w *walk) isMe(a answer, of *approval) {
	var me struct {
		Person, Organization struct{ ID string }
		Client               string `json:"client_id"`
		Grant                struct {
			Kind        string
			Personal    bool `json:"personal_items"`
			Administers bool
		}
		Roles []struct{ ID, Access string }
	}
	if json.Unmarshal([]byte(a.body), &me) != nil {
		w.fail("me: %s", a.body)
	}
	r := w.m.rights(of)
	if me.Person.ID != of.person.id || me.Organization.ID != of.org.id || me.Client != of.client.id || !slices.Contains(r.said, me.Grant.Kind) || me.Grant.Personal != r.personal || me.Grant.Administers != r.admin {
		w.fail("approval %d is %s, want kind %v, personal %v, administers %v", of.n, a.body, r.said, r.personal, r.admin)
	}
	for _, one := range me.Roles {
		if of := w.m.role(one.ID); of == nil || r.acts[of] != one.Access {
			w.fail("acts as %s through %s, want %q: %s", one.Access, one.ID, r.acts[of], a.body)
		}
	}
	if len(me.Roles) != len(r.acts) {
		w.fail("%d roles, want %d: %s", len(me.Roles), len(r.acts), a.body)
	}
}

// toolCalls asks the MCP endpoint.
func (w *walk) toolCalls() {
	r := request{method: "POST", host: w.host(w.rarely(2)), path: "/api/v5/mcp"}
	tool := []string{"change_item", "read_item", "change_own", "change_settings", "initialize", "tools/list", "nothing"}[w.n(7)]
	of, _ := w.roleOf()
	method, params := "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"role":%q}}`, tool, of.id)
	if tool == "initialize" || tool == "tools/list" {
		method, params = tool, `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`
	}
	r.body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	kind, odd := "application/json", w.rarely(8)
	switch odd {
	case 1:
		r.method = []string{"PUT", "PATCH", "HEAD"}[w.n(3)]
	case 2:
		kind = "text/plain"
	case 3:
		r.body = r.body[:len(r.body)-1]
	case 4:
		r.body = strings.Replace(r.body, `"id":1`, `"id":1,"id":2`, 1)
	case 5:
		r.set("Mcp-Session-Id", "session-of-the-service")
	case 6:
		r.set("Mcp-Method", "tools/else")
	case 7:
		r.body = strings.Replace(r.body, `"method"`, `"Method":"x","method"`, 1)
	}
	r.set("Content-Type", kind)
	r.set("Accept", "application/json, text/event-stream")
	w.credentials(&r)
	want, x, key := w.m.call(r)
	w.say("MCP %s of role %s with %s, odd: %d", tool, of.id, said(x), odd)
	if x == nil && key == nil {
		w.did(fmt.Sprint("tool ", w.ask(r, want).status))
		return
	}
	before := w.h.reached.Load()
	if odd > 0 {
		a := w.ask(r, status([]int{405, 415, 400, 400, 404, 400, 400}[odd-1]))
		w.reached(false, before, "a request that was refused")
		w.did(fmt.Sprint("odd tool ", a.status))
		return
	}
	a := w.ask(r, status(200))
	var said struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
		Error any
	}
	if json.Unmarshal([]byte(a.body), &said) != nil || said.Error != nil {
		w.fail("tool: %s", a.body)
	}
	if key != nil || method != "tools/call" {
		return
	}
	touches := map[string]string{"change_own": "personal", "change_settings": "admin", "nothing": "unlisted"}[tool]
	ok, sure := w.m.rights(x.of).may(touches, tool != "read_item", of)
	if sure && said.Result.IsError == ok {
		w.fail("%s of role %s under approval %d, want allowed %v: %s", tool, of.id, x.of.n, ok, a.body)
	}
	if said.Result.IsError {
		w.reached(false, before, tool)
	}
	w.did(fmt.Sprint("tool isError ", said.Result.IsError))
}

// decisions asks the gateways' door about a token.
func (w *walk) decisions() {
	of, _ := w.roleOf()
	change := w.n(2) == 0
	q := map[string]string{"token": w.pickText("access"), "host": w.host(w.rarely(2)), "path": "/api/v5/roles/" + of.id + "/items", "method": map[bool]string{true: "POST", false: "GET"}[change]}
	switch w.rarely(5) {
	case 1:
		q["token"] = w.pickText("refresh")
	case 2:
		q["path"] = "/api/v4/me"
	case 3:
		q = map[string]string{"api_key": w.m.people[0].key, "host": q["host"], "path": q["path"], "method": q["method"]}
	case 4:
		q["token"] += "x"
	}
	body, _ := json.Marshal(q)
	r := request{method: "POST", path: "/v1/decisions", host: "gateway", body: string(body)}
	r.set("X-Gateway-Key", gatewayKey)
	r.set("Content-Type", "application/json")
	a, err := w.h.gateway.do(r)
	if err != nil || a.status != 200 {
		w.fail("decision: %v %d %s", err, a.status, a.body)
	}
	as := request{path: q["path"], host: q["host"]}
	as.set("Authorization", "Bearer "+q["token"])
	if q["api_key"] != "" {
		as.headers = [][2]string{{"X-Auth-Token", q["api_key"]}}
	}
	want, x, _ := w.m.call(as)
	w.say("a gateway asks about %s %s with %s", q["method"], q["path"], said(x))
	w.decided(a, as, want, x, of, change)
}

func (w *walk) decided(a answer, as request, want want, x *credential, of *role, change bool) {
	f := a.fields()
	ok, sure := want.status[0] == 200, true
	if x != nil {
		ok, sure = w.m.rights(x.of).may("role", change, of)
		actor, _ := f["actor"].(map[string]any)
		if f["allowed"] == true && (actor == nil || actor["person"] != x.of.person.id || actor["organization"] != x.of.org.id || actor["client"] != x.of.client.id || actor["grant"] == "") {
			w.fail("decided for %s", a.body)
		}
	}
	if sure && f["allowed"] != ok {
		w.fail("decided %v, want %v: %s", f["allowed"], ok, a.body)
	}
	if want.status[0] == 401 {
		if f["status"] != float64(401) {
			w.fail("decided %s", a.body)
		}
		a.header.Set("WWW-Authenticate", a.text("www_authenticate"))
		w.challenged(as, a, want.reject)
	}
	if strings.Contains(a.body, "svo_") || strings.Contains(a.body, "svr_") {
		w.fail("a decision tells a token")
	}
	w.did(fmt.Sprint("decided ", f["allowed"]))
}

// forwarded asks as a proxy does.
func (w *walk) forwarded() {
	of, _ := w.roleOf()
	r := request{method: "GET", path: "/v1/forward-auth", host: "gateway"}
	original := request{method: []string{"GET", "POST"}[w.n(2)], host: w.host(w.rarely(2)), path: "/api/v5/roles/" + of.id + "/items"}
	w.credentials(&original)
	for _, h := range original.headers {
		r.set(h[0], h[1])
	}
	r.set("X-Gateway-Key", gatewayKey)
	r.set("X-Original-URI", original.path)
	r.set("X-Original-Host", original.host)
	r.set("X-Original-Method", original.method)
	a, err := w.h.gateway.do(r)
	if err != nil {
		w.fail("forward-auth: %v", err)
	}
	want, x, key := w.m.call(original)
	w.say("a proxy asks about %s with %s", original.method, said(x))
	switch {
	case x != nil:
		ok, sure := w.m.rights(x.of).may("role", original.method == "POST", of)
		if of := want0(ok, sure); !slices.Contains(of.status, a.status) {
			w.fail("forward-auth: %d, want %v: %s", a.status, of.status, a.body)
		}
		if a.status == 200 && (a.header.Get("X-Grantkeeper-Person") != x.of.person.id || a.header.Get("X-Grantkeeper-Organization") != x.of.org.id) {
			w.fail("forward-auth is for %v", a.header)
		}
	case key != nil && a.status != 200, key == nil && a.status != 401:
		w.fail("forward-auth: %d, want %v", a.status, want.status)
	case key == nil:
		w.challenged(original, a, want.reject)
	}
	w.did(fmt.Sprint("forwarded ", a.status))
}

// --- what ends, and what changes

// endsApp has a person, an admin or an operator end approvals.
func (w *walk) endsApp() {
	if len(w.m.all) == 0 {
		w.connects()
		return
	}
	a := late(w, w.m.all)
	b := w.browsers[slices.Index(w.m.people, a.person)]
	how := w.n(3)
	if how == 1 {
		for i, p := range w.m.people {
			if at := a.org.members[p]; at != nil && at.admin {
				b = w.browsers[i]
			}
		}
		b = w.browsers[(slices.Index(w.browsers, b)+w.rarely(3))%3]
	}
	w.say("%s ends approval %d: %s", []string{"its person", b.person.id + ", for admins,", "an operator"}[how], a.n, a.client.host)
	if how == 2 {
		if a.id == "" {
			return
		}
		w.operate("POST", "/v1/approvals/"+a.id+"/revoke", `{"reason":"walk"}`, 200)
		a.phase = ended
		w.did("ended by operator")
		return
	}
	if !w.signsIn(b) || !w.form(b) {
		return
	}
	r := request{method: "POST", path: "/organizations/" + a.org.id + "/profile/api/clients/" + url.PathEscape(a.client.id) + "/revoke", body: url.Values{"csrf": {b.csrf}}.Encode()}
	r.set("Content-Type", formType)
	at := a.org.members[b.person]
	of := status(303)
	switch {
	case how == 1 && a.id == "":
		return
	case how == 1:
		r.path = "/organizations/" + a.org.id + "/settings/ai-integration/" + a.id + "/revoke"
		if at == nil {
			of = status(404)
		} else if !at.admin {
			of = status(403)
		}
	case at == nil:
		of = status(404)
	}
	w.visit(b, r, of)
	if of.status[0] == 303 {
		w.m.end(func(x *approval) bool {
			return how == 1 && x == a || how == 0 && x.client == a.client && x.person == a.person && x.org == a.org
		})
	}
	w.did(fmt.Sprint("ended on a page ", of.status[0]))
}

// form makes sure of a form token of a browser's session.
func (w *walk) form(b *browser) bool {
	if b.csrf == "" || w.m.forms[b.csrf] != b.in {
		b.csrf = w.visit(b, request{method: "GET", path: "/account"}, status(200)).hidden("csrf")
		w.m.forms[b.csrf] = b.in
	}
	return b.csrf != ""
}

// edits changes what a live approval gives (P3).
func (w *walk) edits() {
	if len(w.m.all) == 0 {
		w.connects()
		return
	}
	a := late(w, w.m.all)
	b := w.browsers[(slices.Index(w.m.people, a.person)+w.rarely(3))%3]
	if a.id == "" || !w.signsIn(b) {
		return
	}
	path := "/organizations/" + a.org.id + "/profile/api/" + a.id + "/edit"
	member := a.org.members[b.person] != nil
	of := status(200)
	switch {
	case b.person != a.person || !member || a.phase == issued || a.generation == 0:
		of = status(404, 409) // 409: what was never connected may have been swept as ended
	case !w.m.lives(a):
		of = status(409)
	}
	w.say("%s edits approval %d", b.person.id, a.n)
	shown := w.visit(b, request{method: "GET", path: path}, of)
	if w.did(fmt.Sprint("edit page ", shown.status)); shown.status != 200 {
		return
	}
	f := w.choice(a.person, a.org)
	f.Set("request", shown.hidden("request"))
	_, rest, _ := strings.Cut(shown.body, f.Get("request"))
	f.Set("csrf", answer{body: rest}.hidden("csrf"))
	f.Set("decision", mostly(w, "save", "cancel", "other"))
	w.say("as %s", told(f))
	g, ok := w.m.choose(a.person, a.org, f)
	now := map[string]int64{"": 0, "1": 1, "7": 7, "30": 30}
	days, fine := now[f.Get("ends")]
	ends := a.ends
	if at := w.m.now + days*day; days > 0 && (ends == 0 || at < ends) {
		ends = at
	} else if days > 0 && at-ends > pageLife {
		fine = false
	}
	of = status(303)
	switch f.Get("decision") {
	case "other":
		of = status(200)
	case "save":
		if !fine || !ok {
			of = status(422)
		}
		if rule := w.m.rule(a.org, a.client, a.page.redirect); !ok && w.m.same(a, f) || rule == "block" || rule == "ask" {
			of = status(303, 422) // what is withheld stays as it is; what is asked about is not widened (P18)
		}
	}
	r := request{method: "POST", path: path, body: f.Encode()}
	r.set("Content-Type", formType)
	got := w.visit(b, r, of)
	if w.did(fmt.Sprint("edit ", got.status)); got.status == 303 && f.Get("decision") == "save" {
		if ok {
			a.grant = g
		}
		a.ends = ends
	}
}

// same reports whether a form chooses what an approval has.
func (m *model) same(a *approval, f url.Values) bool {
	open := *a.org
	open.rules = rules{}
	open.members = map[*person]*membership{a.person: {admin: true}}
	free := *m
	free.orgs = []*organization{&open}
	g, ok := free.choose(a.person, &open, f)
	return ok && g.kind == a.grant.kind
}

func (w *walk) members() {
	p, o := w.m.people[w.n(3)], w.m.orgs[w.n(2)]
	if o.members[p] != nil {
		w.say("%s is removed from %s", p.id, o.id)
		switch w.n(2) {
		case 0:
			w.operate("POST", "/v1/organizations/"+o.id+"/members/"+p.id+"/remove", `{"reason":"walk"}`, 200)
		case 1: // P14
			b := w.browsers[slices.Index(w.m.people, p)]
			if !w.signsIn(b) || !w.form(b) {
				return
			}
			r := request{method: "POST", path: "/organizations/" + o.id + "/leave", body: url.Values{"csrf": {b.csrf}}.Encode()}
			r.set("Content-Type", formType)
			w.visit(b, r, status(303))
		}
		delete(o.members, p)
		for _, r := range o.roles {
			delete(r.fills, p)
		}
		if o == w.m.orgs[0] && p.key != "" {
			p.dead = true
		}
		w.m.end(func(a *approval) bool { return a.person == p && a.org == o })
		w.did("removed")
		return
	}
	admin := w.n(3) == 1
	w.say("%s comes to %s, admin: %v", p.id, o.id, admin)
	w.operate("POST", "/v1/organizations/"+o.id+"/members", fmt.Sprintf(`{"person":%q,"admin":%v}`, p.id, admin), 200, 201)
	o.members[p] = &membership{admin}
	w.did("came back")
}

func (w *walk) roles() {
	r, p := w.roleOf()
	o := w.m.orgs[0]
	if !slices.Contains(o.roles, r) {
		o = w.m.orgs[1]
	}
	if o.members[p] == nil {
		return
	}
	if w.n(4) == 3 {
		on := !o.members[p].admin
		w.say("%s is admin of %s: %v", p.id, o.id, on)
		w.operate("POST", "/v1/organizations/"+o.id+"/members/"+p.id+"/admin", fmt.Sprintf(`{"on":%v}`, on), 200)
		o.members[p].admin = on
		return
	}
	to := "fillers"
	if r.fills[p] {
		to += "/remove"
		delete(r.fills, p)
	} else {
		r.fills[p] = true
	}
	w.say("%s fills %s: %v", p.id, r.id, r.fills[p])
	w.operate("POST", "/v1/roles/"+r.id+"/"+to, fmt.Sprintf(`{"person":%q}`, p.id), 200, 201)
	w.did("role")
}

// ruled sets an organization's rules for apps, or takes them away.
func (w *walk) ruled() {
	o := w.m.orgs[w.n(2)]
	next := rules{}
	switch w.n(16) {
	case 0, 1:
		next.readOnly = true
	case 2:
		next.widest = "roles"
	case 3:
		next.widest = "everything"
	case 4:
		next.noPersonal = true
	case 5:
		next.never = o.roles[w.n(len(o.roles))]
	case 6:
		next.maxDays = []int64{1, 7, 90}[w.n(3)]
	case 7:
		next.blocked = late(w, w.m.clients).host
	case 8:
		next.blocked = w.id + ".example"
	case 9:
		next.unknown = []string{"block", "ask"}[w.n(2)]
	case 10:
		next = rules{readOnly: w.n(2) == 1, noPersonal: w.n(2) == 1, widest: []string{"", "roles", "everything"}[w.n(3)], maxDays: []int64{0, 30}[w.n(2)]}
	}
	w.say("the rules of %s are %+v", o.id, next)
	path := "/v1/organizations/" + o.id + "/policy"
	p := map[string]any{}
	for name, value := range map[string]any{"widest": next.widest, "unknown": next.unknown} {
		if value != "" {
			p[name] = value
		}
	}
	if next.readOnly {
		p["read_only"] = true
	}
	if next.noPersonal {
		p["no_personal"] = true
	}
	if next.never != nil {
		p["never"] = []string{next.never.id}
	}
	if next.maxDays > 0 {
		p["max_days"] = next.maxDays
	}
	if next.blocked != "" {
		p["apps"] = []map[string]any{{"host": next.blocked, "rule": "block", "reason": "walk"}}
	}
	if len(p) == 0 {
		w.operate("DELETE", path, `{"reason":"walk"}`, 200)
	} else {
		seen, _ := w.operate("GET", path, "", 200).fields()["policy"].(map[string]any)
		if v := seen["version"]; v != nil && v != float64(0) {
			p["version"] = v
		}
		body, _ := json.Marshal(map[string]any{"policy": p, "reason": "walk"})
		w.operate("PUT", path, string(body), 200)
	}
	o.rules = next
	w.m.end(func(a *approval) bool { return a.org == o && next.blocks(a.page.redirect) })
	for _, a := range w.m.all { // P19
		if latest := w.m.now + next.maxDays*day; a.org == o && next.maxDays > 0 && a.phase != ended && (a.ends == 0 || a.ends > latest) {
			a.ends = latest
		}
	}
	w.did("rules")
}

// facts changes what approvals stand on.
func (w *walk) facts() {
	switch w.n(3) {
	case 0:
		p := w.m.people[w.n(3)]
		for _, q := range w.m.people { // who is away comes back first
			if !q.active && w.rarely(2) == 0 {
				p = q
			}
		}
		w.say("%s is active: %v", p.id, !p.active)
		if p.active {
			w.operate("POST", "/v1/people/"+p.id+"/deactivate", `{"reason":"walk"}`, 200)
			w.m.end(func(a *approval) bool { return a.person == p })
			for _, b := range w.browsers {
				if b.person == p && b.in != nil {
					b.in.over = true
				}
			}
			p.dead = p.key != ""
		} else {
			w.operate("POST", "/v1/people/"+p.id+"/reactivate", `{}`, 200)
		}
		p.active = !p.active
		w.did("person")
	case 1:
		o := w.m.orgs[w.n(3)]
		for _, q := range w.m.orgs[:2] {
			if !q.ai && w.rarely(2) == 0 {
				o = q
			}
		}
		w.say("AI integration of %s: %v", o.id, !o.ai)
		w.operate("POST", "/v1/organizations/"+o.id+"/ai-integration", fmt.Sprintf(`{"on":%v}`, !o.ai), 200)
		if o.ai = !o.ai; !o.ai {
			w.m.end(func(a *approval) bool { return a.org == o })
		}
		w.did("integration")
	case 2:
		c := late(w, w.m.clients)
		for _, d := range w.m.clients {
			if d.disabled && w.rarely(2) == 0 {
				c = d
			}
		}
		if !w.m.known(c) || !c.preregistered && !c.approved {
			return
		}
		w.say("client %d is disabled: %v", slices.Index(w.m.clients, c), !c.disabled)
		w.operate("POST", "/v1/clients/"+url.PathEscape(c.id)+"/"+map[bool]string{true: "enable", false: "disable"}[c.disabled], `{"reason":"walk"}`, 200)
		if c.disabled = !c.disabled; c.disabled {
			w.m.end(func(a *approval) bool { return a.client == c })
		}
		w.did("client")
	}
}

// passes lets time pass: some of it, or to the second at which something ends, or next to it.
func (w *walk) passes() {
	d, then := []int64{1, 299, 300, 1799, 1800, 60, 1, 301, 1, 600, 10, 3599, 1, day, 7 * day, 13*day + w.n64(2)*day}[w.n(16)], func() {}
	if x := w.pick([]string{"code", "access", "refresh"}[w.n(3)]); x != nil && w.n(2) == 0 {
		to := x.of.ends
		switch {
		case x.kind == "code":
			to, then = x.of.issuedAt+codeLife, func() { w.exchange(x, false) }
		case x.kind == "access" && w.n(4) > 0:
			to = x.expires
		}
		if to += w.n64(3) - 1; to > w.m.now {
			d = to - w.m.now
		}
		if x.kind == "access" {
			then = func() { w.me(x) }
		}
	} else if c := late(w, w.m.clients); w.n(8) == 0 && c.registered+clientLife > w.m.now {
		d = c.registered + clientLife - w.m.now - w.n64(2)
	}
	if d >= day && w.m.now-w.began > 50*day { // what has ended long ago is no longer kept
		d = 1
	}
	if w.h.real {
		return
	}
	w.say("%d seconds pass", d)
	w.m.now = w.h.clock.Add(d)
	for _, b := range w.browsers { // the session's last use is saved now and then: near its bound nothing is sure
		if b.in != nil && w.m.now-b.in.used > sessionIdle-3600 && w.m.now-b.in.used <= sessionIdle+3600 || b.in != nil && w.m.now-b.in.began > sessionMax-day {
			b.in, b.jar, b.csrf = nil, map[string]string{}, ""
		}
	}
	w.did("time")
	then()
}

// me calls the API with a token.
func (w *walk) me(x *credential) {
	r := request{method: "GET", host: w.host(0), path: "/api/v5/me"}
	r.set("Authorization", "Bearer "+x.text)
	want, good, _ := w.m.call(r)
	w.say("me with %s", said(x))
	if a := w.ask(r, want); good != nil {
		w.isMe(a, good.of)
	}
}

// registers registers another client, or is refused.
func (w *walk) registers() {
	if len(w.m.clients) < 5 && w.n(2) == 0 {
		w.register(fmt.Sprintf("app%d.%s.example", len(w.m.clients), w.id))
		return
	}
	good := `"redirect_uris":["https://app.example/cb"]`
	bad := [][2]string{
		{`{}`, "invalid_redirect_uri"}, {`{"redirect_uris":[]}`, "invalid_redirect_uri"}, {`{"redirect_uris":"https://app.example/cb"}`, "invalid_redirect_uri"},
		{`{"redirect_uris":["http://app.example/cb"]}`, "invalid_redirect_uri"}, {`{"redirect_uris":["https://localhost/cb"]}`, "invalid_redirect_uri"},
		{`{"redirect_uris":["https://10.0.0.1/cb"]}`, "invalid_redirect_uri"}, {`{"redirect_uris":["https://u@app.example/cb"]}`, "invalid_redirect_uri"},
		{`{"redirect_uris":["https://app.example/cb#x"]}`, "invalid_redirect_uri"}, {`{"redirect_uris":["urn:ietf:wg:oauth:2.0:oob"]}`, "invalid_redirect_uri"},
		{`{"redirect_uris":["https://app.flows.example/cb"]}`, "invalid_redirect_uri"}, {`{"redirect_uris":["https://app.example/a/../cb"]}`, "invalid_redirect_uri"},
		{`{` + good + `,"grant_types":["implicit"]}`, "invalid_client_metadata"}, {`{` + good + `,"response_types":["token"]}`, "invalid_client_metadata"},
		{`{` + good + `,"client_name":"<b>"}`, "invalid_client_metadata"}, {`{` + good + `,` + good + `}`, "invalid_client_metadata"},
		{`{` + good + `} x`, "invalid_client_metadata"}, {`[]`, "invalid_client_metadata"}, {``, "invalid_client_metadata"},
		{`{` + good + `,"client_name":"` + strings.Repeat("n", 101) + `"}`, "invalid_client_metadata"}, {`{` + good + `,"client_name":7}`, "invalid_client_metadata"},
	}
	one := bad[w.n(len(bad))]
	r, of := request{method: "POST", path: "/oauth/register", host: w.host(0), body: one[0]}, refuse(400, one[1])
	kind := "application/json"
	switch w.rarely(3) {
	case 1:
		kind, of = "text/plain", refuse(400, "invalid_client_metadata")
	case 2:
		r.method, of = "PUT", status(405)
	}
	r.set("Content-Type", kind)
	w.say("%.80s is registered", one[0])
	w.ask(r, of)
	w.did("registration refused")
}

// comesAndGoes signs somebody in or out.
func (w *walk) comesAndGoes() {
	b := w.browser()
	if !w.m.alive(b.in) {
		w.say("%s signs in at host %d", b.person.id, b.base)
		w.signsIn(b)
		return
	}
	if !w.form(b) {
		return
	}
	r := request{method: "POST", path: "/signout", body: url.Values{"csrf": {b.csrf}}.Encode()}
	r.set("Content-Type", formType)
	w.say("%s signs out at host %d", b.person.id, b.base)
	kept := maps.Clone(b.jar)
	w.visit(b, r, status(303))
	b.in.over = true
	if w.n(2) == 1 { // somebody has copied the cookie
		b.jar = kept
	}
	w.did("signed out")
}

// oddities are requests that lead nowhere, whatever they carry.
func (w *walk) oddities() {
	text := w.pickText("access")
	r := request{host: w.host(w.rarely(2)), method: []string{"GET", "POST", "DELETE", "OPTIONS", "PUT"}[w.n(5)]}
	of := want{free: true}
	switch w.n(8) {
	case 0:
		r.path = "/oauth/register/" + late(w, w.m.clients).id // R5
		of = status(404)
	case 1:
		r.path = "/oauth/" + text
		of = status(404)
	case 2:
		r.path, r.method = "/.well-known/openid-configuration", "GET"
		of = status(404)
	case 3:
		r.path, r.method = "/.well-known/oauth-authorization-server", "GET"
		of = status(200)
	case 4:
		r.path = "/signin?return=" + text
	case 5:
		r.path = "/organizations/" + text + "/profile/api"
	case 6:
		r.path = "/api/v5/" + text
	case 7:
		r.path = "/oauth/authorize?code=" + text
	}
	if r.method == "OPTIONS" {
		return // a preflight is answered before anything else
	}
	r.set("User-Agent", text)
	r.set("Referer", bases[0]+"/?code="+w.pickText("code"))
	w.say("%s %.30s", r.method, r.path)
	a := w.ask(r, of)
	if at := "https://" + r.host; of.status != nil && a.status == 200 && (a.text("issuer") != at || a.text("token_endpoint") != at+"/oauth/token") {
		w.fail("metadata at %s: %s", at, a.body)
	}
}
