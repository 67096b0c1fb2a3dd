package faults

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"
)

const redirect = "https://connect.quill.example/callback"

// A load is people who approve, and clients that use what they got, at all nodes.
type load struct {
	c      *cluster
	start  time.Time
	done   chan struct{}
	people chan *person // who is free: a person has one approval at a time
	group  sync.WaitGroup

	// old is how long ago that may have been which a check is answered from.
	old time.Duration

	mu   sync.Mutex
	kept []*life // oldest first, at most maxKept
	sums sums

	lived, asked, unanswered, unavailable, unsent, refused atomic.Int64
}

// maxKept bounds how many histories are in memory: the oldest is judged and forgotten when
// another one has been lived through. It has been asked about long after its end then.
const maxKept = 64

// sums are what was seen of the lives that were judged.
type sums struct{ lives, operations, ended, wrong, stale int }

// A person has a browser, and may be signed in.
type person struct {
	id      string
	cookies map[string]string
	leaves  bool // at the end of each approval; others' approvals live on
}

// A life is one approval, from consent to its end.
type life struct {
	*load
	person           *person
	client, verifier string
	code             string
	id               string // of the approval, once somebody has looked

	mu      sync.Mutex
	history history
	access  []held // oldest first
	refresh []held
}

type held struct {
	token      string
	generation int64
}

func newLoad(c *cluster) *load {
	l := &load{c: c, start: time.Now(), done: make(chan struct{}), people: make(chan *person, len(c.people))}
	for i, id := range c.people {
		l.people <- &person{id: id, cookies: map[string]string{}, leaves: i%3 == 0}
	}
	return l
}

// least is how many approvals have to be lived through for a verdict to mean something.
const least = 5

func (l *load) enough() bool { return l.lived.Load() > least }

// run keeps so many approvals alive until stop.
func (l *load) run(at int) {
	go l.tell()
	for range at {
		l.group.Go(func() {
			client := ""
			for client == "" && !l.over() {
				client = l.register()
			}
			for !l.over() {
				p := <-l.people
				if x := l.live(client, p); x != nil {
					l.lived.Add(1)
					l.keep(x)
				}
				l.people <- p
			}
		})
	}
}

func (l *load) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *load) stop() {
	close(l.done)
	l.group.Wait()
}

func (l *load) register() string {
	a := l.c.any().ask("POST", "/oauth/register", `{"client_name":"Quill","redirect_uris":["`+redirect+`"]}`, "Content-Type", "application/json")
	if a.status != http.StatusCreated {
		l.pause()
	}
	return a.member("client_id")
}

func (l *load) pause() { time.Sleep(time.Duration(50+mrand.IntN(150)) * time.Millisecond) }

func random() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// live is one approval's life: a person approves, several askers use the tokens
// at all nodes, and at the end everybody is asked once more.
func (l *load) live(client string, p *person) *life {
	x := &life{load: l, person: p, client: client, verifier: random()}
	for x.code = x.approve(); x.code == ""; x.code = x.approve() {
		if l.over() {
			return nil
		}
		l.pause()
	}
	if mrand.IntN(8) == 0 { // the code is sent at once to two nodes
		var both sync.WaitGroup
		for by := range 2 {
			both.Go(func() { x.exchange(by) })
		}
		both.Wait()
	} else {
		for x.exchange(0) == unknown && !l.over() {
			l.pause()
		}
	}
	var group sync.WaitGroup
	for by := range *askers {
		group.Go(func() {
			for range 1 + mrand.IntN(2**steps) {
				x.step(by)
				time.Sleep(mrand.N(*thinking + 1))
			}
		})
	}
	group.Wait()
	if p.leaves {
		x.leave()
	}
	x.checkAll()
	return x
}

// checkAll asks every node.
func (x *life) checkAll() {
	for by, n := range x.c.serving() {
		x.check(by, n)
	}
}

// keep keeps what was lived through, and judges the oldest where that is too many: its
// client ends it first, unless it has ended.
func (l *load) keep(x *life) {
	var oldest *life
	l.mu.Lock()
	if l.kept = append(l.kept, x); len(l.kept) > maxKept {
		oldest = l.kept[0]
		l.kept = append([]*life{}, l.kept[1:]...)
	}
	l.mu.Unlock()
	if oldest == nil {
		return
	}
	for tries := 0; !oldest.ended() && tries < 10 && !l.over(); tries++ {
		oldest.revoke(0)
	}
	oldest.checkAll()
	l.judge(oldest)
}

// ended reports whether somebody was told that it has.
func (x *life) ended() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.history {
		in := o.Input.(asked)
		if o.Output == no || o.Output == yes && (in.kind == "revoke" || in.kind == "end") {
			return true
		}
	}
	return len(x.access) == 0
}

// judge checks a history, of which only the sums stay.
func (l *load) judge(x *life) {
	var fault string
	stale := 0
	if l.old > 0 {
		fault, stale = x.history.bounded(l.old)
	} else {
		fault = x.history.fault()
	}
	ended := x.ended()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.lives, l.sums.operations, l.sums.stale = l.sums.lives+1, l.sums.operations+len(x.history), l.sums.stale+stale
	if ended {
		l.sums.ended++
	}
	if fault == "" {
		return
	}
	if l.sums.wrong++; l.sums.wrong <= 3 {
		l.c.t.Errorf("%s:\n%s", fault, x.history)
	}
}

// step is one thing that an asker does. The first one keeps the tokens fresh, as a
// client does that has one copy; the others mostly call the API. What ends an approval
// is done as often in each life, however many steps it has.
func (x *life) step(by int) {
	switch n := mrand.Float64() * float64(*askers**steps); {
	case n < 0.2: // used before
		x.renew(by, 2)
	case n < 0.4:
		x.exchange(by)
	case n < 0.7:
		x.revoke(by)
	case n < 1:
		x.revokeByOperator(by)
	case n < 1.3: // two at once
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { x.renew(by, 1) })
		}
		both.Wait()
	case by == 0 && mrand.IntN(2) == 0:
		x.renew(by, 1)
	default:
		x.check(by, x.c.any())
	}
}

// record notes what an answer tells. Only what is in the protocol is one of ours.
func (x *life) record(by int, in asked, call time.Duration, a answer, does, doesNot bool) told {
	back := time.Since(x.start)
	out := unknown
	switch {
	case a.err != nil && !a.sent: // certainly not done
		x.unsent.Add(1)
		x.pause()
		return unknown
	case does:
		out = yes
	case doesNot:
		out = no
		x.load.refused.Add(1)
	case a.err != nil:
		x.unanswered.Add(1)
	case a.status == http.StatusServiceUnavailable:
		x.unavailable.Add(1)
		if a.header.Get("Retry-After") == "" && in.kind != "end" { // operators are told otherwise
			x.c.t.Errorf("%v was answered with 503 and no Retry-After: %v", in, a)
		}
	default:
		x.c.t.Errorf("%v was answered with %v", in, a)
	}
	x.asked.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	if in.kind != "check" || out != unknown {
		x.history.add(by, in, call, back, out)
	}
	return out
}

func (x *life) exchange(by int) told {
	call := time.Since(x.start)
	a := x.token(x.c.any(), url.Values{"grant_type": {"authorization_code"}, "code": {x.code}, "redirect_uri": {redirect},
		"client_id": {x.client}, "code_verifier": {x.verifier}})
	out := x.record(by, asked{"exchange", 0}, call, a, a.status == 200, a.status == 400 && a.member("error") == "invalid_grant")
	x.keep(a, 1)
	return out
}

// renew sends the newest refresh token, or the one before.
func (x *life) renew(by, back int) {
	x.mu.Lock()
	if len(x.refresh) < back {
		x.mu.Unlock()
		return
	}
	sent := x.refresh[len(x.refresh)-back]
	x.mu.Unlock()
	call := time.Since(x.start)
	a := x.token(x.c.any(), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {sent.token}, "client_id": {x.client}})
	x.record(by, asked{"refresh", sent.generation}, call, a, a.status == 200, a.status == 400 && a.member("error") == "invalid_grant")
	x.keep(a, sent.generation+1)
}

func (x *life) token(n *node, form url.Values) answer {
	return n.ask("POST", "/oauth/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// keep takes the tokens of an answer.
func (x *life) keep(a answer, generation int64) {
	if a.status != 200 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.access = append(x.access, held{a.member("access_token"), generation})
	x.refresh = append(x.refresh, held{a.member("refresh_token"), generation})
}

// check calls the API with one of the access tokens.
func (x *life) check(by int, n *node) {
	x.mu.Lock()
	if len(x.access) == 0 {
		x.mu.Unlock()
		return
	}
	sent := x.access[mrand.IntN(len(x.access))]
	x.mu.Unlock()
	call := time.Since(x.start)
	a := n.ask("GET", "/api/v5/me", "", "Authorization", "Bearer "+sent.token)
	x.record(by, asked{"check", sent.generation}, call, a, a.status == 200,
		a.status == 401 && strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`))
}

// revoke is the client's own.
func (x *life) revoke(by int) {
	x.mu.Lock()
	if len(x.access) == 0 {
		x.mu.Unlock()
		return
	}
	sent := x.access[mrand.IntN(len(x.access))]
	x.mu.Unlock()
	call := time.Since(x.start)
	form := url.Values{"token": {sent.token}, "client_id": {x.client}}
	a := x.c.any().ask("POST", "/oauth/revoke", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	x.record(by, asked{kind: "revoke"}, call, a, a.status == 200, false)
}

func (x *life) revokeByOperator(by int) {
	n := x.c.any()
	x.mu.Lock()
	id := x.id
	x.mu.Unlock()
	if id == "" {
		a := n.operate("POST", "/v1/tokens/inspect", `{"token":"`+x.code+`"}`)
		if id = a.member("approval"); id == "" {
			return
		}
		x.mu.Lock()
		x.id = id
		x.mu.Unlock()
	}
	call := time.Since(x.start)
	a := n.operate("POST", "/v1/approvals/"+id+"/revoke", `{"reason":"test"}`)
	x.record(by, asked{kind: "end"}, call, a, a.status == 200, false)
}

// late is how long after the last wait for its answer a request is done at most: its client
// has waited for 8 seconds then, and the node may have stood still for all of them and go on to.
func late() time.Duration { return longestPause() - 6*time.Second }

// leave takes the person out of the organization and back in: the approval ends,
// and does not come back.
func (x *life) leave() {
	for done := false; !done && !x.over(); {
		call := time.Since(x.start)
		a := x.c.any().operate("POST", "/v1/organizations/nordlys/members/"+x.person.id+"/remove", `{"reason":"test"}`)
		done = x.record(0, asked{kind: "end"}, call, a, a.status == 200, false) == yes
		if a.err != nil && a.sent {
			time.Sleep(late()) // it may still be done, by a node that was paused
		}
		x.again(done)
	}
	x.check(0, x.c.any())
	for done := false; !done; {
		a := x.c.any().operate("POST", "/v1/organizations/nordlys/members", `{"person":"`+x.person.id+`","reason":"test"}`)
		done = a.status == 200 || x.over()
		x.again(done)
	}
}

func (l *load) again(done bool) {
	if !done {
		l.pause()
	}
}

// approve is a person's visit: signing in where nobody is, the consent page, and
// the answer. It gives the code, or "" when a node did not answer.
func (x *life) approve() string {
	sum := sha256.Sum256([]byte(x.verifier))
	at := "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {x.client}, "redirect_uri": {redirect}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}.Encode()
	a := x.visit("GET", at, nil)
	if a.status == http.StatusSeeOther { // to sign in
		if !x.signIn() {
			return ""
		}
		a = x.visit("GET", at, nil)
	}
	form := fields(a.body, "request")
	if a.status != 200 || form == nil {
		if a.err == nil && a.status != http.StatusServiceUnavailable && a.status != http.StatusSeeOther {
			x.c.t.Errorf("no consent page: %v", a)
		}
		return ""
	}
	form.Set("organization", "nordlys")
	form.Set("grant", "everything")
	form.Set("decision", "approve")
	a = x.visit("POST", "/oauth/authorize", form)
	to, err := url.Parse(a.header.Get("Location"))
	if a.status != http.StatusSeeOther || err != nil || to.Query().Get("code") == "" {
		if a.err == nil && a.status != http.StatusServiceUnavailable && a.status != http.StatusSeeOther {
			x.c.t.Errorf("not approved: %v", a)
		}
		return ""
	}
	return to.Query().Get("code")
}

func (x *life) signIn() bool {
	form := fields(x.visit("GET", "/signin", nil).body, "password")
	if form == nil {
		return false
	}
	form.Set("email", x.person.id+"@nordlys.example")
	form.Set("password", x.c.password)
	return x.visit("POST", "/signin", form).status == http.StatusSeeOther
}

// visit is a request of the person's browser, to any node.
func (x *life) visit(method, path string, form url.Values) answer {
	headers := []string{"Origin", "http://" + x.c.host, "Sec-Fetch-Site", "same-origin"}
	if form != nil {
		headers = append(headers, "Content-Type", "application/x-www-form-urlencoded")
	}
	var cookies []string
	for name, value := range x.person.cookies {
		cookies = append(cookies, name+"="+value)
	}
	if len(cookies) > 0 {
		headers = append(headers, "Cookie", strings.Join(cookies, "; "))
	}
	a := x.c.any().ask(method, path, form.Encode(), headers...)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if x.person.cookies[c.Name] = c.Value; c.Value == "" || c.MaxAge < 0 {
			delete(x.person.cookies, c.Name)
		}
	}
	return a
}

// fields gives what the form with a field of this name sends, nil without one.
func fields(page []byte, with string) url.Values {
	root, err := html.Parse(strings.NewReader(string(page)))
	if err != nil {
		return nil
	}
	for n := range root.Descendants() {
		if n.Data != "form" {
			continue
		}
		form := url.Values{}
		for in := range n.Descendants() {
			if in.Data != "input" {
				continue
			}
			at := map[string]string{}
			for _, one := range in.Attr {
				at[one.Key] = one.Val
			}
			if _, checked := at["checked"]; at["type"] != "radio" && at["type"] != "checkbox" || checked {
				form.Set(at["name"], at["value"])
			}
		}
		if form.Has(with) {
			return form
		}
	}
	return nil
}

// verdict asks about every approval that is kept once more at each node, now that all is
// well again, and says what came of all.
func (l *load) verdict(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	turns := make(chan struct{}, 8)
	for _, x := range l.kept {
		group.Go(func() {
			turns <- struct{}{}
			x.checkAll()
			l.judge(x)
			<-turns
		})
	}
	group.Wait()
	s := l.sums
	if s.wrong > 3 {
		t.Errorf("%d histories are wrong", s.wrong)
	}
	took := time.Since(l.start)
	t.Logf("%d approvals, %d of them ended; %d operations, %.0f a second: %d in histories, %d refused, %d told to come back, %d without an answer; %d histories that the protocol does not allow",
		s.lives, s.ended, l.asked.Load(), float64(l.asked.Load())/took.Seconds(), s.operations, l.refused.Load(), l.unavailable.Load(), l.unanswered.Load(), s.wrong)
	if l.old > 0 {
		t.Logf("%d checks were answered from what was, at most %v before", s.stale, l.old)
	}
	if s.lives < least || s.ended == 0 || l.old > 0 && s.stale == 0 {
		t.Error("too little happened for this to mean anything")
	}
}

// tell says every minute how far it is, and what memory it takes.
func (l *load) tell() {
	for every := time.NewTicker(time.Minute); ; {
		select {
		case <-l.done:
			every.Stop()
			return
		case <-every.C:
		}
		l.mu.Lock()
		s, kept := l.sums, len(l.kept)
		l.mu.Unlock()
		var nodes int64
		for _, n := range l.c.nodes {
			nodes += n.resident()
		}
		asked, took := l.asked.Load(), time.Since(l.start).Round(time.Second)
		l.c.t.Logf("%v: %d operations, %.0f a second; %d approvals judged, %d wrong, %d kept; memory: %d MiB here, %d MiB at the nodes",
			took, asked, float64(asked)/took.Seconds(), s.lives, s.wrong, kept, residentOf(os.Getpid())>>20, nodes>>20)
	}
}

// resident is the physical memory of the node's process now, in bytes.
func (n *node) resident() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil || n.process.Process == nil {
		return 0
	}
	return residentOf(n.process.Process.Pid)
}

// residentOf is that of any process; 0 where there is none.
func residentOf(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, found := strings.Cut(string(text), "VmRSS:"); found {
		fmt.Sscan(rest, &bytes)
	}
	return bytes << 10
}

// tally counts faults by kind.
type tally map[string]count

type count struct {
	faults int
	beside int64 // operations that were asked from each until the next one
}

func (f tally) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "\n%-40s %5d, beside them %9d operations", kind, f[kind].faults, f[kind].beside)
	}
	return b.String()
}
