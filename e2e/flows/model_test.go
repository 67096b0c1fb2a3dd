package flows

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// The model is the contract as a program: docs/protocol.md, and what docs/decisions.md
// settles. It knows nothing of the server's code. A credential is a text that the server
// gave, so the model is told of each.

// Lifetimes of the contract (spec 8, S2, A11) in seconds.
const (
	accessLife  = 30 * 60
	codeLife    = 5 * 60
	clientLife  = 14 * day
	pageLife    = 30 * 60
	sessionIdle = 12 * 60 * 60
	sessionMax  = 30 * day
	day         = 24 * 60 * 60
)

type model struct {
	now     int64
	people  []*person
	orgs    []*organization
	clients []*client
	all     []*approval
	pages   []*page
	given   map[string]*credential // by its text
	forms   map[string]*session    // form tokens, by whose they are
}

type person struct {
	id     string
	active bool
	key    string // API key in the first organization
	dead   bool   // the key has ended
}

// An organization, with who is in it, the roles of its members and its rules for apps.
type organization struct {
	id      string
	ai      bool
	members map[*person]*membership
	roles   []*role
	rules   rules
}

type membership struct{ admin bool }

type role struct {
	id, circle string
	fills      map[*person]bool
}

// rules are those of an organization for apps (P16, P18).
type rules struct {
	widest               string // "", everything or roles
	readOnly, noPersonal bool
	never                *role
	maxDays              int64
	blocked              string // host
	unknown              string // "" is allow
}

type client struct {
	id, host, name         string
	redirects              []string
	registered             int64
	approved, disabled     bool
	preregistered, deleted bool
	by                     map[*person]bool // who has approved it
}

// A session is one sign-in in one browser at one host.
type session struct {
	person      *person
	base        int
	began, used int64
	over        bool
}

// A page is one consent page (A11, A12).
type page struct {
	person                     *person
	client                     *client
	redirect, state, challenge string
	verifier                   string
	base                       int
	made                       int64
	request, csrf              string
	from                       *approval // that its latest answer made
}

// grant is what was chosen (spec 2.4).
type grant struct {
	kind     string // roles, everything or organization
	picks    map[*role]string
	personal bool
}

type phase int

const (
	issued phase = iota
	live
	ended
)

type approval struct {
	n          int // from 1, for words
	id         string
	client     *client
	person     *person
	org        *organization
	page       *page
	grant      grant
	phase      phase
	issuedAt   int64 // of the code that counts
	made       int64
	generation int
	ends       int64 // Unix seconds; 0 is without a date
	replaces   []*approval
}

// A credential is a code or a token.
type credential struct {
	of         *approval
	kind       string // code, access or refresh
	text       string
	generation int
	issued     int64
	expires    int64 // of an access token
}

// lives reports whether an approval gives anything.
func (m *model) lives(a *approval) bool {
	if a.phase != ended && a.ends != 0 && a.ends <= m.now { // P17
		a.phase = ended
	}
	return a.phase == live
}

// end ends what matches, for good (P10).
func (m *model) end(which func(*approval) bool) {
	for _, a := range m.all {
		if a.phase != ended && which(a) {
			a.phase = ended
		}
	}
}

// known reports whether there is a client: nobody's approval within 14 days, and it is gone.
func (m *model) known(c *client) bool {
	if !c.deleted && !c.preregistered && !c.approved && m.now >= c.registered+clientLife {
		c.deleted = true
	}
	return !c.deleted
}

func (m *model) clientOf(id string) *client {
	for _, c := range m.clients {
		if c.id == id && m.known(c) {
			return c
		}
	}
	return nil
}

func (m *model) alive(s *session) bool {
	if s != nil && (m.now-s.used > sessionIdle || m.now-s.began > sessionMax || !s.person.active) {
		s.over = true
	}
	return s != nil && !s.over
}

// A want is the answer that the contract wants. What it leaves open is not there.
type want struct {
	status []int
	code   string   // member error, or of a redirect
	to     string   // redirect URI that it leads to
	gives  *page    // a page is shown
	code2  *page    // a code is given, for this page
	tokens *refresh // tokens are given
	realm  bool     // a challenge is there
	reject bool     // with error="invalid_token"
	free   bool     // nothing but what holds of every answer
}

// refresh is whose tokens an answer has.
type refresh struct{ of *approval }

func status(all ...int) want { return want{status: all} }

func refuse(status int, code string) want { return want{status: []int{status}, code: code} }

// fields are parameters as decision A6 reads them: an empty one counts as not sent. broken
// is an encoding that cannot be read.
func fields(text string, known ...string) (all map[string][]string, broken bool) {
	all = map[string][]string{}
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		n, err1 := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err1 != nil || err2 != nil || strings.ToValidUTF8(n+v, "") != n+v || strings.Contains(n+v, "\x00") {
			broken = true
			continue
		}
		if v != "" && (len(known) == 0 || slices.Contains(known, n)) {
			all[n] = append(all[n], v)
		}
	}
	return all, broken
}

func one(all map[string][]string, name string) string {
	if len(all[name]) == 0 {
		return ""
	}
	return all[name][0]
}

var tokenFields = []string{"client_id", "client_secret", "grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "scope", "token", "token_type_hint", "resource"}

// form is what T14 and T9 have in common: method, body and no credentials of a client.
func (m *model) form(r request) (map[string][]string, *want) {
	wrong := func(w want) (map[string][]string, *want) { return nil, &w }
	if r.method != "POST" {
		return wrong(status(405))
	}
	if kind := r.get("Content-Type"); len(kind) != 1 || kind[0] != formType {
		return wrong(refuse(400, "invalid_request"))
	}
	f, broken := fields(r.body, tokenFields...)
	if broken {
		return wrong(refuse(400, "invalid_request"))
	}
	for name, values := range f {
		if len(values) > 1 && name != "resource" {
			return wrong(refuse(400, "invalid_request"))
		}
	}
	if len(r.get("Authorization")) > 0 || one(f, "client_secret") != "" { // T3
		return wrong(refuse(401, "invalid_client"))
	}
	return f, nil
}

const formType = "application/x-www-form-urlencoded"

// token is POST /oauth/token, in the order of T14.
func (m *model) token(r request) want {
	f, wrong := m.form(r)
	if wrong != nil {
		return *wrong
	}
	kind := one(f, "grant_type")
	switch {
	case kind == "":
		return refuse(400, "invalid_request")
	case kind != "authorization_code" && kind != "refresh_token":
		return refuse(400, "unsupported_grant_type")
	case one(f, "client_id") == "":
		return refuse(400, "invalid_request")
	}
	c := m.clientOf(one(f, "client_id"))
	switch {
	case c == nil:
		return refuse(401, "invalid_client")
	case one(f, "scope") != "" && one(f, "scope") != "api":
		return refuse(400, "invalid_scope")
	case kind == "refresh_token":
		return m.refresh(c, f)
	}
	for _, at := range f["resource"] {
		if !m.serves(r.host, at) {
			return refuse(400, "invalid_target")
		}
	}
	return m.exchange(c, "https://"+r.host, f)
}

// serves is A7, as far as walks go.
func (m *model) serves(host, resource string) bool {
	base := "https://" + host
	return slices.Contains([]string{base, base + "/", base + "/api/v5", base + "/api/v5/mcp"}, resource) || strings.HasPrefix(resource, base+"/api/v5/")
}

func (m *model) exchange(c *client, base string, f map[string][]string) want {
	for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
		if one(f, name) == "" {
			return refuse(400, "invalid_request")
		}
	}
	verifier := one(f, "code_verifier")
	if len(verifier) < 43 || len(verifier) > 128 || strings.Trim(verifier, unreserved) != "" { // A8
		return refuse(400, "invalid_request")
	}
	no := refuse(400, "invalid_grant")
	x := m.given[one(f, "code")]
	if x == nil || x.kind != "code" || c.disabled {
		return no
	}
	a := x.of
	m.lives(a)
	sum := sha256.Sum256([]byte(verifier))
	right := a.client == c && bases[a.page.base] == base && a.page.redirect == one(f, "redirect_uri") && a.page.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case !right || a.phase == ended: // T4
		return no
	case x.issued != a.issuedAt: // its 5 minutes are over, and the page was answered again
		return no
	case a.phase == live: // T5
		a.phase = ended
		return no
	case m.now >= a.issuedAt+codeLife:
		return no
	}
	a.phase, a.generation = live, 1
	for _, b := range a.replaces { // P1
		b.phase = ended
	}
	return want{status: []int{200}, tokens: &refresh{a}}
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

func (m *model) refresh(c *client, f map[string][]string) want {
	if one(f, "refresh_token") == "" {
		return refuse(400, "invalid_request")
	}
	no := refuse(400, "invalid_grant")
	x := m.given[one(f, "refresh_token")]
	switch {
	case x == nil || x.kind != "refresh" || c.disabled || x.of.client != c: // T4
		return no
	case !m.lives(x.of):
		return no
	case x.generation != x.of.generation: // T6
		x.of.phase = ended
		return no
	}
	x.of.generation++
	return want{status: []int{200}, tokens: &refresh{x.of}}
}

// revoke is POST /oauth/revoke, in the order of T9.
func (m *model) revoke(r request) want {
	f, wrong := m.form(r)
	if wrong != nil {
		return *wrong
	}
	if one(f, "token") == "" || one(f, "client_id") == "" {
		return refuse(400, "invalid_request")
	}
	c := m.clientOf(one(f, "client_id"))
	if c == nil {
		return refuse(403, "invalid_client")
	}
	x := m.given[one(f, "token")]
	switch {
	case x == nil || x.kind == "code":
		return status(200)
	case x.of.client != c:
		return refuse(403, "unauthorized_client")
	}
	x.of.phase = ended
	return status(200)
}

// authorize is GET /oauth/authorize of whoever a session is of: A1, then A2.
func (m *model) authorize(base int, query string, s *session) want {
	f, _ := fields(query)
	id, to := f["client_id"], f["redirect_uri"]
	if len(id) != 1 || m.clientOf(id[0]) == nil || m.clientOf(id[0]).disabled {
		return status(400)
	}
	c := m.clientOf(id[0])
	if len(to) != 1 || !slices.Contains(c.redirects, to[0]) {
		return status(400)
	}
	if fault := m.fault(bases[base], query); fault != "" {
		if m.alive(s) && (c.preregistered || c.by[s.person]) {
			return want{status: []int{303}, to: to[0], code: fault}
		}
		return status(400)
	}
	switch {
	case !m.alive(s):
		return status(303)
	case !slices.ContainsFunc(m.orgs, func(o *organization) bool { return m.eligible(s.person, o) && m.rule(o, c, to[0]) != "block" }):
		return status(403)
	}
	return want{status: []int{200}, gives: &page{person: s.person, client: c, redirect: to[0], state: one(f, "state"), challenge: one(f, "code_challenge"), base: base, made: m.now}}
}

// fault is the error code of what is wrong beside client and redirect URI (A3).
func (m *model) fault(base, query string) string {
	f, broken := fields(query)
	for _, name := range []string{"state", "response_type", "code_challenge", "code_challenge_method", "scope", "dpop_jkt"} {
		if len(f[name]) > 1 {
			return "invalid_request"
		}
	}
	challenge, method, kind := one(f, "code_challenge"), one(f, "code_challenge_method"), one(f, "response_type")
	switch {
	case broken, len(one(f, "state")) > 4096, kind == "":
		return "invalid_request"
	case kind != "code":
		return "unsupported_response_type"
	case len(challenge) != 43 || strings.Trim(challenge, strings.NewReplacer(".", "", "~", "").Replace(unreserved)) != "", method != "S256":
		return "invalid_request"
	case one(f, "scope") != "" && one(f, "scope") != "api":
		return "invalid_scope"
	}
	for _, at := range f["resource"] {
		if !m.serves(strings.TrimPrefix(base, "https://"), at) {
			return "invalid_target"
		}
	}
	return ""
}

func (m *model) eligible(p *person, o *organization) bool {
	return p.active && o.ai && o.members[p] != nil
}

// rule says what an organization says of an app (P18): a block is for a host and all below it.
func (m *model) rule(o *organization, c *client, redirect string) string {
	if o.rules.blocks(redirect) {
		return "block"
	}
	if c.preregistered {
		return "allow"
	}
	return o.rules.unknown
}

func (r rules) limited() bool {
	return r.readOnly || r.never != nil || r.widest != "" || r.noPersonal
}

func (r rules) blocks(redirect string) bool {
	u, _ := url.Parse(redirect)
	return r.blocked != "" && (u.Hostname() == r.blocked || strings.HasSuffix(u.Hostname(), "."+r.blocked))
}

// decide is POST /oauth/authorize: the answer to a page, in the order of A11 and A12. The
// form's request has named the page p; nil is none.
func (m *model) decide(r request, s *session, p *page, f url.Values) want {
	base := slices.Index(bases, "https://"+r.host)
	if site := r.get("Sec-Fetch-Site"); len(site) > 0 && site[0] != "same-origin" && site[0] != "none" {
		return status(403)
	}
	if origin := r.get("Origin"); len(r.get("Sec-Fetch-Site")) == 0 && len(origin) > 0 && origin[0] != bases[base] {
		return status(403)
	}
	if kind := r.get("Content-Type"); len(kind) != 1 || kind[0] != formType || p == nil || len(f["request"]) != 1 || p.base != base {
		return status(400)
	}
	switch c := p.client; {
	case !m.alive(s):
		return status(303)
	case !m.known(c) || c.disabled:
		return status(400)
	case p.person != s.person:
		return status(409, 403) // 403: where nothing can be approved
	case len(f["csrf"]) != 1 || m.forms[f.Get("csrf")] != s:
		return status(403)
	case len(f["decision"]) == 1 && f.Get("decision") == "cancel":
		return m.cancel(p)
	case len(f["decision"]) != 1 || f.Get("decision") != "approve" || f.Has("bulk") || f.Has("action"), m.now > p.made+pageLife:
		return status(200, 403) // asked again: 403 where nothing can be approved
	}
	return m.approve(p, f)
}

func (m *model) cancel(p *page) want {
	if p.from != nil && p.from.generation > 0 {
		return status(409)
	}
	if p.from != nil {
		p.from.phase = ended
	}
	return want{status: []int{303}, to: p.redirect, code: "access_denied"}
}

func (m *model) approve(p *page, f url.Values) want {
	no := status(422, 403) // 403: where nothing can be approved at all
	var o *organization
	for _, at := range m.orgs {
		if len(f["organization"]) == 1 && at.id == f.Get("organization") {
			o = at
		}
	}
	if o != nil && m.eligible(p.person, o) && m.rule(o, p.client, p.redirect) == "ask" {
		return status(200) // the page on which an admin can be asked (A13)
	}
	if o == nil || !m.eligible(p.person, o) || m.rule(o, p.client, p.redirect) == "block" {
		return no
	}
	g, ok := m.choose(p.person, o, f)
	days, fine := o.rules.days(f["ends"])
	if replace := f["replace"]; !ok || !fine || len(replace) > 1 || len(replace) == 1 && replace[0] != "" && replace[0] != "1" {
		return no
	}
	if p.from != nil && p.from.generation > 0 {
		return status(409)
	}
	a := p.from
	if a != nil {
		m.lives(a)
	}
	if a == nil || a.phase == ended {
		a = &approval{n: len(m.all) + 1, client: p.client, person: p.person, page: p, issuedAt: m.now, made: m.now}
		m.all = append(m.all, a)
	} else if m.now >= a.issuedAt+codeLife {
		a.issuedAt = m.now
	}
	a.org, a.grant, a.ends, a.replaces = o, g, 0, nil
	if days > 0 {
		a.ends = m.now + days*day
	}
	if f.Get("replace") == "1" {
		for _, b := range m.all {
			if b != a && b.client == a.client && b.person == a.person && b.org == o && m.lives(b) {
				a.replaces = append(a.replaces, b)
			}
		}
	}
	p.client.approved, p.client.by[p.person], p.from = true, true, a
	return want{status: []int{303}, to: p.redirect, code2: p}
}

// days is for how long a form gives access, within the rules (A14).
func (r rules) days(sent []string) (days int64, ok bool) {
	value := strings.Join(sent, " ")
	known := map[string]int64{"": 0, "1": 1, "7": 7, "30": 30}
	if r.maxDays > 0 {
		known["max"] = r.maxDays
	}
	days, ok = known[value]
	return days, ok && len(sent) < 2 && (r.maxDays == 0 || days > 0 && days <= r.maxDays)
}

// choose reads the choice of a form, as far as the person can give it (A11, P4, P5, P16).
func (m *model) choose(p *person, o *organization, f url.Values) (g grant, ok bool) {
	g = grant{kind: f.Get("grant"), picks: map[*role]string{}}
	if len(f["grant"]) != 1 {
		return g, false
	}
	switch g.kind {
	case "organization":
		return g, o.members[p].admin && o.rules.widest == ""
	case "everything":
		return g, o.rules.widest != "roles"
	case "roles":
	default:
		return g, false
	}
	for name, values := range f {
		id, is := strings.CutPrefix(name, "role:")
		if !is {
			continue
		}
		own, elsewhere := m.role(id), false
		mine := own != nil && slices.Contains(o.roles, own) && own.fills[p]
		for _, other := range m.orgs {
			elsewhere = elsewhere || other != o && other.members[p] != nil && own != nil && slices.Contains(other.roles, own) && own.fills[p]
		}
		if !mine && elsewhere {
			continue
		}
		switch {
		case len(values) != 1:
			return g, false
		case values[0] == "none":
		case values[0] != "read" && values[0] != "change", !mine, own == o.rules.never, values[0] == "change" && o.rules.readOnly:
			return g, false
		default:
			g.picks[own] = values[0]
		}
	}
	if personal := f["personal"]; len(personal) > 0 {
		if len(personal) > 1 || personal[0] != "1" || o.rules.noPersonal {
			return g, false
		}
		g.personal = true
	}
	return g, g.personal || len(g.picks) > 0
}

func (m *model) role(id string) *role {
	for _, o := range m.orgs {
		for _, r := range o.roles {
			if r.id == id {
				return r
			}
		}
	}
	return nil
}

// rights are what an approval gives now (P6, P15, P16).
type rights struct {
	kind                      string
	acts                      map[*role]string // of the roles that the person fills: read, change or none
	personal, personalChanges bool
	admin                     bool
	ruled                     bool     // rules decide as for selected roles
	said                      []string // how the kind may be said: ceilings have it said as the next narrower one (V64)
	o                         *organization
}

func (m *model) rights(a *approval) rights {
	o, x := a.org, a.org.rules
	r := rights{kind: a.grant.kind, acts: map[*role]string{}, o: o}
	picks := a.grant.picks
	if x.widest == "roles" && r.kind != "roles" {
		r.kind, picks = "roles", nil
	}
	r.admin = r.kind != "roles" && o.members[a.person] != nil && o.members[a.person].admin && x.widest == "" && !x.readOnly
	for _, one := range o.roles {
		if !one.fills[a.person] {
			continue
		}
		acts := "change"
		if r.kind == "roles" {
			acts = picks[one]
		}
		switch {
		case acts == "" || one == x.never:
			acts = "none"
		case x.readOnly:
			acts = "read"
		}
		r.acts[one] = acts
	}
	r.personal = !x.noPersonal && (r.kind == "everything" || r.kind == "roles" && a.grant.kind == "roles" && a.grant.personal)
	r.personalChanges = r.personal && !x.readOnly
	r.ruled = r.kind == "roles"
	if r.said = []string{r.kind}; x.limited() && !r.ruled {
		r.said = append(r.said, "roles", "organization")
	}
	return r
}

// may says whether rules let a call through; sure is false where the contract leaves it to
// the service (V22, V64).
func (r rights) may(touches string, change bool, of *role) (ok, sure bool) {
	limited, x := r.o.rules.limited(), r.o.rules
	switch touches {
	case "personal":
		switch {
		case r.kind == "organization": // P15, and V64 where it counts for less
			return false, !limited
		case change:
			return r.personalChanges, true
		}
		return r.personal, true
	case "admin":
		if r.ruled {
			return false, true
		}
		return true, !limited
	case "unlisted":
		return !r.ruled, r.ruled || !limited
	}
	if !slices.Contains(r.o.roles, of) { // V25
		return false, r.ruled
	}
	acts := r.acts[of]
	if change {
		if r.ruled || acts != "" {
			return acts == "change", true
		}
		return !x.readOnly, !limited
	}
	if !r.ruled {
		return true, !limited
	}
	for other, how := range r.acts { // private: through a role of its circle
		if other.circle == of.circle && how != "none" {
			return true, true
		}
	}
	return false, true
}

// call is a request to API v3, v4 or v5, up to who it is for (spec 5.5, 5.7, B1, B4).
func (m *model) call(r request) (want, *credential, *person) {
	legacy := !strings.HasPrefix(r.path, "/api/v5")
	bearer, key := r.get("Authorization"), r.get("X-Auth-Token")
	sent := strings.Join(append(slices.Clone(bearer), key...), "")
	no := want{status: []int{401}, realm: true, reject: sent != ""}
	if len(bearer) > 1 || len(key) > 1 || len(bearer) > 0 && bearer[0] != "" && len(key) > 0 && key[0] != "" {
		return no, nil, nil
	}
	if len(key) > 0 && key[0] != "" {
		for _, p := range m.people {
			if p.key == key[0] && !p.dead {
				return status(200), nil, p
			}
		}
		return no, nil, nil
	}
	if len(bearer) == 0 || bearer[0] == "" {
		return no, nil, nil
	}
	scheme, text, _ := strings.Cut(bearer[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" {
		no.reject = legacy
		return no, nil, nil
	}
	x := m.given[text]
	if legacy || x == nil || x.kind != "access" || !m.lives(x.of) || m.now >= x.expires {
		return no, nil, nil
	}
	return status(200), x, nil
}
