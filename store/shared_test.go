package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/token"
)

// nodes gives n stores on one database; on the embedded engine, which has one
// writer, all are the same.
func nodes(t testing.TB, n int) []house {
	t.Helper()
	all := []house{furnished(t)}
	for len(all) < n {
		if embedded() {
			all = append(all, all[0])
			continue
		}
		all = append(all, all[0].second(t))
	}
	return all
}

// unique gives pages that nobody has answered.
func (h house) unique(n int) Answer {
	a := h.answer(0)
	nonce := [16]byte{byte(n), byte(n >> 8), byte(n >> 16), 7}
	a.Handle = func(attempt uint32) token.Handle { hd, _ := h.ring.Handle(1, nonce, attempt); return hd }
	a.Grant = grantset.Set{Kind: grantset.Everything}
	return a
}

// What one node has acknowledged, every other knows at once: each fact, and
// each approval.
func TestEveryNodeKnowsAtOnce(t *testing.T) {
	all := nodes(t, 3)
	if !embedded() { // as where thousands of rows change
		all[1].postgres().Few = 0
	}
	random := rand.New(rand.NewPCG(1, 2))
	any := func() house { return all[random.IntN(len(all))] }
	w := &wanderer{house: all[0], Rand: random}
	for n := range rounds(1500) {
		w.house = any()
		name, err := w.step()
		if err != nil && !engine.Refusal(err) {
			t.Fatal(n, name, err)
		}
		h := any()
		if err := h.fresh(ctx); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			h.same(t, fmt.Sprint("step ", n, ", ", name))
		}
		for _, id := range w.known {
			if n%10 > 0 {
				break // whoever checks is up to date: let nodes be some steps behind
			}
			if a, b := any().accepts(t, id), any().accepts(t, id); a != b {
				t.Fatalf("step %d, %s: accepted %v and %v", n, name, a, b)
			}
		}
	}
}

// A node that remembers an approval does not refresh it on facts that another
// has ended since, nor on a state that another has moved on from.
func TestRememberedRows(t *testing.T) {
	all := nodes(t, 2)
	id := all[1].live(t, all[1].unique(1))
	refresh := func(h house, generation int64, want approval.Verdict) {
		t.Helper()
		if v, err := h.refresh(id, generation); v != want || err != nil {
			t.Errorf("generation %d: got %v, %v; want %v", generation, v, err, want)
		}
	}
	for g := int64(1); g < 9; g++ {
		refresh(all[g/2%2], g, approval.OK)
	}
	refresh(all[1], 9, approval.OK)
	all[0].withFaults(t)
	lift := all[0].plant(t, cannot, "UPDATE", "approval") // so that no row is marked
	if err := all[0].RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	lift()
	refresh(all[1], 10, approval.Over)
}

// Facts alone, behind a check, are not asked for again: a context that has
// ended stops only what asks.
func TestCheckedFactsAreNotAskedFor(t *testing.T) {
	h := nodes(t, 1)[0]
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.Person(h.Checked(over), "ada"); err != nil {
		t.Error("after a check:", err)
	}
	if _, err := h.Person(over, "ada"); !embedded() && !errors.Is(err, ErrUnavailable) {
		t.Error("without one:", err)
	}
}

// The facts under an approval are gathered once, until any fact changes.
func TestFactsAreGatheredOnce(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	id := h.live(t, h.unique(1))
	gathered := func() *engine.Under {
		t.Helper()
		if !h.accepts(t, id) {
			t.Fatal("not accepted")
		}
		return h.postgres().Rows.Get(id).Under.Load()
	}
	first := gathered()
	if first == nil || gathered() != first {
		t.Error("gathered again, and nothing has changed")
	}
	if err := h.SetAdmin(ctx, "nordlys", "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if gathered() == first {
		t.Error("not gathered again")
	}
}

// A node that learns at once that somebody left and came back, or that a role was
// deleted and made again, gives nobody the roles that they had before.
func TestBackWithoutRoles(t *testing.T) {
	for name, away := range map[string]func(house) error{
		"member": func(h house) error {
			return errors.Join(h.RemoveMember(ctx, "nordlys", "ada", Act{}), h.SetMember(ctx, "nordlys", "ada", true, Act{}))
		},
		"role": func(h house) error {
			if err := h.tells(directory.Event{Role: &org.Role{ID: "treasurer"}, Gone: true}); err != nil {
				return err
			}
			back := org.Role{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Treasurer"}
			_, err := h.ImportDirectory(ctx, directory.Import{Directory: directory.Directory{Roles: []org.Role{back}}}, Act{})
			return err
		},
		"role renamed": func(h house) error {
			return h.AddDirectory(ctx, directory.Directory{Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Cashier"}}}, Act{})
		},
	} {
		all := nodes(t, 2)
		all[1].live(t, all[1].unique(1)) // up to date
		if err := away(all[0]); err != nil {
			t.Fatal(name, err)
		}
		id := all[0].live(t, all[0].unique(2))
		for _, h := range all {
			x, err := h.Check(ctx, id)
			if filled := x.Member().Fills("treasurer"); err != nil || filled != (name == "role renamed") {
				t.Errorf("%s: %v, fills the role: %v", name, err, filled)
			}
			h.same(t, name)
		}
	}
}

// While reads are slow, a live move that is not remembered is computed from a read
// of its own, also after another node has moved on since.
func TestLiveMovesAreLookedUp(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	one, other := all[0], all[1]
	id := one.live(t, one.unique(1))
	other.postgres().Rows.Drop(id)
	o := &postgres.MoveRequest{ID: id, Live: true, Move: approval.Refresh("quill", 2, 1, one.Now()), Done: make(chan struct{}, 1)}
	if err := other.postgres().LookUp(o); err != nil || o.Row != nil {
		t.Fatal(o.Row, err)
	}
	other.postgres().Pace.Slow.Store(true)
	if err := other.postgres().LookUp(o); err != nil || o.Row == nil || o.Row.A.Generation != 1 {
		t.Fatal(o.Row, err)
	}
	if v, err := one.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	other.postgres().Moves.Join(o)
	if <-o.Done; o.Err != nil || o.Verdict != approval.OK || o.Result.Generation != 3 {
		t.Errorf("from an older row: %v, %v, generation %d", o.Verdict, o.Err, o.Result.Generation)
	}
	other.postgres().Rows.Drop(id)
	if v, err := other.refresh(id, 1); v != approval.Reused || err != nil {
		t.Errorf("a used token: %v, %v", v, err)
	}
	other.postgres().Rows.Drop(id)
	if v, err := other.refresh(id, 3); v != approval.Over || err != nil {
		t.Errorf("after the end: %v, %v", v, err)
	}
}

// Facts are loaded for as long as it takes, even when that is longer than a
// read may: whoever asks is answered in the end.
func TestLoadingOutlastsAReadThatWaits(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	id := all[0].live(t, all[0].unique(1))
	all[1].postgres().Patience = 200 * time.Millisecond
	added, err := all[0].AddPerson(ctx, org.Person{Email: "new@client.example", Name: "New", Active: true}, "", Act{})
	if err != nil {
		t.Fatal(err)
	}
	lift := all[0].holdReads(t, "person")
	defer lift()
	answered := make(chan error)
	go func() {
		_, err := all[1].Check(ctx, id)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatal("answered on old facts:", err)
	case <-time.After(4 * all[1].postgres().Patience):
	}
	lift()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := all[1].Person(ctx, added.ID); err != nil {
		t.Error(err)
	}
}

// F-09 over two nodes: what eight workers are told about one approval is a
// linear history.
func TestF09OverNodes(t *testing.T) {
	all := nodes(t, 2)
	for round := range rounds(250) {
		handle, issued, err := all[0].Approve(ctx, all[0].unique(round), Act{})
		if err != nil {
			t.Fatal(err)
		}
		h := all[0]
		h.others = all
		if !porcupine.CheckOperations(linear, h.race(approval.ID(handle.ID()), issued, round)) {
			t.Fatalf("round %d: not linearizable", round)
		}
	}
}

// Two nodes that start at once on an empty database share the work.
func TestStartAtOnce(t *testing.T) {
	if embedded() {
		return
	}
	for range 3 {
		o := at(t, "", Options{Ring: ring(t)})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, err := Open(ctx, o)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if _, _, err := s.Clients(ctx, ClientFilter{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// A node that starts while another one makes the tables waits for it, also for longer than
// it waits for a lock.
func TestStartWhileTablesAreMade(t *testing.T) {
	if embedded() {
		return
	}
	name, err := server.Database()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, server.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `BEGIN; CREATE TABLE meta (name TEXT)`); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, `SELECT pg_sleep(7); ROLLBACK`)
		held <- err
	}()
	s, err := Open(ctx, Options{URL: server.URL(name), Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
}

// However few connections a URL allows, a node has those of its workers and five for all else;
// where it allows more, all else has them.
func TestConnectionsOfANode(t *testing.T) {
	if embedded() {
		return
	}
	for allowed, want := range map[int]int{1: 5, postgres.LeastConns: 5, postgres.LeastConns + 20: 25} {
		s, err := Open(ctx, Options{URL: fmt.Sprintf("%s&pool_max_conns=%d", at(t, "", Options{}).URL, allowed), Ring: ring(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if most, rest := int(s.postgres().Pool.Config().MaxConns), s.postgres().DB.Stats().MaxOpenConnections; most != max(allowed, postgres.LeastConns) || rest != want {
			t.Errorf("%d allowed: %d in all, %d for all else; want %d", allowed, most, rest, want)
		}
	}
}

// What a start says of a database that cannot be worked on names the mend.
func TestDatabasesThatAreRefused(t *testing.T) {
	if embedded() {
		return
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(server.Exec("postgres", `CREATE DATABASE odd ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`))
	foreign, err := server.Database()
	must(err)
	must(server.Exec(foreign, `CREATE TABLE something (id BIGINT)`))
	poor, err := server.Database()
	must(err)
	must(server.Exec("postgres", `CREATE ROLE guest LOGIN PASSWORD 'geheim'`))
	taken := furnished(t)
	name, err := server.Database()
	must(err)
	made, err := Open(ctx, Options{URL: server.URL(name), Ring: ring(t)})
	must(err)
	must(made.Close())
	guest := func(database string) string {
		return strings.Replace(server.URL(database), "postgres@", "guest:geheim@", 1)
	}
	url := at(t, taken.path, Options{}).URL
	damaged := func(text string) string {
		h := furnished(t)
		h.sql(t, text)
		return at(t, h.path, Options{}).URL
	}
	for _, tt := range []struct{ name, url, want string }{
		{"no URL", "postgres://x:geheim@[::1/x", "write postgres://"},
		{"a port that is none", "postgres://x:geheim@h:port/x", "write postgres://"},
		{"sslmode", "postgres://x:geheim@h/x?sslmode=maybe", "sslmode"},
		{"nobody listens", "postgres://x:geheim@127.0.0.1:1/x", "see that PostgreSQL runs at 127.0.0.1:1"},
		{"no such database", server.URL("nothing"), "createdb --encoding UTF8 --template template0 nothing"},
		{"no TLS", strings.Replace(server.URL(name), "sslmode=disable", "sslmode=require", 1), "the server offers no TLS"},
		{"an unknown parameter", server.URL(name) + "&nonsense=1", "does not know a parameter"},
		{"no such user", strings.Replace(server.URL(name), "postgres@", "nobody:geheim@", 1), "refuses user nobody"},
		{"encoding", server.URL("odd"), "ENCODING 'UTF8'"},
		{"somebody else's tables", server.URL(foreign), "1 tables of something else"},
		{"no right to make tables", guest(poor), "ALTER DATABASE " + poor + " OWNER TO guest"},
		{"no right on tables", guest(name), "GRANT SELECT, INSERT, UPDATE, DELETE"},
		{"a table is gone", damaged(`DROP TABLE subject`), "its table subject is gone; restore it"},
		{"emptied", damaged(`TRUNCATE facts`), "it has been emptied; restore it"},
		{"no such schema", server.URL(poor) + "&search_path=nowhere", "CREATE SCHEMA"},
		{"read-only", url + "&default_transaction_read_only=on", "target_session_attrs=read-write"},
	} {
		for what, open := range map[string]func() error{
			"open": func() error {
				s, err := Open(ctx, Options{URL: tt.url, Ring: ring(t)})
				if err == nil {
					s.Close()
				}
				return err
			},
			"inspect": func() error { _, _, err := InspectURL(ctx, tt.url, ring(t)); return err },
		} {
			err := open()
			if !errors.Is(err, ErrDatabase) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: got %v, want %s", tt.name, what, err, tt.want)
			}
		}
	}
	// What others have put beside our tables is theirs.
	must(server.Exec(name, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest`, `CREATE TABLE others (id BIGINT)`))
	if text, _, err := InspectURL(ctx, guest(name), ring(t)); err != nil {
		t.Errorf("beside a table of others: %q, %v", text, err)
	}
	within, err := pgx.ParseConfig(url)
	must(err)
	good := fmt.Sprintf("postgres %s at 127.0.0.1:%d, schema %d", within.Database, server.Port(), SchemaVersion)
	if text, has, err := InspectURL(ctx, url, ring(t)); err != nil || text != good || has.Version != SchemaVersion {
		t.Errorf("a good one: %q, %+v, %v; want %q", text, has, err, good)
	}
	if text, has, err := InspectURL(ctx, server.URL(poor), ring(t)); err != nil || !strings.HasSuffix(text, ", the tables are made at the first start") || has.Version != 0 {
		t.Errorf("one without tables: %q, %+v, %v", text, has, err)
	}
	if _, _, err := InspectURL(ctx, url, ringOf(t, 0, 9)); !errors.Is(err, ErrKeys) {
		t.Errorf("another installation's keys: %v", err)
	}
	taken.sql(t, `UPDATE meta SET value = '99' WHERE name IN ('schema', 'schema_oldest')`)
	if _, _, err := InspectURL(ctx, url, ring(t)); !errors.Is(err, ErrSchema) {
		t.Errorf("a newer schema: %v", err)
	}
}

// While the server is gone everybody is told that it cannot be now; what was
// acknowledged before is there when it is back, and the nodes go on by
// themselves.
func TestServerGoesAndComesBack(t *testing.T) {
	if embedded() {
		return
	}
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	name, err := own.Database()
	if err != nil {
		t.Fatal(err)
	}
	h := house{ring: ring(t), clock: &machine{now: time.Now()}}
	if h.Store, err = Open(ctx, Options{URL: own.URL(name), Ring: h.ring}); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.furnish(t)
	outages(t, []house{h}, own, func(id approval.ID) {
		_, err := h.Check(ctx, id)
		_, member := h.Member(ctx, "ada", "nordlys")
		for what, err := range map[string]error{"check": err, "member": member, "ready": h.Ready(ctx),
			"register": h.AddClient(ctx, client.Client{ID: "away", RedirectURIs: []string{redirect}}, Origin{}, Act{}),
			"remove":   h.RemoveMember(ctx, "nordlys", "tor", Act{})} {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: got %v, want unavailable", what, err)
			}
		}
	})
	if _, err := h.Client(ctx, "away"); err != nil && !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if m, err := h.Member(ctx, "tor", "nordlys"); err != nil || !m.Exists() {
		t.Errorf("removed while the server was away: %v", err)
	}
}

// A standby answers what was: no node connects to one, whatever its URL asks for.
func TestNoNodeReadsFromAStandby(t *testing.T) {
	if embedded() {
		return
	}
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	name, err := own.Database()
	if err != nil {
		t.Fatal(err)
	}
	standby, err := own.Standby()
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	both := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable", standby.Port(), own.Port(), name)
	s, err := Open(ctx, Options{URL: both, Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err := Open(ctx, Options{URL: standby.URL(name), Ring: ring(t)}); err == nil {
		s.Close()
		t.Error("opened at a standby")
	} else if !strings.Contains(err.Error(), "it is a standby: name the primary") {
		t.Error(err)
	}
}

// With a bound on staleness a check is answered from what was read within the
// bound, never from what is older, even when the database is gone; without one
// it is always read.
func TestStaleness(t *testing.T) {
	if embedded() {
		return
	}
	const bound = 400 * time.Millisecond
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	name, err := own.Database()
	if err != nil {
		t.Fatal(err)
	}
	open := func(staleness time.Duration) house {
		h := house{ring: ring(t), clock: &machine{now: time.Now()}}
		if h.Store, err = Open(ctx, Options{URL: own.URL(name), Ring: h.ring, MaxStaleness: staleness}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	exact, lax := open(0), open(bound)
	exact.furnish(t)
	id, other := exact.live(t, exact.unique(1)), exact.live(t, exact.unique(2))
	for _, end := range []func() error{
		func() error { return exact.EndApproval(ctx, id, approval.RevokedByOperator, Act{}) },
		func() error { return exact.RemoveMember(ctx, "nordlys", "ada", Act{}) },
	} {
		if !lax.accepts(t, other) {
			t.Fatal("not accepted")
		}
		lax.accepts(t, id)
		if err := end(); err != nil {
			t.Fatal(err)
		}
		acknowledged := time.Now()
		if exact.accepts(t, id) {
			t.Error("accepted by the exact node")
		}
		for asked := time.Now(); lax.accepts(t, id); asked = time.Now() {
			// Its facts are found fresh all the while; the row is old all the same.
			if err := lax.postgres().Ask(ctx, &postgres.Question{Done: make(chan struct{}, 1)}); err != nil {
				t.Fatal(err)
			}
			if late := asked.Sub(acknowledged); late > bound {
				t.Fatalf("asked %v after the end, and accepted", late)
			}
		}
	}
	if lax.accepts(t, other) { // within the bound perhaps
		time.Sleep(bound)
	}
	if lax.accepts(t, other) {
		t.Error("the removal never arrived")
	}
	if err := exact.SetMember(ctx, "nordlys", "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	id = exact.live(t, exact.unique(3))
	if !lax.accepts(t, id) {
		t.Fatal("a new one is not accepted")
	}
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	if _, err := exact.Check(ctx, id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the exact node answers without the database: %v", err)
	}
	for {
		asked := time.Now()
		_, err := lax.Check(ctx, id)
		if errors.Is(err, ErrUnavailable) {
			break
		}
		if late := asked.Sub(gone); err != nil || late > bound {
			t.Fatalf("asked %v after the database was gone: %v", late, err)
		}
	}
}

// The time is the database's: nodes whose clocks are five minutes apart agree
// (decision T12).
func TestClocksApart(t *testing.T) {
	if embedded() {
		return
	}
	o := at(t, "", Options{Ring: ring(t)})
	var all []house
	for _, off := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		o.Now = func() time.Time { return time.Now().Add(off) }
		s, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all = append(all, house{Store: s, ring: o.Ring})
	}
	all[0].furnish(t)
	for _, h := range all {
		if apart := time.Until(h.Now()); apart > 2*time.Second || apart < -2*time.Second {
			t.Errorf("%v apart from the database", apart)
		}
	}
	handle, issued, err := all[1].Approve(ctx, all[1].unique(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := all[2].exchange(approval.ID(handle.ID()), issued); v != approval.OK || err != nil {
		t.Errorf("a code of the node that is ahead, at the one behind: %v, %v", v, err)
	}
}

// One node sweeps for all; when it is gone another does. The nodes know of
// each other.
func TestOneNodeSweepsWhileOthersWait(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 3)
	for n := range 20 {
		all[0].register(t, fmt.Sprint("c", n))
	}
	all[0].clock.add(client.UnapprovedRetention)
	var swept atomic.Int64
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			got, err := h.Sweep(ctx)
			if err != nil {
				t.Error(err)
			}
			if got != (Swept{}) {
				swept.Add(1)
			}
		})
	}
	wg.Wait()
	events, _, err := all[0].Events(ctx, EventFilter{Kind: "client_expired", Limit: 1000})
	if err != nil || len(events) != 21 || swept.Load() != 1 {
		t.Errorf("%d nodes swept, %d entries, %v; want one and 21", swept.Load(), len(events), err)
	}
	if list, err := all[0].Nodes(ctx); err != nil || len(list) != 3 || !list[0].Self || list[1].Self || list[0].Key != 1 {
		t.Errorf("nodes: %+v, %v", list, err)
	}
	holder, holders := -1, 0
	for n, h := range all {
		if mine, err := h.postgres().Sweeps(ctx); err != nil {
			t.Fatal(err)
		} else if mine {
			holder, holders = n, holders+1
		}
	}
	if holders != 1 {
		t.Fatalf("%d nodes sweep at a time, want one", holders)
	}
	if err := all[holder].Close(); err != nil {
		t.Fatal(err)
	}
	left := all[(holder+1)%3]
	if mine, err := left.postgres().Sweeps(ctx); err != nil || !mine {
		t.Errorf("nobody sweeps: %v", err)
	}
	left.sql(t, `UPDATE lease SET holder = 'dead', until = until - 1000`)
	if mine, err := left.postgres().Sweeps(ctx); err != nil || !mine {
		t.Errorf("a dead node still sweeps: %v", err)
	}
	if list, err := left.Nodes(ctx); err != nil || len(list) != 2 {
		t.Errorf("nodes: %+v, %v", list, err)
	}
}

// A node that is further behind than the changes are kept loads everything.
func TestTrimmedChanges(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	if err := all[0].AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: org.Person{ID: "eva", Email: "eva@nordlys.example", Name: "Eva", Active: true}}}}, Act{}); err != nil {
		t.Fatal(err)
	}
	all[0].sql(t, `UPDATE facts SET trimmed = version`)
	all[0].sql(t, `DELETE FROM fact_change`)
	if p, err := all[1].Person(ctx, "eva"); err != nil || p.Name != "Eva" {
		t.Errorf("%+v, %v", p, err)
	}
	all[1].same(t, "after the changes were trimmed")
}

// PostgreSQL holds neither NUL nor what is not UTF-8: what is asked for by such
// a text is not there, and nothing fails.
func TestTextsThatCannotBeStored(t *testing.T) {
	h := furnished(t)
	for _, odd := range []string{"quill\x00", "\xff\xfe", "a\x00b"} {
		if _, err := h.Client(ctx, odd); !errors.Is(err, ErrNotFound) {
			t.Errorf("client %q: %v", odd, err)
		}
		if _, err := h.Session(ctx, odd); !errors.Is(err, ErrNotFound) {
			t.Errorf("session %q: %v", odd, err)
		}
		h.Record(Event{Kind: "signin_failed", Detail: odd})
		if err := h.SetActive(ctx, "tor", false, Act{Reason: odd}); err != nil {
			t.Errorf("reason %q: %v", odd, err)
		}
		if _, _, err := h.Clients(ctx, ClientFilter{Query: odd}); err != nil {
			t.Errorf("query %q: %v", odd, err)
		}
	}
	if err := h.Ready(context.Background()); err != nil {
		t.Error(err)
	}
	if list, _, err := h.Events(ctx, EventFilter{Kind: "signin_failed"}); err != nil || len(list) != 3 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}
