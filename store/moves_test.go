package store

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// pair are moves of a node that are made together: of one approval the row was
// read before, as while reads are slow, and that of the other is not.
type pair struct {
	house
	known, unknown *postgres.MoveRequest
}

func pack(t *testing.T, h house) *pair { return packed(t, h, 1) }

func packed(t *testing.T, h house, n int) *pair {
	t.Helper()
	p := &pair{house: h, known: h.refreshOf(h.live(t, h.unique(n))), unknown: h.refreshOf(h.live(t, h.unique(n+1)))}
	row, err := h.postgres().ReadNow(ctx, p.known.ID)
	if err != nil {
		t.Fatal(err)
	}
	p.known.Row = row
	h.postgres().Rows.Drop(p.unknown.ID)
	return p
}

func (h house) refreshOf(id approval.ID) *postgres.MoveRequest {
	return &postgres.MoveRequest{ID: id, Live: true, Move: approval.Refresh("quill", 1, 1, h.Now()), Done: make(chan struct{}, 1), Since: time.Now()}
}

// make makes both, and again until both callers have their answer.
func (p *pair) make() {
	p.postgres().MakeTogether([]*postgres.MoveRequest{p.known, p.unknown})
	for _, o := range []*postgres.MoveRequest{p.known, p.unknown} {
		<-o.Done
	}
}

// good says which of them are not made.
func (p *pair) good(t *testing.T, all ...*postgres.MoveRequest) {
	t.Helper()
	for _, o := range all {
		if n := p.generation(t, o.ID); o.Err != nil || o.Verdict != approval.OK || o.Result.Generation != 2 || n != 2 {
			t.Errorf("row known before: %t: %v, %v, generation %d", o == p.known, o.Verdict, o.Err, n)
		}
	}
}

// refused says which of them are not refused, with nothing changed.
func (p *pair) refused(t *testing.T, all ...*postgres.MoveRequest) {
	t.Helper()
	for _, o := range all {
		if n := p.generation(t, o.ID); !errors.Is(o.Err, ErrUnavailable) || n != 1 {
			t.Errorf("row known before: %t: %v, %v, generation %d", o == p.known, o.Verdict, o.Err, n)
		}
	}
}

// Rows that are not known are read, from facts that are no older, and remembered.
func TestMovesReadAndSave(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	all[1].addPerson(t, 1)
	p.postgres().Pace.Average.Store(0)
	began := postgres.Moment(time.Now())
	p.make()
	if p.postgres().Pace.Average.Load() == 0 { // what comes after reads too
		t.Error("nobody knows how long reading takes")
	}
	p.good(t, p.known, p.unknown)
	if p.postgres().Version() != all[1].postgres().Version() || p.postgres().AsOf.Load() < began {
		t.Error("facts as they were")
	}
	for _, o := range []*postgres.MoveRequest{p.known, p.unknown} {
		if at := p.postgres().Rows.Get(o.ID); at == nil || at.A.Generation != 2 {
			t.Errorf("remembered: %v", at)
		}
	}
}

// A move whose row has changed meanwhile is computed from the row, and in the end
// alone.
func TestAMoveThatMissesIsMadeAgain(t *testing.T) {
	if embedded() {
		return
	}
	for _, tries := range []int{0, engine.MaxTries - 1} {
		p := pack(t, nodes(t, 1)[0])
		older := p.known.Row.A
		older.Generation = 0
		p.known.Row, p.known.Tries = p.known.Row.With(older, p.known.Row.Picks, 0, 1), tries
		p.known.Move = func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			return approval.Refresh("quill", a.Generation, 1, p.Now())(a, s)
		}
		p.make()
		p.good(t, p.known, p.unknown)
		if p.known.Tries != tries+1 {
			t.Errorf("made %d times more", p.known.Tries-tries)
		}
		if at := p.postgres().Rows.Get(p.known.ID); at != nil && at.A.Generation != 2 {
			t.Errorf("remembered as it was: %+v", at.A.State)
		}
	}
}

// What has missed its row leaves nothing in the journal.
func TestAMoveThatMissesIsJournaledOnce(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	if v, err := all[1].refresh(p.known.ID, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	p.known.Move = approval.Revoke("quill", p.Now())
	p.make()
	entries, _, err := p.Events(ctx, EventFilter{Kind: "approval_ended", Approval: p.known.ID.String(), Limit: 10})
	if err != nil || len(entries) != 1 || p.known.Tries != 1 || p.known.Verdict != approval.OK {
		t.Errorf("%d entries, made %d times more, %v, %v", len(entries), p.known.Tries, p.known.Verdict, err)
	}
}

// A row that has ended meanwhile has its generation still: no refresh brings it back.
func TestAMoveOfWhatHasEndedMeanwhile(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	if _, _, err := all[1].ApplyLive(ctx, p.known.ID, approval.End(approval.RevokedByPerson, p.Now()), Act{}); err != nil {
		t.Fatal(err)
	}
	p.make()
	if p.known.Verdict != approval.Over || p.known.Err != nil || p.accepts(t, p.known.ID) {
		t.Error(p.known.Verdict, p.known.Err)
	}
	p.good(t, p.unknown)
}

// What the server has undone, as it does with a deadlock, is made again, and takes
// nobody with it. While that goes on, all are refused.
func TestAMoveThatIsUndone(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.withFaults(t)
	lift := p.plant(t, undone, "UPDATE", "approval")
	p.make()
	lift()
	p.refused(t, p.known, p.unknown)
	if p.known.Tries != engine.MaxTries {
		t.Errorf("made %d times", p.known.Tries)
	}
}

// Nobody is told of a move before the commit, which is after all that is saved.
func TestMovesThatAreNotCommitted(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.withFaults(t)
	lift := p.plant(t, atCommit, "UPDATE", "approval")
	p.make()
	lift()
	p.refused(t, p.known, p.unknown)
	if at := p.postgres().Rows.Get(p.known.ID); at != nil {
		t.Error("what was refused is remembered")
	}
}

// Moves of a row that somebody holds are refused, with those that are saved with it;
// others are made meanwhile.
func TestAMoveThatWaits(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	lift := p.holdRow(t, p.known.ID)
	p.postgres().Patience = 2 * time.Second
	made := make(chan struct{})
	go func() { p.make(); close(made) }()
	until(t, "a statement that is held", func() bool { return p.locked(t, "%WITH locked%") == 1 })
	other := p.live(t, p.unique(3))
	if _, v, err := p.ApplyLive(ctx, other, approval.Revoke("quill", p.Now()), Act{}); v != approval.OK || err != nil {
		t.Error("another:", v, err)
	}
	<-made
	lift()
	p.refused(t, p.known, p.unknown)
}

// holdRow keeps an approval from being changed; the func gives it free.
func (h house) holdRow(t *testing.T, id approval.ID) (lift func()) {
	t.Helper()
	return h.holding(t, `SELECT id FROM approval WHERE id = $1 FOR UPDATE`, id[:])
}

// holding holds what a statement locks; the func gives it free.
func (h house) holding(t *testing.T, text string, args ...any) (lift func()) {
	t.Helper()
	conn, err := h.postgres().Pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	holds, err := conn.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holds.Exec(ctx, text, args...); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := holds.Rollback(ctx); err != nil {
			t.Error(err)
		}
		conn.Release()
	}
}

// Connections that have gone stale say nothing of what was to be read: it is read over
// others. What was to be saved over one may have been.
func TestMovesOverAStaleConnection(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	all[1].cutOthers(t)
	p.make() // it reads first
	p.good(t, p.known, p.unknown)

	p = packed(t, all[0], 3)
	var conns [4]*pgxpool.Conn
	for i := range conns {
		var err error
		if conns[i], err = p.postgres().Pool.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		c.Release()
	}
	all[1].cutOthers(t)
	p.postgres().MakeTogether([]*postgres.MoveRequest{p.known})
	if <-p.known.Done; p.known.Err != nil && !errors.Is(p.known.Err, ErrUnavailable) {
		t.Error(p.known.Err)
	}
	p.postgres().MakeTogether([]*postgres.MoveRequest{p.unknown})
	<-p.unknown.Done
	p.good(t, p.unknown)
}

// cutOthers ends all connections to the database but one of its own.
func (h house) cutOthers(t *testing.T) {
	t.Helper()
	if _, err := h.postgres().Pool.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
}

// What has ended is not among the rows of living ones, and what is not there in none.
func TestMovesOfWhatHasEnded(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	if _, _, err := p.Apply(ctx, p.unknown.ID, approval.End(approval.RevokedByPerson, p.Now()), Act{}); err != nil {
		t.Fatal(err)
	}
	p.known = p.refreshOf(approval.ID{1})
	p.make()
	if o := p.unknown; o.Err != nil || o.Verdict != approval.Over || o.Result.Reason != approval.RevokedByPerson {
		t.Error(o.Verdict, o.Result.State, o.Err)
	}
	if !errors.Is(p.known.Err, ErrNotFound) {
		t.Error(p.known.Err)
	}
}

// While a database hangs, nobody waits for all who came before.
func TestAMoveThatHasWaitedForLong(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.known.Since = time.Now().Add(-2*p.postgres().Patience - time.Second)
	p.unknown.Since = time.Now().Add(-2*p.postgres().Patience + time.Minute)
	p.make()
	p.refused(t, p.known)
	p.good(t, p.unknown)
}

// A row that cannot be read is no reason to refuse what is saved together with it.
func TestAMoveOfWhatCannotBeRead(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	if _, err := p.postgres().Pool.Exec(ctx, `UPDATE approval SET grant_kind = 'nonsense' WHERE id = $1`, p.unknown.ID[:]); err != nil {
		t.Fatal(err)
	}
	p.make()
	p.good(t, p.known)
	if !errors.Is(p.unknown.Err, ErrUnavailable) {
		t.Error(p.unknown.Err)
	}
}

// A row says nothing without facts that are no older than it: while those cannot be
// loaded, its moves are refused.
func TestMovesOnFactsThatCannotBeLoaded(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	a := all[0].unique(1)
	handle, issued, err := all[0].Approve(ctx, a, Act{})
	if err != nil {
		t.Fatal(err)
	}
	moves := map[approval.ID]approval.Move{
		approval.ID(handle.ID()):         approval.Exchange("quill", issuer, redirect, verifier, issued, 1, all[0].Now()),
		all[0].live(t, all[0].unique(2)): approval.Refresh("quill", 1, 1, all[0].Now()),
	}
	if err := all[0].RemoveMember(ctx, a.Organization, a.Person, Act{}); err != nil {
		t.Fatal(err)
	}
	all[0].sql(t, `ALTER TABLE fact_change RENAME TO elsewhere`)
	for id, m := range moves {
		if _, v, err := all[1].Apply(ctx, id, m, Act{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, %v, want unavailable", v, err)
		}
	}
	all[0].sql(t, `ALTER TABLE elsewhere RENAME TO fact_change`)
	for id, m := range moves {
		if _, v, err := all[1].Apply(ctx, id, m, Act{}); v != approval.Over || err != nil {
			t.Errorf("%v, %v, want over", v, err)
		}
	}
}
