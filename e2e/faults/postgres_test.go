package faults

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// startPostgres starts a server that ends with the test.
func startPostgres(t testing.TB) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func addressOf(s *pgtest.Server) string { return fmt.Sprintf("127.0.0.1:%d", s.Port()) }

// A counter is the server of the shared rate limits.
type counter struct {
	t       testing.TB
	address string
	dir     string
	process *exec.Cmd
}

func startCounter(t testing.TB) *counter {
	t.Helper()
	r := &counter{t: t, address: servertest.FreePort(t), dir: t.TempDir()}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *counter) start() {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		program, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		r.t.Fatal("this test needs redis-server: run scripts/setup-debian.sh")
	}
	at, _ := url.Parse("redis://" + r.address)
	r.process = exec.Command(program, "--port", at.Port(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir)
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *counter) kill() {
	r.process.Process.Kill()
	r.process.Wait()
}

// A site is three nodes, whose clocks are five minutes apart, on one PostgreSQL
// server and one Redis. Each has links of its own to them, and to a second PostgreSQL
// server, which need not be there; and a network of its own, where the kernel allows it.
type site struct {
	*cluster
	database      *pgtest.Server
	counter       *counter
	segments      []*segment
	links, spares []*link // of each node, to the first server and to the second
	counters      []*link
}

// clocks are how far those of a site's nodes are ahead.
var clocks = []time.Duration{0, 5 * time.Minute, -5 * time.Minute}

func newSite(t *testing.T, environment ...string) *site {
	t.Helper()
	return newSiteOn(t, startPostgres(t), nil, environment...)
}

// newSiteOn is a site whose nodes connect to where through leads from the database, with
// more in their URL.
func newSiteOn(t *testing.T, database *pgtest.Server, through func(name string) (to, more string), environment ...string) *site {
	t.Helper()
	s := &site{database: database, counter: startCounter(t)}
	name, err := s.database.Database()
	if err != nil {
		t.Fatal(err)
	}
	to, more := addressOf(s.database), "&target_session_attrs=read-write"
	if through != nil {
		to, more = through(name)
	}
	if s.segments, err = newSegments(t, len(clocks)); err != nil {
		t.Logf("no networks of the nodes' own, links alone are cut: %v", err)
	}
	var places []place
	for i, ahead := range clocks {
		here := "127.0.0.1"
		at := place{binary: binaries[ahead]}
		if s.segments != nil {
			at.segment = s.segments[i]
			here = at.segment.others.here
		}
		first, second, counter := newLink(t, here, to), newLink(t, here, ""), newLink(t, here, s.counter.address)
		s.links, s.spares, s.counters = append(s.links, first), append(s.spares, second), append(s.counters, counter)
		at.database = "postgres://postgres@" + first.address() + "," + second.address() + "/" + name + "?sslmode=disable" + more
		at.limiter = "redis://" + counter.address() + "/0"
		places = append(places, at)
	}
	s.cluster = newCluster(t, environment, places...)
	return s
}

func (s *site) someLink(m *maker) *link { return s.links[m.random.IntN(len(s.links))] }

// faults are those of the network, the database and the counter.
func (s *site) faults() []fault {
	return append(s.cutOff(), []fault{
		kill(s.cluster), freeze(s.cluster, 3000, 9000),
		{"database killed", s.restart}, {"connections ended", s.endConnections},
		{"link cut", func(m *maker) {
			l := s.someLink(m)
			l.sever(true)
			m.sleep(300, 4000)
			l.mend()
		}},
		{"link frozen", func(m *maker) {
			thaw := s.someLink(m).freeze()
			m.sleep(500, 9000)
			thaw()
		}},
		{"link slow", func(m *maker) {
			l := s.someLink(m)
			l.slow(time.Duration(5+m.random.IntN(60)) * time.Millisecond)
			m.sleep(1000, 3000)
			l.mend()
		}},
		{"counter killed", func(m *maker) {
			s.counter.kill()
			m.sleep(500, 3000)
			s.counter.start()
		}},
	}...)
}

// restart kills the database, and starts it again.
func (s *site) restart(m *maker) {
	m.must(s.database.Kill())
	m.sleep(100, 2000)
	m.must(s.database.Run())
}

func (s *site) endConnections(m *maker) {
	m.must(s.database.Exec("postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'`))
}

func (m *maker) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// all waits until every node is ready.
func (c *cluster) all() {
	c.t.Helper()
	for _, n := range c.nodes {
		c.ready(n)
	}
}

// F-11, F-09, F-10, T12: three nodes whose clocks are ten minutes apart, on PostgreSQL,
// while all of it is killed, paused, cut off and slowed.
func TestF11_Nodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.furnish(*many * 5 / 3)
	l := newLoad(s.cluster)
	l.run(*many)
	m := newMaker(t, l)
	stop := m.beside(longPause(s.cluster))
	all := s.faults()
	m.work(l, all...)
	stop()
	s.all()
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
	for _, f := range all {
		if m.made[f.name].faults == 0 && time.Since(l.start) >= time.Hour {
			t.Errorf("no fault of the kind %q was made", f.name)
		}
	}
}

// With the bounded cache, no check is answered from what was longer ago than its bound,
// also where a node is cut off from everything but its clients, or was paused. And the
// checker sees that checks are not exact then.
func TestF11_BoundedStaleness(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Second
	s := newSite(t, "GRANTKEEPER_DATABASE_MAX_STALENESS="+bound.String())
	s.furnish(40)
	l := newLoad(s.cluster)
	l.old = bound
	l.run(24)
	m := newMaker(t, l)
	stop := m.beside(longPause(s.cluster))
	m.work(l, s.faults()...)
	stop()
	s.all()
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
}

// F-11: the database fails over to a replica that is synchronous, again and again, while
// nodes are killed and paused. They find the new primary through their connection
// string, and nothing that was acknowledged is lost.
func TestF11_Failover(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.furnish(40)
	standby := s.follow(t, s.spares)
	l := newLoad(s.cluster)
	l.run(24)
	m := newMaker(t, l)
	stop := m.beside(fault{"node killed or paused", func(m *maker) {
		if m.random.IntN(2) == 0 {
			kill(s.cluster).make(m)
		} else {
			freeze(s.cluster, 1000, 9000).make(m)
		}
	}})
	m.work(l, fault{"database failed over", func(m *maker) {
		m.sleep(1000, 3000)
		old := s.database
		m.must(old.Kill()) // and it stays away: nobody may ask it again
		m.sleep(100, 1000)
		m.must(standby.Promote())
		s.database = standby
		m.sleep(2000, 5000)
		m.must(old.Stop())
		s.links, s.spares = s.spares, s.links
		standby = s.follow(t, s.spares)
	}})
	stop()
	s.all()
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
}

// follow starts a synchronous standby of the database, where these links lead to.
func (s *site) follow(t *testing.T, links []*link) *pgtest.Server {
	t.Helper()
	standby, err := s.database.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { standby.Stop() })
	for _, l := range links {
		l.lead(addressOf(standby))
	}
	return standby
}

// T-13: the database is set back to an earlier copy while the nodes live. A token
// from after it ends its approval, and nothing that was ended after it lives on
// unnoticed by those who hold the newer token. Nor does a node go on with facts that
// have not been, and doctor says what to do.
func TestT13_DatabaseSetBack(t *testing.T) {
	s := newSite(t)
	s.furnish(4)
	l := newLoad(s.cluster)
	var lives []*life
	client := l.register()
	for range 4 {
		x := &life{load: l, person: <-l.people, client: client, verifier: random()}
		if x.code = x.approve(); x.code == "" || x.exchange(0) != yes {
			t.Fatal("no approval")
		}
		lives = append(lives, x)
	}
	quiet, ahead, further := lives[0], lives[1], lives[2]
	further.renew(0, 1)
	if err := s.database.Kill(); err != nil {
		t.Fatal(err)
	}
	saved, err := s.database.Save()
	if err != nil {
		t.Fatal(err)
	}
	s.set(func() error { return nil })
	s.all()
	ahead.renew(0, 1)
	further.renew(0, 1)
	further.renew(0, 1)
	s.moves(t, lives[0].person.id, "remove", "add", "remove", "add")
	late := &life{load: l, person: lives[3].person, client: client, verifier: random()}
	if late.code = late.approve(); late.code == "" || late.exchange(0) != yes {
		t.Fatal("no approval")
	}
	for _, x := range []*life{ahead, further, late} {
		x.works(x.access[len(x.access)-1], true)
	}

	if err := s.database.Kill(); err != nil {
		t.Fatal(err)
	}
	s.set(func() error { return s.database.SetBack(saved) })
	s.all()
	quiet.works(quiet.access[0], true)
	quiet.renew(0, 1) // nothing of it happened after the copy
	quiet.works(quiet.access[1], true)
	s.moves(t, quiet.person.id, "remove")
	for _, sent := range quiet.access {
		quiet.works(sent, false)
	}
	// An access token of a generation that the row has not reached works nowhere, and its
	// refresh token ends the approval: with it the tokens from before the copy.
	for _, x := range []*life{ahead, further, late} {
		newest := len(x.access) - 1
		x.works(x.access[newest], false)
		a := x.token(s.any(), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {x.refresh[newest].token}, "client_id": {x.client}})
		if a.status != 400 || a.member("error") != "invalid_grant" {
			t.Errorf("a token from the future: %v", a)
		}
		for _, old := range x.access {
			x.works(old, false)
		}
	}
	var events struct {
		Items []struct{ Kind, Reason string } `json:"items"`
	}
	a := s.any().operate("GET", "/v1/events?kind=approval_ended&limit=100", "")
	if err := json.Unmarshal(a.body, &events); err != nil {
		t.Fatalf("%v: %v", err, a)
	}
	lost := 0
	for _, e := range events.Items {
		if e.Reason == "state_lost" {
			lost++
		}
	}
	if lost != 2 { // of late's approval there is no row to end
		t.Errorf("%d approvals ended by state_lost, want 2: %+v", lost, events.Items)
	}
	doctor := func() string {
		at := s.nodes[1]
		out, _ := at.place.command(binaries[0], "doctor", "--config", at.config, "--only", "database").CombinedOutput()
		return string(out)
	}
	eventually(t, "doctor says it", func(int) bool {
		return strings.Contains(doctor(), "it went back in time") && strings.Contains(doctor(), "fix: end all approvals: grantkeeper backup restore\n")
	})
	if out, err := s.nodes[1].place.command(binaries[0], "backup", "restore", "--config", s.nodes[1].config, "--yes").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if text := doctor(); !strings.HasPrefix(text, "ok    database") {
		t.Errorf("afterwards doctor says:\n%s", text)
	}
}

// moves has an organization's admin remove and add a person.
func (s *site) moves(t *testing.T, person string, all ...string) {
	t.Helper()
	for _, what := range all {
		path, body := "/v1/organizations/nordlys/members", `{"person":"`+person+`","reason":"test"}`
		if what == "remove" {
			path, body = path+"/"+person+"/remove", `{"reason":"test"}`
		}
		eventually(t, what, func(int) bool { return s.nodes[0].operate("POST", path, body).status == 200 })
	}
}

// set changes the database while it is down, and starts it again.
func (s *site) set(change func() error) {
	s.t.Helper()
	if err := change(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.database.Run(); err != nil {
		s.t.Fatal(err)
	}
}

// works wants every node to take an access token, or none.
func (x *life) works(sent held, want bool) {
	x.c.t.Helper()
	for i, n := range x.c.nodes {
		status := 503
		for end := time.Now().Add(time.Minute); status == 503 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			status = n.ask("GET", "/api/v5/me", "", "Authorization", "Bearer "+sent.token).status
		}
		if status != map[bool]int{true: 200, false: 401}[want] {
			x.c.t.Errorf("node %d answers the access token of generation %d with %d, want it taken: %v", i, sent.generation, status, want)
		}
	}
}
