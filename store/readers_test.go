package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// holdReads keeps everybody from reading a table; the func lets them go on.
func (h house) holdReads(t *testing.T, table string) (lift func()) {
	t.Helper()
	db, err := sql.Open("pgx", at(t, h.path, Options{}).URL)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`LOCK TABLE ` + table + ` IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	})
}

// held is how many groups are being read, and are kept from it.
func (h house) held(t *testing.T) (n int) { return h.locked(t, "%FROM facts f LEFT JOIN%") }

// locked is how many such statements wait for a lock.
func (h house) locked(t *testing.T, like string) (n int) {
	t.Helper()
	if err := h.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM pg_stat_activity
		 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1`, like).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// oneHeld furnishes a house with an approval, and holds a group up that reads it.
func oneHeld(t *testing.T, before func(p *postgres.Engine)) (h house, id approval.ID, first chan error, lift func()) {
	t.Helper()
	h = furnished(t)
	h.postgres().Patience = time.Minute
	id = h.live(t, h.answer(1))
	before(h.postgres())
	lift = h.holdReads(t, "approval")
	t.Cleanup(lift)
	first = h.checks(id, 1)
	until(t, "a group that is held", func() bool { return h.held(t) == 1 })
	return h, id, first, lift
}

func asTheyAre(*postgres.Engine)        {}
func neverLate(p *postgres.Engine)      { p.SlowRead = time.Hour }
func whileReadsSlow(p *postgres.Engine) { p.Pace.Slow.Store(true) }

// until waits for what comes in a moment.
func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for range 60_000 {
		if there() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// checks begins checks, and gives what came of them.
func (h house) checks(id approval.ID, n int) chan error {
	answered := make(chan error, n)
	for range n {
		go func() {
			_, err := h.Check(context.Background(), id)
			answered <- err
		}()
	}
	return answered
}

func allGood(t *testing.T, answers ...chan error) {
	t.Helper()
	for _, from := range answers {
		for range cap(from) {
			if err := <-from; err != nil {
				t.Error(err)
			}
		}
	}
}

// What is asked for behind a group that takes long is read beside it.
func TestSlowGroupHoldsNobodyUp(t *testing.T) {
	if embedded() {
		return
	}
	h, _, answered, lift := oneHeld(t, asTheyAre)
	if err := h.fresh(ctx); err != nil { // the facts alone
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatal("answered before the group behind it:", err)
	default:
	}
	lift()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// As long as a group is not late, what is asked for behind it waits: one
// connection reads.
func TestQuickGroupsTakeOneConnection(t *testing.T) {
	if embedded() {
		return
	}
	h, id, answered, lift := oneHeld(t, neverLate)
	behind := h.checks(id, 20)
	until(t, "all the others in the queue", func() bool {
		h.postgres().Reads.Mu.Lock()
		defer h.postgres().Reads.Mu.Unlock()
		return len(h.postgres().Reads.Items) == 20
	})
	if n := h.held(t); n != 1 {
		t.Errorf("%d connections read, want 1", n)
	}
	lift()
	allGood(t, answered, behind)
}

// However much is asked for while nothing can be read: so many connections wait
// for it, and the others go on working.
func TestReadersAreBounded(t *testing.T) {
	if embedded() {
		return
	}
	h, id, first, lift := oneHeld(t, whileReadsSlow)
	answered := h.checks(id, 20*postgres.MaxReaders)
	until(t, "every reader at work", func() bool { return h.held(t) == postgres.MaxReaders })
	for n := range 20 {
		h.register(t, fmt.Sprint("meanwhile", n))
		if err := h.AddSession(ctx, fmt.Sprint("session", n), "ada", Act{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.held(t); n != postgres.MaxReaders {
		t.Errorf("%d connections read, want %d", n, postgres.MaxReaders)
	}
	lift()
	allGood(t, first, answered)
	if s, err := h.ClientState(ctx, "meanwhile19"); err != nil || s == ClientUnknown {
		t.Error(s, err)
	}
	if s := h.postgres().Pool.Stat(); s.MaxConns() < postgres.MaxReaders+10 || s.TotalConns() > s.MaxConns() {
		t.Errorf("%d of %d connections", s.TotalConns(), s.MaxConns())
	}
}

// The store closes behind what is being read, side by side.
func TestClosingWaitsForReaders(t *testing.T) {
	if embedded() {
		return
	}
	h, id, first, lift := oneHeld(t, whileReadsSlow)
	answered := h.checks(id, 3*postgres.MaxReaders)
	until(t, "every reader at work", func() bool { return h.held(t) == postgres.MaxReaders })
	closed := make(chan error)
	go func() { closed <- h.Close() }()
	<-h.postgres().Stopped
	lift()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for _, from := range []chan error{first, answered} {
		for range cap(from) {
			<-from // nobody is left without an answer
		}
	}
}

// A read that ends late does not undo what is known since: neither what a move
// has saved, nor what a later read has found.
func TestOldReadUndoesNothing(t *testing.T) {
	if embedded() {
		return
	}
	everything := grantset.Set{Kind: grantset.Everything}
	for _, tt := range []struct {
		name   string
		since  func(t *testing.T, here, there house, id approval.ID)
		living bool
		row    string // generation and grant
	}{
		{"refreshed here", func(t *testing.T, here, _ house, id approval.ID) { here.must(t, id, 1) }, true, "2 roles"},
		{"refreshed there, and read", func(t *testing.T, here, there house, id approval.ID) {
			there.must(t, id, 1)
			here.accepts(t, id)
		}, true, "2 roles"},
		{"edited there, and read", func(t *testing.T, here, there house, id approval.ID) {
			if err := there.EditGrant(ctx, id, "ada", there.answer(1).Grant, everything, Act{}); err != nil {
				t.Fatal(err)
			}
			here.accepts(t, id)
		}, true, "1 everything"},
		{"ended here", func(t *testing.T, here, _ house, id approval.ID) {
			if _, v, err := here.ApplyLive(ctx, id, approval.Revoke("quill", here.Now()), Act{}); v != approval.OK || err != nil {
				t.Fatal(v, err)
			}
		}, false, ""},
		{"ended there, and read", func(t *testing.T, here, there house, id approval.ID) {
			if err := there.EndApproval(ctx, id, approval.RevokedByOperator, Act{}); err != nil {
				t.Fatal(err)
			}
			here.accepts(t, id)
		}, false, ""},
	} {
		for _, what := range []int{postgres.Wholes, postgres.Checks, postgres.States} {
			t.Run(fmt.Sprint(tt.name, " ", what), func(t *testing.T) {
				all := nodes(t, 2)
				here, p := all[0], all[0].postgres()
				id := here.live(t, here.answer(1))
				here.accepts(t, id)
				var old postgres.Reading
				old.Begin(what)
				if what == postgres.States {
					old.What = postgres.Checks // as it is asked for
					old.Ask(id, p.Rows.Get(id))
				} else {
					old.Ask(id, nil)
				}
				old.Start(p.Version())
				rows, err := p.Pool.Query(ctx, postgres.Reads[old.What], old.Keys)
				if err := p.Take(&old, rows, err); err != nil || old.What != what || old.Rows[id] == nil {
					t.Fatal(old.What, old.Rows, err)
				}
				tt.since(t, here, all[1], id)
				if strings.HasSuffix(tt.name, " here") { // it began while the move was being saved
					old.Began = postgres.Moment(time.Now())
				}
				p.Rows.Put(&old)
				at := p.Rows.Get(id)
				if !tt.living {
					if at != nil {
						t.Errorf("it lives again: %+v", at.A)
					}
					return
				}
				if at == nil || fmt.Sprint(at.A.Generation, " ", at.A.Grant.Kind) != tt.row {
					t.Errorf("remembered is %+v, want %s", at, tt.row)
				}
			})
		}
	}
}

// must refreshes.
func (h house) must(t *testing.T, id approval.ID, generation int64) {
	t.Helper()
	if v, err := h.refresh(id, generation); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
}

// A move does not make what it did not read as young as itself: within a bound
// on staleness the grant set of before an edit would be answered for ever.
func TestRefreshKeepsTheAgeOfTheGrant(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 2)[0]
	id := h.live(t, h.answer(1))
	h.accepts(t, id)
	read := h.postgres().Rows.Get(id).Read.Load()
	h.must(t, id, 1)
	at := h.postgres().Rows.Get(id)
	if at == nil || at.A.Generation != 2 || at.Read.Load() != read {
		t.Errorf("%+v", at)
	}
}
