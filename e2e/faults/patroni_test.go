package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// A program runs beside the test, is killed and started again, and ends with the test,
// also when that is killed.
type program struct {
	t    testing.TB
	log  string // file
	argv []string
	cmd  *exec.Cmd
}

func (p *program) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("%v: run scripts/setup-debian.sh", err)
	}
}

func (p *program) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// A member is a machine with Patroni and PostgreSQL: a PID namespace, whose first process
// takes all others with it, and where the kernel allows it a network namespace.
type member struct {
	program
	name         string
	near, far    string // addresses: for HAProxy, for etcd and the other members
	segment      *segment
	config, data string
}

// A trio is three of them with etcd, and HAProxy before them: the files of contrib/patroni
// with other names and times.
type trio struct {
	*testing.T
	dir           string
	members       []*member
	etcd, haproxy program
	pg, rest      string // ports
	address       string // of HAProxy
	answered      map[string][]time.Duration
	http          http.Client
}

// The times of the tests: ttl is at least loop_wait and twice retry_timeout.
const patroniTTL, patroniLoop, patroniRetry = 8, 1, 3

// with gives a file of contrib/patroni with each old text replaced, and fails where it has none.
func (p *trio) with(file string, pairs ...string) string {
	b, err := os.ReadFile("../../contrib/patroni/" + file)
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(b), pairs[i]) {
			p.Fatalf("%s has no %q", file, pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(b))
}

func (p *trio) write(name, text string) string {
	name = filepath.Join(p.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
	return name
}

func (p *trio) port() string {
	port, err := pgtest.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	return strconv.Itoa(port)
}

func newTrio(t *testing.T) *trio {
	dir, err := os.MkdirTemp("", "grantkeeper-ha")
	if err != nil {
		t.Fatal(err)
	}
	p := &trio{T: t, dir: dir, answered: map[string][]time.Duration{}, http: http.Client{Timeout: 2 * time.Second}}
	p.http.Transport = &http.Transport{DisableKeepAlives: true}
	p.pg, p.rest = p.port(), p.port()
	p.address = "127.0.0.1:" + p.pg
	t.Cleanup(p.end)
	segments, err := newSegments(t, 3)
	hub := "127.0.0.1"
	if err == nil {
		hub, err = join(t, segments)
	}
	if err != nil {
		t.Logf("no networks of the servers' own, nothing is cut off: %v", err)
		segments, hub = nil, "127.0.0.1"
	}
	uid, gid := -1, -1 // who PostgreSQL runs as
	as := []string{"unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Geteuid() == 0 { // PostgreSQL refuses root
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
		as = []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
			"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups", "--pdeathsig", "KILL"}
	}
	folder := func(name string) string {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(name, 0o755), os.Chown(name, uid, gid)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	folder("") // which is this process's alone so far
	etcd := net.JoinHostPort(hub, p.port())
	peers := "http://127.0.0.1:" + p.port()
	p.etcd = program{t: t, log: filepath.Join(dir, "etcd.log"), argv: []string{"etcd", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://" + etcd, "--advertise-client-urls", "http://" + etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers}}
	p.etcd.start()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Fatal("this test needs PostgreSQL: run scripts/setup-debian.sh")
	}
	servers := []string{"127.0.0.1:5432", p.address, "port 8008", "port " + p.rest}
	for i := range 3 {
		m := &member{name: fmt.Sprintf("db%d", i+1)}
		m.near = fmt.Sprintf("127.0.1.%d", i+1)
		m.far = m.near
		listen, rest := m.near, m.near
		argv := as
		if segments != nil {
			m.segment = segments[i]
			m.near, m.far = m.segment.clients.there, fmt.Sprintf("198.18.255.%d", i+1)
			listen, rest = m.near+","+m.far, "0.0.0.0"
			argv = append([]string{"ip", "netns", "exec", m.segment.name}, as...)
		}
		m.data = filepath.Join(dir, m.name)
		sockets := folder("s" + strconv.Itoa(i))
		m.config = p.write(m.name+".yml", p.with("patroni.yml",
			"name: db1", "name: "+m.name, "listen: 0.0.0.0:8008", "listen: "+rest+":"+p.rest,
			"connect_address: db1.example:8008", "connect_address: "+m.far+":"+p.rest,
			"listen: db1.example:5432", "listen: "+listen+":"+p.pg,
			"connect_address: db1.example:5432", "connect_address: "+m.far+":"+p.pg,
			"etcd1.example:2379,etcd2.example:2379,etcd3.example:2379", etcd,
			"mode: required", "mode: off", // it would end this machine
			"ttl: 30", fmt.Sprint("ttl: ", patroniTTL), "loop_wait: 10", fmt.Sprint("loop_wait: ", patroniLoop),
			"retry_timeout: 10", fmt.Sprint("retry_timeout: ", patroniRetry), "10.0.0.0/8", "0.0.0.0/0",
			"/var/lib/postgresql/15/grantkeeper", m.data, "/usr/lib/postgresql/15/bin", found[len(found)-1],
			"/var/lib/postgresql/patroni.pgpass", m.data+".pgpass", "/var/run/postgresql", sockets))
		m.program = program{t: t, log: filepath.Join(dir, m.name+".log"), argv: append(slices.Clone(argv), "patroni", m.config)}
		m.start()
		p.members = append(p.members, m)
		servers = append(servers, m.name+".example:5432", m.near+":"+p.pg)
	}
	p.haproxy = program{t: t, log: filepath.Join(dir, "haproxy.log"), argv: []string{"/usr/sbin/haproxy", "-db", "-f", p.write("haproxy.cfg", p.with("haproxy.cfg", servers...))}}
	p.haproxy.start()
	p.whole()
	eventually(t, "a role and its database", func(int) bool { // also where a busy machine makes another the primary now
		conn, err := pgx.Connect(context.Background(), "postgres://postgres:change-this-one@"+p.address+"/postgres?sslmode=disable&connect_timeout=5")
		if err != nil {
			return false
		}
		defer conn.Close(context.Background())
		var known *pgconn.PgError
		for _, text := range []string{`CREATE ROLE grantkeeper LOGIN PASSWORD 'grantkeeper'`, `CREATE DATABASE grantkeeper OWNER grantkeeper ENCODING 'UTF8' TEMPLATE template0`} {
			if _, err := conn.Exec(context.Background(), text); err != nil && !(errors.As(err, &known) && (known.Code == "42710" || known.Code == "42P04")) {
				return false // but for those that are there
			}
		}
		return true
	})
	return p
}

// join puts the far ends of the segments' second cables into one network, and gives our address there.
func join(t testing.TB, all []*segment) (string, error) {
	hub := fmt.Sprintf("gk%xh", os.Getpid())
	if err := ip("link", "add", hub, "type", "bridge"); err != nil {
		return "", err
	}
	t.Cleanup(func() { ip("link", "del", hub) })
	for i, g := range all {
		if err := ip("link", "set", g.others.device, "master", hub); err != nil {
			return "", err
		}
		if err := ip("-n", g.name, "addr", "add", fmt.Sprintf("198.18.255.%d/24", i+1), "dev", "eth1"); err != nil {
			return "", err
		}
	}
	if err := ip("addr", "add", "198.18.255.254/24", "dev", hub); err != nil {
		return "", err
	}
	return "198.18.255.254", ip("link", "set", hub, "up")
}

// end kills everything, and shows what was logged where the test failed.
func (p *trio) end() {
	for _, one := range append([]*program{&p.etcd, &p.haproxy}, p.programs()...) {
		if one.cmd != nil {
			one.kill()
		}
		if p.Failed() && one.log != "" {
			text, _ := os.ReadFile(one.log)
			p.Logf("%s ends with\n%s", filepath.Base(one.log), text[max(0, len(text)-6000):])
		}
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.Error(err)
	}
}

func (p *trio) programs() (all []*program) {
	for _, m := range p.members {
		all = append(all, &m.program)
	}
	return all
}

// get asks a member's Patroni.
func (p *trio) get(m *member, path string, into any) int {
	a, err := p.http.Get("http://" + m.near + ":" + p.rest + path)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	if into != nil && json.NewDecoder(a.Body).Decode(into) != nil {
		return 0
	}
	return a.StatusCode
}

// leader is who says that it is the primary, nil without.
func (p *trio) leader() *member {
	for _, m := range p.members {
		if p.get(m, "/primary", nil) == http.StatusOK {
			return m
		}
	}
	return nil
}

// unstick restarts Patroni as an operator has to: a release before 3.1 that has stood still
// may hold on to what etcd had before, and then names no synchronous standby any more
// (patroni pull request 2783).
func (p *trio) unstick(m *member) {
	text, _ := os.ReadFile(m.log)
	if text = text[max(0, len(text)-1000):]; strings.Count(string(text), "Synchronous replication key updated by someone else") > 3 {
		p.Logf("%s holds on to an old state of etcd, and is started again", m.name)
		m.kill()
		m.start()
	}
}

// whole waits until there is a primary with a synchronous standby and another one, and
// gives the former two.
func (p *trio) whole() (primary, sync *member) {
	p.Helper()
	within(p.T, 3*time.Minute, "a primary, a synchronous standby and one more", // one may have to be copied anew
		func(try int) bool {
			var seen struct {
				Members []struct {
					Name, Role, State string
					Timeline          int
				}
			}
			primary, sync = p.leader(), nil
			if primary != nil && try%100 == 99 {
				p.unstick(primary)
			}
			if primary == nil || p.get(primary, "/cluster", &seen) != http.StatusOK || len(seen.Members) != len(p.members) {
				return false
			}
			for _, m := range seen.Members {
				if m.State != "running" && m.State != "streaming" || m.Timeline != seen.Members[0].Timeline {
					return false
				}
				if m.Role == "sync_standby" {
					sync = p.members[slices.IndexFunc(p.members, func(o *member) bool { return o.name == m.Name })]
				}
			}
			return sync != nil
		})
	return primary, sync
}

// taken waits until another than old is the primary. That is the only one then.
func (p *trio) taken(old *member) {
	p.Helper()
	eventually(p.T, "another primary", func(int) bool { m := p.leader(); return m != nil && m != old })
	if p.get(old, "/primary", nil) == http.StatusOK {
		p.Errorf("%s still says that it is the primary", old.name)
	}
}

// children are the processes that one has started, or inherited.
func children(of int) (all []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range found {
		text, _ := os.ReadFile(name)
		if strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", of)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			all = append(all, pid)
		}
	}
	return all
}

// signal sends to Patroni, or to the first process of PostgreSQL.
func (m *member) signal(patroni bool, s syscall.Signal) {
	m.t.Helper()
	sent := false
	for _, first := range children(m.cmd.Process.Pid) {
		for _, pid := range children(first) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(line), m.config) && patroni || strings.Contains(string(line), "\x00-D\x00"+m.data+"\x00") && !patroni {
				sent = syscall.Kill(pid, s) == nil || sent
			}
		}
	}
	if !sent {
		m.t.Errorf("%s: nothing to send %v to", m.name, s)
	}
}

// measured waits until every node has registered a client, and keeps how long after
// begin that was.
func (p *trio) measured(what string, begin time.Time, c *cluster) {
	p.Helper()
	for i, n := range c.nodes {
		eventually(p.T, fmt.Sprintf("node %d writes again after: %s", i, what), func(int) bool {
			return n.ask("POST", "/oauth/register", `{"redirect_uris":["`+redirect+`"]}`, "Content-Type", "application/json").status == http.StatusCreated
		})
	}
	p.answered[what] = append(p.answered[what], time.Since(begin).Round(100*time.Millisecond))
}

// faults are those of a trio under a cluster; the first of them are made in every run.
func (p *trio) faults(c *cluster) (all []fault) {
	add := func(name string, make func(m *maker, primary, sync *member, answered func())) {
		all = append(all, fault{name, func(m *maker) {
			primary, sync := p.whole()
			begin := time.Now()
			make(m, primary, sync, func() { p.measured(name, begin, c) })
			p.whole()
		}})
	}
	if p.members[0].segment != nil {
		add("primary cut off from etcd and its standbys", func(m *maker, primary, _ *member, answered func()) {
			m.must(primary.segment.others.pull())
			p.taken(primary)
			answered()
			m.must(primary.segment.others.plug())
		})
	}
	add("primary's machine killed", func(m *maker, primary, _ *member, answered func()) {
		primary.kill()
		p.taken(primary)
		answered()
		primary.start()
	})
	add("primary's PostgreSQL killed", func(m *maker, primary, _ *member, answered func()) {
		primary.signal(false, syscall.SIGKILL)
		answered() // of another, or of this one where Patroni found none in time
	})
	add("primary's Patroni paused", func(m *maker, primary, _ *member, answered func()) {
		primary.signal(true, syscall.SIGSTOP)
		p.taken(primary)
		answered()
		m.sleep(0, 3000)
		primary.signal(true, syscall.SIGCONT)
	})
	add("switchover", func(m *maker, primary, sync *member, answered func()) {
		eventually(p.T, "patronictl changes the primary", func(int) bool {
			out, err := exec.Command("patronictl", "-c", primary.config, "switchover", "grantkeeper",
				"--leader", primary.name, "--candidate", sync.name, "--force").CombinedOutput()
			if err != nil {
				m.Logf("patronictl: %v\n%s", err, out)
			}
			now := p.leader() // on a busy machine it says that it failed, and has not
			return err == nil || now != nil && now != primary
		})
		p.taken(primary)
		answered()
	})
	add("synchronous standby killed", func(m *maker, _, sync *member, answered func()) {
		sync.kill()
		answered()
		m.sleep(100, 4000)
		sync.start()
	})
	add("HAProxy killed", func(m *maker, _, _ *member, answered func()) {
		p.haproxy.kill()
		m.sleep(100, 2000)
		p.haproxy.start()
		answered()
	})
	add("etcd away for longer than the TTL", func(m *maker, _, _ *member, answered func()) {
		p.etcd.kill()
		for i, n := range c.nodes {
			eventually(p.T, fmt.Sprintf("node %d lets nobody through without a primary", i), func(int) bool {
				return n.ask("POST", "/oauth/register", `{"redirect_uris":["`+redirect+`"]}`, "Content-Type", "application/json").status == http.StatusServiceUnavailable
			})
		}
		m.sleep(1000*patroniTTL, 1000*patroniTTL+3000)
		p.etcd.start()
		answered()
	})
	return all
}

// F-11: the database is PostgreSQL under Patroni, whose primary is killed, cut off, paused
// and replaced, and nothing that was acknowledged is lost, nor is anything told that a
// primary says which is none any more.
func TestF11_Patroni(t *testing.T) {
	t.Parallel()
	p := newTrio(t)
	at := place{binary: binaries[0], database: "postgres://grantkeeper:grantkeeper@" + p.address + "/grantkeeper?sslmode=disable&target_session_attrs=read-write"}
	c := newCluster(t, nil, at, at)
	c.furnish(24)
	l := newLoad(c)
	l.run(12)
	m := newMaker(t, l)
	all := p.faults(c)
	always := all[:1]
	if *lasting > time.Minute { // each of them once, then any
		always = all
	}
	eventually(t, "approvals are lived through", func(int) bool { return l.enough() })
	begin := time.Now()
	for _, f := range always {
		m.one(f)
	}
	m.count()
	if time.Since(begin) < *lasting {
		m.work(l, all...)
	}
	c.all()
	l.stop()
	l.verdict(t)
	t.Logf("faults: %v", m.made)
	for what, after := range p.answered {
		t.Logf("first answers of both nodes, %s: after %v", what, after)
	}
}
