package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// A copy is the facts of a database at one moment.
type factCopy struct{ house }

var copied = []string{"facts", "fact_change", "person", "membership"}

func (h house) copyFacts(t *testing.T) factCopy {
	t.Helper()
	for _, table := range copied {
		h.sql(t, fmt.Sprintf(`CREATE TABLE kept_%s AS TABLE %[1]s`, table))
	}
	return factCopy{h}
}

// setBack lets the database have the facts of the copy again.
func (c factCopy) setBack(t *testing.T) {
	t.Helper()
	for _, table := range copied {
		c.sql(t, fmt.Sprintf(`DELETE FROM %s; INSERT INTO %[1]s TABLE kept_%[1]s`, table))
	}
}

func (h house) addPerson(t *testing.T, n int) {
	t.Helper()
	p := org.Person{ID: fmt.Sprint("p", n), Email: fmt.Sprint("p", n, "@nordlys.example"), Name: "P", Active: true}
	if err := h.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: p}}}, Act{}); err != nil {
		t.Fatal(err)
	}
}

// T13: nodes that live while the database is set back do not go on with what they
// know of a time that it has not seen: neither when it is behind them still, nor
// when it has come further than they were.
func TestNodesOfADatabaseSetBack(t *testing.T) {
	if embedded() {
		return
	}
	for name, since := range map[string]int{"behind": 0, "as far": 1, "further": 5} {
		t.Run(name, func(t *testing.T) {
			all := nodes(t, 2)
			a, b := all[0], all[1]
			id, other := a.live(t, a.unique(1)), a.live(t, a.unique(2))
			copy := a.copyFacts(t)
			for n := range 2 + since { // what will not have been
				a.addPerson(t, n)
			}
			if err := a.SetActive(ctx, "tor", false, Act{}); err != nil {
				t.Fatal(err)
			}
			if !b.accepts(t, id) {
				t.Fatal("not accepted")
			}
			copy.setBack(t)
			c := a.second(t)
			for n := range since {
				c.addPerson(t, 10+n)
			}
			if err := c.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
				t.Fatal(err)
			}
			for _, h := range []house{a, b, c} {
				if h.accepts(t, id) {
					t.Error("accepted after the removal")
				}
				if p, err := h.Person(ctx, "tor"); err != nil || !p.Active {
					t.Errorf("deactivated by what has not been: %+v, %v", p, err)
				}
				h.same(t, "after the database was set back")
			}
			if v, err := b.refresh(other, 1); v != approval.Over || err != nil {
				t.Errorf("a refresh: %v, %v; want over", v, err)
			}
			for _, h := range []house{a, c, b} { // each has noted it, if it has, before it is settled
				h.saysWentBack(t, true)
			}
			if _, err := b.SettleRestored(ctx, Act{}); err != nil {
				t.Fatal(err)
			}
			b.saysWentBack(t, false)
		})
	}
}

// saysWentBack waits until what was noted is written.
func (h house) saysWentBack(t *testing.T, want bool) {
	t.Helper()
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if at, err := h.WentBack(ctx); err != nil || at.IsZero() == want {
		t.Errorf("went back at %v, %v; want it said: %v", at, err, want)
	}
}

// The first change of a node after the database was set back stands on the facts
// as they are, not as it remembers them.
func TestChangeAfterADatabaseSetBack(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	copy := all[0].copyFacts(t)
	if err := all[0].RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	copy.setBack(t)
	handle, issued, err := all[0].Approve(ctx, all[0].unique(1), Act{})
	if err != nil {
		t.Fatal("approved by a member:", err)
	}
	if v, err := all[1].exchange(approval.ID(handle.ID()), issued); v != approval.OK || err != nil {
		t.Error(v, err)
	}
}

// What nobody has lost makes no node say so: nodes that are slow, that register
// the same client, or that are further behind than the changes are kept.
func TestNothingWentBack(t *testing.T) {
	all := nodes(t, 2)
	all[0].saysWentBack(t, false)
	if embedded() {
		return
	}
	all[1].register(t, "brass")
	if err := all[0].AddClient(ctx, client.Client{ID: "brass", RedirectURIs: []string{redirect}}, Origin{}, Act{}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	all[1].addPerson(t, 1)
	all[0].sql(t, `UPDATE facts SET trimmed = version`)
	all[0].sql(t, `DELETE FROM fact_change`)
	all[0].addPerson(t, 2)
	for _, h := range all {
		h.same(t, "afterwards")
		h.saysWentBack(t, false)
	}
}

// T13: a token from the future says it, on both engines.
func TestTokenFromTheFutureSaysIt(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if v, err := h.refresh(id, 3); v != approval.Lost || err != nil {
		t.Fatal(v, err)
	}
	h.saysWentBack(t, true)
	if n, err := h.SettleRestored(ctx, Act{}); n != 0 || err != nil {
		t.Error(n, err)
	}
	h.saysWentBack(t, false)
}

// A database that is emptied under a node has ended nothing: whoever asks is told
// to come back.
func TestEmptiedDatabase(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	id := h.live(t, h.unique(1))
	for range 2 { // what is remembered, and what is not
		h.sql(t, `CREATE TABLE kept_facts AS TABLE facts; DELETE FROM facts`)
		if err := h.SetActive(ctx, "tor", false, Act{}); !errors.Is(err, ErrUnavailable) || h.WhyNot(err) != NoTable {
			t.Errorf("a change: %v; want unavailable, as a table is gone", err)
		}
		if _, err := h.Check(ctx, id); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a check: %v; want unavailable", err)
		}
		if _, err := h.refresh(id, 1); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a refresh: %v; want unavailable", err)
		}
		h.sql(t, `INSERT INTO facts TABLE kept_facts; DROP TABLE kept_facts`)
		if !h.accepts(t, id) {
			t.Error("not accepted afterwards")
		}
		h.postgres().Rows.Drop(id)
	}
}

// Facts that do not come because the machine that has them is gone without a word
// do not hold a node up: it takes another connection.
func TestLoadingFromAMachineThatIsGone(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	id := all[0].live(t, all[0].unique(1))
	all[1].postgres().Stalled = 300 * time.Millisecond
	all[0].addPerson(t, 1)
	lift := all[0].holdReads(t, "person")
	defer lift()
	if _, err := all[1].Check(ctx, id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	lift()
	if !all[1].accepts(t, id) {
		t.Error("not accepted afterwards")
	}
}

// What is the matter with a database that still answers some statements is kept for
// doctor, and not for longer than a minute.
func TestWhatIsTheMatter(t *testing.T) {
	if embedded() {
		return
	}
	for cause, text := range map[string][2]string{
		NoRight: {`REVOKE SELECT ON approval FROM CURRENT_USER`, `GRANT SELECT ON approval TO CURRENT_USER`},
		NoTable: {`ALTER TABLE approval RENAME TO gone`, `ALTER TABLE gone RENAME TO approval`},
	} {
		t.Run(cause, func(t *testing.T) {
			h := ownedByGuest(t)
			id := h.live(t, h.unique(1))
			h.sql(t, text[0])
			if _, err := h.Check(ctx, id); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a check: %v; want unavailable", err)
			}
			if r := h.Refused(); r.Cause != cause {
				t.Errorf("said is %q, want %q", r.Cause, cause)
			}
			h.sql(t, text[1])
			if !h.accepts(t, id) {
				t.Error("not accepted afterwards")
			}
			h.clock.add(postgres.RefusedFor)
			if r := h.Refused(); r.Cause != "" {
				t.Errorf("a minute later said is %q", r.Cause)
			}
		})
	}
}

// ownedByGuest is a node whose user is no superuser: rights can be taken from it.
func ownedByGuest(t *testing.T) house {
	t.Helper()
	name, err := server.Database()
	if err != nil {
		t.Fatal(err)
	}
	role := "guest_of_" + name
	if err := server.Exec("postgres", `CREATE ROLE `+role+` LOGIN`, `ALTER DATABASE `+name+` OWNER TO `+role); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.URL(name), "postgres@", role+"@", 1)
	h := house{ring: ring(t), clock: &machine{now: time.Now()}}
	if h.Store, err = Open(ctx, Options{URL: url, Ring: h.ring, Now: h.clock.Now, DatabaseTime: h.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	h.furnish(t)
	return h
}

// What a sweep trims: changes that no node needs, and nodes that are long gone.
func TestTrim(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	h.sql(t, `INSERT INTO node (id, started_at, seen_at, key_number, version, schema) VALUES ('gone', 0, 1, 1, 0, 1)`)
	before := h.rows(t, `SELECT COUNT(*) FROM fact_change`)
	h.sql(t, fmt.Sprintf(`UPDATE facts SET version = version + %d`, int64(postgres.KeptChanges)))
	h.sql(t, `UPDATE lease SET version = (SELECT version FROM facts)`)
	h.addPerson(t, 1)
	if err := h.postgres().Trim(ctx); err != nil {
		t.Fatal(err)
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM fact_change`); before < 3 || n != 1 {
		t.Errorf("of %d changes %d are left, want the last one", before, n)
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM node`); n != 1 {
		t.Errorf("%d nodes are left, want the one that lives", n)
	}
	h.same(t, "after a sweep")
}
