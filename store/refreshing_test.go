package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// saved asks for a refresh of a row that is as the token says, and reports whether it
// was saved without reading the row.
func (h house) saved(id approval.ID, client string, generation int64) (bool, error) {
	after, err := h.postgres().MoveExpected(approval.Expected(id, client, generation),
		approval.Refresh(client, generation, 7, h.Now()), Act{Address: "192.0.2.1"})
	return after != approval.State{}, err
}

// What a token says of its approval is enough for a refresh: the row has all that
// a refresh changes, and what is remembered follows.
func TestARefreshReadsNoRow(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	id := h.live(t, h.unique(1))
	if _, err := h.Check(ctx, id); err != nil {
		t.Fatal(err)
	}
	began := postgres.Moment(time.Now())
	if saved, err := h.saved(id, "quill", 1); !saved || err != nil {
		t.Fatal(saved, err)
	}
	if h.postgres().AsOf.Load() < began {
		t.Error("that the facts are up to date was found, and not noted")
	}
	row, err := h.Approval(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	want := approval.State{Phase: approval.Live, Generation: 2, Key: 7, Network: engine.NetworkOf("192.0.2.1")}
	if row.State != want || row.LastUsed != h.Now().Unix() {
		t.Errorf("%+v, used at %d", row.State, row.LastUsed)
	}
	if at := h.postgres().Rows.Get(id); at == nil || at.A.State != want || int64(at.Used) != h.Now().Unix() {
		t.Errorf("remembered: %+v", at)
	}
	h.sql(t, `UPDATE approval SET used_at = used_at + 60`) // by a node whose clock is ahead
	if n, v, err := h.Refresh(ctx, id, "quill", 2, 1, Act{}); n != 3 || v != approval.OK || err != nil {
		t.Error(n, v, err)
	}
	for range 2 {
		if row, err = h.Approval(ctx, id); err != nil || row.LastUsed != h.Now().Unix()+60 {
			t.Errorf("used at %d, %v: the last use went back", row.LastUsed, err)
		}
		if _, _, err := h.ApplyLive(ctx, id, approval.Revoke("quill", h.Now()), Act{}); err != nil {
			t.Error(err)
		}
	}
}

// A row that is not as the token says stays as it is: it is left to the move.
func TestARefreshOfAnotherRow(t *testing.T) {
	if embedded() {
		return
	}
	for _, tt := range []struct {
		name    string
		client  string
		token   int64
		before  func(h, other house, id approval.ID) error
		verdict approval.Verdict
	}{
		{"another client's", "other", 2, nil, approval.WrongClient},
		{"a used token", "quill", 1, nil, approval.Reused},
		{"a token ahead of its row", "quill", 3, nil, approval.Lost},
		{"ended", "quill", 2, func(h, other house, id approval.ID) error {
			return other.EndApproval(ctx, id, approval.RevokedByPerson, Act{})
		}, approval.Over},
		{"facts of an earlier copy", "quill", 2, func(h, other house, id approval.ID) error {
			other.sql(t, `UPDATE facts SET version = version - 1`)
			return nil
		}, approval.OK},
		{"a client that could not be written", "quill\x00", 2, nil, approval.WrongClient},
		{"unused for long", "quill", 2, func(h, other house, id approval.ID) error {
			h.clock.add(90 * 24 * time.Hour)
			return nil
		}, approval.Over},
		{"pages that are slow to read", "quill", 2, func(h, other house, id approval.ID) error {
			h.postgres().Pace.Slow.Store(true)
			return nil
		}, approval.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := nodes(t, 2)
			for _, h := range all {
				h.db.Options.EndUnusedAfter = 90 * 24 * time.Hour
			}
			h := all[0]
			id := h.live(t, h.unique(1))
			if saved, err := h.saved(id, "quill", 1); !saved || err != nil {
				t.Fatal(saved, err)
			}
			if tt.before != nil {
				if err := tt.before(h, all[1], id); err != nil {
					t.Fatal(err)
				}
			}
			asOf := h.postgres().AsOf.Load()
			saved, err := h.saved(id, tt.client, tt.token)
			if h.postgres().AsOf.Load() != asOf {
				t.Error("no row was found, and the facts count as up to date")
			}
			if saved || err != nil || h.generation(t, id) != 2 {
				t.Fatal(saved, err, h.generation(t, id))
			}
			h.clock.add(time.Minute)
			n, v, err := h.Refresh(ctx, id, tt.client, tt.token, 1, Act{})
			if v != tt.verdict || err != nil || v == approval.OK && n != 3 {
				t.Error(n, v, err)
			}
			if row, err := h.Approval(ctx, id); err != nil || (row.LastUsed == h.Now().Unix()) != (v == approval.OK) {
				t.Errorf("used at %d, now %d, %v", row.LastUsed, h.Now().Unix(), err)
			}
		})
	}
	h := nodes(t, 1)[0]
	if saved, err := h.saved(approval.ID{1}, "quill", 1); saved || err != nil {
		t.Error("none:", saved, err)
	}
}

// What is no refresh, or would be refused, is left to the move: no row is touched.
func TestWhatIsNoRefreshIsLeftToTheMove(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	id := h.live(t, h.unique(1))
	for name, m := range map[string]approval.Move{
		"a revocation":             approval.Revoke("quill", h.Now()),
		"an end":                   approval.End(approval.RevokedByPerson, h.Now()),
		"another client's refresh": approval.Refresh("other", 1, 7, h.Now()),
	} {
		saved, err := h.postgres().MoveExpected(approval.Expected(id, "quill", 1), m, Act{})
		row, found := h.Approval(ctx, id)
		if err != nil || found != nil || saved != (approval.State{}) || row.Phase != approval.Live || row.Generation != 1 || row.Key != 1 {
			t.Errorf("%s: %+v, %v; the row is at %+v, %v", name, saved, err, row.State, found)
		}
	}
}

// A fact that has ended ends the approval, though its row did not say so: nobody gets
// the token that was saved.
func TestARefreshOnALostFact(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	id := h.live(t, h.unique(1))
	h.sql(t, `UPDATE approval SET membership_epoch = membership_epoch - 1`)
	if saved, err := h.saved(id, "quill", 1); saved || err != nil {
		t.Fatal(saved, err)
	}
	for range 2 {
		if _, v, err := h.Refresh(ctx, id, "quill", 1, 1, Act{}); v != approval.Over || err != nil {
			t.Error(v, err)
		}
	}
	if row, err := h.Approval(ctx, id); err != nil || row.Reason != approval.LeftOrganization {
		t.Error(row.State, err)
	}
	id = h.live(t, h.unique(2))
	h.sql(t, `UPDATE approval SET person = 'nobody' WHERE phase = 2`)
	if saved, err := h.saved(id, "quill", 1); saved || err != nil {
		t.Error("of nobody:", saved, err)
	}
}

// While the facts that another node has written are loaded, refreshes do not wait for them: the
// database is asked what has become of those under each approval.
func TestARefreshWhileFactsAreLoaded(t *testing.T) {
	if embedded() {
		return
	}
	for name, ends := range map[string]string{
		"":                        ``,
		"of others":               `UPDATE membership SET epoch = epoch + 1 WHERE NOT (person = 'ada' AND organization = 'nordlys')`,
		"and the membership ends": `UPDATE membership SET epoch = epoch + 1 WHERE person = 'ada' AND organization = 'nordlys'`,
		"and the person":          `UPDATE person SET epoch = epoch + 1`,
		"and the organization":    `UPDATE organization SET epoch = epoch + 1`,
		"and the client":          `UPDATE client SET epoch = epoch + 1`,
	} {
		t.Run("facts "+name, func(t *testing.T) {
			all := nodes(t, 2)
			h, other := all[0], all[1]
			plain, bound := h.live(t, h.unique(1)), h.boundTo(t, h.unique(2), h.proof(1, 1))
			withKey := func(generation int64, proof byte) bool {
				expected := approval.Expected(bound, "quill", generation)
				expected.Bound = approval.Thumbprint{1}
				saved, err := h.postgres().MoveExpected(expected, approval.Refresh("quill", generation, 1, h.Now()), Act{Proof: h.proof(1, proof)})
				if err != nil {
					t.Error(err)
				}
				return saved.Phase == approval.Live
			}
			other.addPerson(t, 1)
			if ends != "" {
				other.sql(t, ends)
				other.sql(t, `INSERT INTO fact_change (version, what, key) SELECT version, '*', '' FROM facts`)
			}
			h.postgres().Pace.Slow.Store(false)
			h.postgres().Saving.Average.Store(0)
			asOf, stands := h.postgres().AsOf.Load(), !strings.HasPrefix(name, "and")
			lift := h.holdReads(t, "fact_change")
			defer lift()
			for i := range int64(2) {
				saved, err := h.saved(plain, "quill", 1+i)
				if saved != stands || err != nil {
					t.Fatalf("the %d. time: %t, %v", i+1, saved, err)
				}
				if withKey(1+i, byte(2+i)) != stands {
					t.Errorf("with a key, the %d. time: %t", i+1, !stands)
				}
				if !stands {
					break
				}
				for h.locked(t, "%FROM fact_change WHERE%") == 0 { // a refresh has begun to load them
					time.Sleep(time.Millisecond)
				}
				h.postgres().Pace.Slow.Store(true) // and now none goes by a move, which would wait
				h.postgres().Saving.Average.Store(int64(h.postgres().SlowRead) + 1)
			}
			if h.postgres().AsOf.Load() != asOf {
				t.Error("facts that are not loaded count as up to date")
			}
			lift()
			h.postgres().Pace.Slow.Store(false)
			for stands && h.postgres().Version() != other.postgres().Version() {
				time.Sleep(time.Millisecond) // nobody asks
			}
			generation, want := int64(1), approval.Over
			if stands {
				generation, want = 3, approval.OK
				if withKey(3, 3) {
					t.Error("a proof was used twice")
				}
			}
			for _, a := range []approval.ID{plain, bound} {
				if got := h.generation(t, a); got != generation {
					t.Errorf("generation %d, want %d", got, generation)
				}
			}
			if v, err := h.refresh(plain, generation); v != want || err != nil {
				t.Error(v, err)
			}
		})
	}
}

// group is what comes together, in that order.
func group(all ...*postgres.Refresh) []*postgres.Refresh {
	for _, r := range all {
		r.Client, r.Generation, r.Move = "quill", 1, approval.Refresh("quill", 1, 1, time.Now())
		r.After, _ = r.Move(approval.Expected(r.ID, "quill", 1), approval.Standing{})
		if r.Since.IsZero() {
			r.Since = time.Now()
		}
	}
	return all
}

// became lists what has become of a group.
func became(all []*postgres.Refresh) string {
	out := ""
	for _, r := range all {
		switch {
		case r.Err != nil && r.Saved:
			out += "both "
		case errors.Is(r.Err, ErrUnavailable):
			out += "refused "
		case r.Err != nil:
			out += r.Err.Error()
		case r.Saved:
			out += "saved "
		default:
			out += "left "
		}
	}
	return out
}

// Those that come together are told apart.
func TestRefreshesTogether(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	h.withFaults(t)
	long := func() time.Time { return time.Now().Add(-2*h.postgres().Patience - time.Second) }
	for n, tt := range []struct {
		name   string
		before func() (lift func())
		group  func(a, b approval.ID) []*postgres.Refresh
		want   string
	}{
		{"two", nil, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "saved saved "},
		{"one token twice", nil, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "saved left saved "},
		{"one that has waited for long", nil, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a, Since: long()}, &postgres.Refresh{ID: b, Since: long().Add(time.Minute)})
		}, "refused saved "},
		{"all that have waited for long", nil, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a, Since: long()}, &postgres.Refresh{ID: b, Since: long()})
		}, "refused refused "},
		{"undone", func() func() { return h.plant(t, undone, "UPDATE", "approval") }, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "left left "},
		{"a database that cannot", func() func() { return h.plant(t, cannot, "UPDATE", "approval") }, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "refused refused "},
		{"not committed", func() func() { return h.plant(t, atCommit, "UPDATE", "approval") }, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "refused refused "},
		{"undone at the commit", func() func() {
			h.sql(t, `CREATE CONSTRAINT TRIGGER planted AFTER UPDATE ON approval DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION planted_2()`)
			return func() { h.dropTrigger(t, "planted", "approval") }
		}, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "left left "},
		{"after groups that took long", func() func() {
			h.postgres().Saving.Average.Store(int64(h.postgres().SlowRead) + 1)
			return func() {}
		}, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "left left "},
		{"after groups that did not", func() func() {
			h.postgres().Saving.Average.Store(int64(h.postgres().SlowRead))
			return func() {}
		}, func(a, b approval.ID) []*postgres.Refresh {
			return group(&postgres.Refresh{ID: a}, &postgres.Refresh{ID: b})
		}, "saved saved "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.postgres().Saving.Average.Store(0)
			all := tt.group(h.live(t, h.unique(2*n)), h.live(t, h.unique(2*n+1)))
			for _, r := range all {
				if _, err := h.Check(ctx, r.ID); err != nil {
					t.Fatal(err)
				}
			}
			lift := func() {}
			if tt.before != nil {
				lift = tt.before()
			}
			h.postgres().SaveTogether(all, map[approval.ID]*postgres.Refresh{{9}: {}})
			lift()
			if got := became(all); got != tt.want {
				t.Errorf("%s: %v", got, all[0].Err)
			}
			for _, r := range all {
				want := int64(1)
				if r.Saved || r == all[1] && r.ID == all[0].ID {
					want = 2
				}
				if at := h.postgres().Rows.Get(r.ID); h.generation(t, r.ID) != want || at == nil || at.A.Generation != want {
					t.Errorf("generation %d, remembered %+v", h.generation(t, r.ID), at)
				}
			}
			asked := tt.name != "all that have waited for long" && tt.name != "after groups that took long"
			if average := h.postgres().Saving.Average.Load(); asked != (average > 0) {
				t.Errorf("asked of the database: %t; the average of what it took: %d", asked, average)
			}
		})
	}
}

// One token that is presented many times at once is used once, and ends the approval.
func TestOneTokenManyTimesAtOnce(t *testing.T) {
	h := nodes(t, 1)[0]
	for n := range 20 {
		id := h.live(t, h.unique(n))
		verdicts := make(chan string, 8)
		for range cap(verdicts) {
			go func() {
				v, err := h.refresh(id, 1)
				verdicts <- fmt.Sprint(v, " ", err)
			}()
		}
		seen := map[string]int{}
		for range cap(verdicts) {
			seen[<-verdicts]++
		}
		if seen["ok <nil>"] != 1 || seen["reused <nil>"] != 1 || seen["over <nil>"] != cap(verdicts)-2 {
			t.Errorf("%v", seen)
		}
	}
}

// A row that somebody holds refuses those that are saved with it, and nobody after them.
func TestARefreshThatWaits(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	held, free := h.live(t, h.unique(1)), h.live(t, h.unique(2))
	lift := h.holdRow(t, held)
	h.postgres().Patience = 2 * time.Second
	refused := make(chan error)
	go func() {
		_, err := h.saved(held, "quill", 1)
		refused <- err
	}()
	until(t, "a statement that is held", func() bool { return h.locked(t, "%WITH locked%") == 1 })
	if saved, err := h.saved(free, "quill", 1); !saved || err != nil {
		t.Error("another:", saved, err)
	}
	if err := <-refused; !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	lift()
	if v, err := h.refresh(held, 1); v != approval.OK || err != nil {
		t.Error("after it:", v, err)
	}
}

// On a connection that is new the statements are prepared first. Where that already waits too
// long nothing was run, and nobody is told that it may have been (decision T10).
func TestARefreshThatWaitsToBePrepared(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	refreshed, revoked := h.live(t, h.unique(1)), h.live(t, h.unique(2))
	h.postgres().Pool.Reset()
	lift := h.holding(t, `LOCK TABLE approval IN ACCESS EXCLUSIVE MODE`)
	h.postgres().Patience = time.Second
	if _, err := h.saved(refreshed, "quill", 1); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcome) {
		t.Error("refresh:", err)
	}
	if _, _, err := h.ApplyLive(ctx, revoked, approval.Revoke("quill", h.Now()), Act{}); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcome) {
		t.Error("move:", err)
	}
	lift()
	if v, err := h.refresh(refreshed, 1); v != approval.OK || err != nil {
		t.Error("after it:", v, err)
	}
}

// Who has waited for a connection gives the server only the time that is left: what is
// refused is not saved when the row is free.
func TestARefreshThatWaitedForItsConnection(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	held := h.live(t, h.unique(1))
	lift := h.holdRow(t, held)
	pool, taken := h.postgres().Pool, []*pgxpool.Conn{}
	for pool.Stat().AcquiredConns() < pool.Config().MaxConns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, c)
	}
	h.postgres().Patience = 2 * time.Second
	refused := make(chan error)
	go func() {
		_, err := h.saved(held, "quill", 1)
		refused <- err
	}()
	time.Sleep(h.postgres().Patience / 2)
	for _, c := range taken {
		c.Release()
	}
	err := <-refused
	lift()
	if !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if v, err := h.refresh(held, 1); v != approval.OK || err != nil {
		t.Error("after it:", v, err)
	}
}

// The timeouts of what saves are its own: who has the connection next has none of them.
func TestTimeoutsEndWithTheStatement(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	const settings = `SELECT CAST(current_setting('lock_timeout') AS TEXT), CAST(current_setting('statement_timeout') AS TEXT)`
	for _, text := range []string{settings, `SELECT 1/0`} {
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		err := h.postgres().InTime(bounded, text, nil, func(rows pgx.Rows) {
			for rows.Next() {
				for _, v := range rows.RawValues() {
					if s := string(v); s == "0" {
						t.Error("no timeout")
					}
				}
			}
		})
		if cancel(); (err == nil) != (text == settings) {
			t.Error(err)
		}
		for _, c := range h.postgres().Pool.AcquireAllIdle(ctx) {
			var lock, statement string
			if err := c.QueryRow(ctx, settings).Scan(&lock, &statement); err != nil || lock != "0" || statement != "0" {
				t.Errorf("after %s: %s, %s, %v", text, lock, statement, err)
			}
			c.Release()
		}
	}
}

// Who waits when the store closes gets an answer, and what is refused is not saved.
func TestClosingWhileRefreshing(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, closes := all[0], all[1]
	closes.postgres().SlowRead = 100 * time.Microsecond // the slot goes to and fro
	var wg sync.WaitGroup
	var saved atomic.Int64
	for n := range 30 {
		id := h.live(t, h.unique(n))
		wg.Go(func() {
			for generation := int64(1); ; generation++ {
				switch v, err := closes.refresh(id, generation); {
				case errors.Is(err, ErrUnavailable):
					if now := h.generation(t, id); now != generation {
						t.Errorf("generation %d, and %d was refused", now, generation)
					}
					return
				case err != nil || v != approval.OK:
					t.Error(v, err)
					return
				}
				saved.Add(1)
			}
		})
	}
	until(t, "some refreshes", func() bool { return saved.Load() > 300 })
	if err := closes.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Rows are locked in the order of their IDs: who waits for the first holds none of the
// others, of which another node may hold one and wait for the first.
func TestRowsAreLockedInOrderWhileOneIsHeld(t *testing.T) {
	if embedded() {
		return
	}
	for name, save := range map[string]func(house, []approval.ID) error{
		"refreshes": func(h house, ids []approval.ID) error {
			var all []*postgres.Refresh
			for _, id := range ids {
				all = append(all, &postgres.Refresh{ID: id})
			}
			h.postgres().SaveTogether(group(all...), map[approval.ID]*postgres.Refresh{})
			return nil
		},
		"moves": func(h house, ids []approval.ID) error {
			var all []*postgres.MoveRequest
			for _, id := range ids {
				all = append(all, h.refreshOf(id))
			}
			h.postgres().MakeTogether(all)
			return nil
		},
		"uses": func(h house, ids []approval.ID) error {
			used := map[approval.ID]uint32{}
			for _, id := range ids {
				used[id] = uint32(h.Now().Unix()) + 7200
			}
			return h.postgres().Transact(ctx, func(tx *engine.Tx) error { return postgres.WriteUses(tx, used) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := nodes(t, 1)[0]
			var ids []approval.ID
			for n := range 40 {
				ids = append(ids, h.live(t, h.unique(n)))
			}
			first := slices.MinFunc(ids, func(a, b approval.ID) int { return bytes.Compare(a[:], b[:]) })
			lift, done := h.holdRow(t, first), make(chan error, 1)
			go func() { done <- save(h, ids) }()
			until(t, "a statement that is held", func() bool { return h.locked(t, "%WITH locked%") == 1 })
			free, err := h.postgres().Pool.Exec(ctx, `SELECT id FROM approval WHERE id <> $1 FOR UPDATE NOWAIT`, first[:])
			if err != nil || int(free.RowsAffected()) != len(ids)-1 {
				t.Error(free, err)
			}
			lift()
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				var saved bool
				row := h.postgres().Pool.QueryRow(ctx, `SELECT generation = 2 OR used_at > $2 FROM approval WHERE id = $1`, id[:], h.Now().Unix()+3600)
				if err := row.Scan(&saved); err != nil || !saved {
					t.Errorf("saved: %v, %v", saved, err)
				}
			}
		})
	}
}

// Connections that have gone stale are left: one group at most hears of them.
func TestARefreshOverAStaleConnection(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h := all[0]
	var ids []approval.ID
	for n := range 2 {
		ids = append(ids, h.live(t, h.unique(n)))
	}
	all[1].cutOthers(t)
	if saved, err := h.saved(ids[0], "quill", 1); !saved && err != nil && !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if v, err := h.refresh(ids[1], 1); v != approval.OK || err != nil {
		t.Error("the next:", v, err)
	}
}

// What waits for a synchronous standby when its caller's time is over is shown to nobody
// before the standby has it: a failover would take it back.
func TestNobodyIsShownWhatWaitsForAStandby(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	refreshed, changed := h.live(t, h.unique(1)), h.live(t, h.unique(2))
	standby := func(name string) {
		if err := server.Exec("postgres", `ALTER SYSTEM SET synchronous_standby_names = '`+name+`'`, `SELECT pg_reload_conf()`); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { standby("") })
	standby("away")
	until(t, "commits wait", func() bool {
		bounded, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := h.postgres().Pool.Exec(bounded, `SELECT pg_logical_emit_message(true, 'test', '')`)
		return err != nil
	})
	h.postgres().Patience = time.Second
	given := make(chan error, 3)
	go func() {
		_, err := h.saved(refreshed, "quill", 1)
		given <- err
	}()
	go func() {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		given <- h.postgres().Transact(bounded, func(tx *engine.Tx) error {
			_, err := tx.Exec(`UPDATE approval SET generation = 2 WHERE id = $1`, changed[:])
			return err
		})
	}()
	go func() {
		given <- h.AddClient(ctx, client.Client{ID: "late", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, Act{})
	}()
	for range 3 {
		if err := <-given; !errors.Is(err, ErrUnavailable) && !errors.Is(err, engine.ErrOutcome) {
			t.Error(err)
		}
	}
	shown := func() (n int) {
		if err := h.db.Reader.QueryRowContext(ctx, `
			SELECT (SELECT COUNT(*) FROM approval WHERE id IN ($1, $2) AND generation = 2) + (SELECT COUNT(*) FROM client WHERE id = 'late')`,
			refreshed[:], changed[:]).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	time.Sleep(500 * time.Millisecond) // for whoever would ask the server to stop
	if n := shown(); n != 0 {
		t.Errorf("%d of three are shown", n)
	}
	standby("")
	until(t, "all three are there", func() bool { return shown() == 3 })
}
