package store

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/approval"
)

// packed is a trip of a node on which the refresh of one approval is to be saved,
// and the row of another to be read for its refresh.
type packed struct {
	house
	trip
	save, read *operation
}

func pack(t *testing.T, h house) *packed {
	t.Helper()
	op := func(n int) *operation {
		id := h.live(t, h.unique(n))
		return &operation{id: id, live: true, move: approval.Refresh("quill", 1, 1, h.Now()), done: make(chan struct{}, 1), since: time.Now()}
	}
	p := &packed{house: h, save: op(1), read: op(2)}
	row, err := h.shared.readNow(ctx, p.save.id)
	if err != nil {
		t.Fatal(err)
	}
	h.shared.compute(&p.trip, p.save, row)
	h.shared.rows.drop(p.read.id)
	if h.shared.board(&p.trip, p.read); len(p.saves) != 1 || len(p.reads) != 1 {
		t.Fatalf("%d saves, %d reads", len(p.saves), len(p.reads))
	}
	return p
}

// answered reports whether a caller has its answer.
func answered(o *operation) bool { return len(o.done) == 1 }

// arrives makes trips until both have their answer.
func (p *packed) arrives(t *testing.T, trips int) {
	t.Helper()
	for range trips {
		p.trip = p.shared.make(&p.trip)
	}
	for what, o := range map[string]*operation{"saved": p.save, "read": p.read} {
		if !answered(o) || o.err != nil || o.verdict != approval.OK || p.generation(t, o.id) != 2 {
			t.Errorf("what was to be %s: answered %t, %v, %v", what, answered(o), o.verdict, o.err)
		}
	}
}

// What is to be read travels with what is to be saved, and is saved on the next trip.
func TestATripSavesAndReads(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	r := p.trip.reading()
	if hit, read, err := p.shared.saveAndRead(&p.trip, r); !hit[p.save.id] || !read || r.rows[p.read.id] == nil || err != nil {
		t.Fatal(hit, read, r.rows, err)
	}
	p = pack(t, nodes(t, 1)[0])
	p.shared.slowRead = time.Hour
	next := p.shared.make(&p.trip)
	if next.late {
		t.Error("it has not taken an hour")
	}
	if !answered(p.save) || answered(p.read) || len(next.saves) != 1 || len(next.reads) != 0 {
		t.Errorf("saved %t, read %t, then %d saves and %d reads", answered(p.save), answered(p.read), len(next.saves), len(next.reads))
	}
	p.trip = next
	p.arrives(t, 1)
}

// After a trip that took long the next one saves alone, and tells how long it takes to read.
func TestALateTripReadsApart(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.trip.late = true
	r := p.trip.reading()
	if hit, read, err := p.shared.saveAndRead(&p.trip, r); !hit[p.save.id] || read || err != nil {
		t.Fatal(hit, read, err)
	}
	p = pack(t, nodes(t, 1)[0])
	p.trip.late = true
	p.shared.pace.average.Store(0)
	p.trip = p.shared.make(&p.trip)
	if p.shared.pace.average.Load() == 0 {
		t.Error("nobody knows how long reading takes")
	}
	p.arrives(t, 1)
	p = pack(t, nodes(t, 1)[0])
	p.shared.slowRead = 0
	if next := p.shared.make(&p.trip); !next.late {
		t.Error("every trip takes longer than nothing")
	}
}

// Trips that read run side by side, up to two; those that only save, one after the other.
func TestTripsSideBySide(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	h.shared.patience = time.Minute
	var ids []approval.ID
	for n := range 3 {
		ids = append(ids, h.live(t, h.unique(n)))
	}
	for _, tt := range []struct {
		name       string
		remembered bool
		like       string
		underWay   int
	}{
		{"reading", false, "%FROM facts f LEFT JOIN approval%", 2},
		{"saving", true, "%WITH locked%", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var generations []int64
			for _, id := range ids {
				generations = append(generations, h.generation(t, id))
				if _, err := h.Check(ctx, id); err != nil {
					t.Fatal(err)
				}
				if !tt.remembered {
					h.shared.rows.drop(id)
				}
			}
			lift := h.holdReads(t, "approval")
			defer lift()
			h.shared.pace.slow.Store(false)
			held := func() (n int) {
				if err := h.reader.QueryRowContext(ctx, `
					SELECT COUNT(*) FROM pg_stat_activity
					 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1`, tt.like).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			answers := make(chan error, len(ids))
			for n, id := range ids {
				go func() {
					v, err := h.refresh(id, generations[n])
					if err == nil && v != approval.OK {
						err = errors.New(v.String())
					}
					answers <- err
				}()
				until(t, "a trip under way", func() bool { return held() == min(n+1, tt.underWay) })
			}
			h.shared.moves.mu.Lock()
			waits := len(h.shared.moves.waits)
			h.shared.moves.mu.Unlock()
			if waits > len(ids)-tt.underWay || held() != tt.underWay {
				t.Errorf("%d wait, and %d trips are under way", waits, held())
			}
			lift()
			allGood(t, answers)
		})
	}
}

// A move whose row or facts have changed meanwhile is computed from the row, and in
// the end alone.
func TestAMoveThatMissesIsMadeAgain(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.saves[0].version = 1 // facts never have this one
	p.trip = p.shared.make(&p.trip)
	if answered(p.save) || len(p.reads) != 1 || p.reads[0] != p.save || p.save.tries != 1 {
		t.Fatalf("answered %t, %d reads, tries %d", answered(p.save), len(p.reads), p.save.tries)
	}
	p.arrives(t, 2)

	p = pack(t, nodes(t, 1)[0])
	p.saves[0].version, p.save.tries = 1, maxTries-1
	p.trip = p.shared.make(&p.trip)
	if len(p.reads) != 0 {
		t.Error("it is read again")
	}
	<-p.save.done
	p.save.done <- struct{}{}
	p.arrives(t, 1)
}

// A row that has ended meanwhile has its generation still: no refresh brings it back.
func TestAMoveOfWhatHasEndedMeanwhile(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	if _, _, err := all[1].ApplyLive(ctx, p.save.id, approval.End(approval.RevokedByPerson, p.Now()), Act{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.trip = p.shared.make(&p.trip)
	}
	if !answered(p.save) || p.save.verdict != approval.Over || p.save.err != nil || p.accepts(t, p.save.id) {
		t.Error(answered(p.save), p.save.verdict, p.save.err)
	}
}

// What the server has undone, as it does with a deadlock, is made again, and takes
// nobody with it.
func TestAMoveThatIsUndone(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.withFaults(t)
	lift := p.plant(t, undone, "UPDATE", "approval")
	p.trip = p.shared.make(&p.trip)
	lift()
	if answered(p.save) || len(p.reads) != 1 || len(p.saves) != 1 || p.save.tries != 1 {
		t.Errorf("answered %t: %v; %d reads, %d saves", answered(p.save), p.save.err, len(p.reads), len(p.saves))
	}
	p.arrives(t, 2)
}

// Nobody is told of a move before the commit, which is after all that is saved.
func TestATripThatIsNotCommitted(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.withFaults(t)
	lift := p.plant(t, atCommit, "UPDATE", "approval")
	p.trip = p.shared.make(&p.trip)
	lift()
	if !answered(p.save) || !errors.Is(p.save.err, ErrUnavailable) || p.generation(t, p.save.id) != 1 {
		t.Error(answered(p.save), p.save.err)
	}
}

// A move whose row somebody holds is refused; what was to be read with it is read all
// the same. While the whole table is held, both are refused.
func TestATripThatIsHeldUp(t *testing.T) {
	if embedded() {
		return
	}
	held := func(by string) (p *packed, next trip) {
		p = pack(t, nodes(t, 1)[0])
		conn, err := p.shared.pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		holds, err := conn.BeginTx(ctx, pgx.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holds.Exec(ctx, by); err != nil {
			t.Fatal(err)
		}
		p.shared.patience = 2 * time.Second
		next = p.shared.make(&p.trip)
		p.shared.patience = askTimeout
		if err := holds.Rollback(ctx); err != nil {
			t.Error(err)
		}
		if !answered(p.save) || !errors.Is(p.save.err, ErrUnavailable) {
			t.Error(by, answered(p.save), p.save.err)
		}
		return p, next
	}
	p, next := held(`SELECT id FROM approval FOR UPDATE`)
	if answered(p.read) || len(next.saves) != 1 || !next.late {
		t.Errorf("what was to be read: answered %t, %v; then %d saves", answered(p.read), p.read.err, len(next.saves))
	}
	next = p.shared.make(&next)
	if n := p.generation(t, p.read.id); !answered(p.read) || p.read.err != nil || n != 2 || !next.empty() {
		t.Error("what was to be read:", answered(p.read), p.read.err, n)
	}

	p, next = held(`LOCK TABLE approval IN ACCESS EXCLUSIVE MODE`)
	if !answered(p.read) || !errors.Is(p.read.err, ErrUnavailable) || !next.empty() || p.generation(t, p.read.id) != 1 {
		t.Error("of a table that is held:", answered(p.read), p.read.err)
	}
}

// Connections that have gone stale say nothing of what was to be read: it is read over
// another. What was to be saved may have been.
func TestATripOverAStaleConnection(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	all[1].cutOthers(t)
	for range maxTries {
		p.trip = p.shared.make(&p.trip)
	}
	if !answered(p.read) || p.read.err != nil || p.generation(t, p.read.id) != 2 {
		t.Error("what was to be read:", answered(p.read), p.read.err)
	}
	if !answered(p.save) || p.save.err != nil && !errors.Is(p.save.err, ErrUnavailable) {
		t.Error("what was to be saved:", answered(p.save), p.save.err)
	}
}

// One caller at most hears that the connections have gone stale: the next move goes
// over a new one.
func TestATripAfterAStaleConnection(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	row, err := p.shared.readNow(ctx, p.save.id)
	if err != nil {
		t.Fatal(err)
	}
	var conns [4]*pgxpool.Conn
	for i := range conns {
		if conns[i], err = p.shared.pool.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		c.Release()
	}
	all[1].cutOthers(t)
	p.trip.reads = nil
	p.shared.make(&p.trip)
	if answered(p.save) && p.save.err == nil {
		return // a second has passed meanwhile, after which the pool looks for itself
	}
	*p.save = operation{id: p.save.id, live: true, move: p.save.move, done: make(chan struct{}, 1), since: time.Now()}
	var now trip
	p.shared.compute(&now, p.save, row)
	p.shared.make(&now)
	if !answered(p.save) || p.save.err != nil {
		t.Error("over the next:", answered(p.save), p.save.err)
	}
}

// cutOthers ends all connections to the database but one of its own.
func (h house) cutOthers(t *testing.T) {
	t.Helper()
	if _, err := h.shared.pool.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
}

// What has ended is not among the rows of living ones, and what is not there in none.
func TestATripToWhatHasEnded(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	if _, _, err := p.Apply(ctx, p.read.id, approval.End(approval.RevokedByPerson, p.Now()), Act{}); err != nil {
		t.Fatal(err)
	}
	nobody := &operation{id: approval.ID{1}, live: true, move: p.read.move, done: make(chan struct{}, 1), since: time.Now()}
	p.shared.board(&p.trip, nobody)
	for range 3 {
		p.trip = p.shared.make(&p.trip)
	}
	if !answered(p.read) || p.read.err != nil || p.read.verdict == approval.OK || p.read.result.Reason != approval.RevokedByPerson {
		t.Error(answered(p.read), p.read.verdict, p.read.result.State, p.read.err)
	}
	if !answered(nobody) || !errors.Is(nobody.err, ErrNotFound) {
		t.Error(answered(nobody), nobody.err)
	}
}

// A change of the facts concerns those moves alone that were computed from what is
// remembered: what was read just before is saved beside them.
func TestATripAfterAChangeOfFacts(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	p.trip.reads = nil
	if _, err := p.shared.readNow(ctx, p.read.id); err != nil {
		t.Fatal(err)
	}
	if p.shared.board(&p.trip, p.read); len(p.saves) != 2 {
		t.Fatal("it is not remembered")
	}
	all[1].addPerson(t, 1)
	p.trip = p.shared.make(&p.trip)
	if !answered(p.save) || answered(p.read) || len(p.reads) != 1 {
		t.Fatalf("saved: just read %t, remembered %t", answered(p.save), answered(p.read))
	}
	p.arrives(t, 2)
}

// What a trip reads is computed from facts that are no older than it, and remembered
// with them.
func TestATripLearnsWhatItReads(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	p := pack(t, all[0])
	all[1].addPerson(t, 1)
	began := moment(time.Now())
	p.trip = p.shared.make(&p.trip)
	if p.shared.version() != all[1].shared.version() || p.shared.asOf.Load() < began {
		t.Error("facts as they were")
	}
	if p.shared.rows.get(p.read.id) == nil {
		t.Error("it is not remembered")
	}
	p.arrives(t, 1)
}

// A row that cannot be read is no reason to refuse what is saved on the same trip.
func TestATripToWhatCannotBeRead(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	if _, err := p.shared.pool.Exec(ctx, `UPDATE approval SET grant_kind = 'nonsense' WHERE id = $1`, p.read.id[:]); err != nil {
		t.Fatal(err)
	}
	p.shared.make(&p.trip)
	if !answered(p.save) || p.save.err != nil || p.generation(t, p.save.id) != 2 {
		t.Error("what was to be saved:", answered(p.save), p.save.err)
	}
	if !answered(p.read) || !errors.Is(p.read.err, ErrUnavailable) {
		t.Error("what cannot be read:", answered(p.read), p.read.err)
	}
}

// Whoever waits behind moves that the database does not make is told so in time.
func TestAMoveThatHasWaited(t *testing.T) {
	if embedded() {
		return
	}
	p := pack(t, nodes(t, 1)[0])
	p.read.since = time.Now().Add(-2*askTimeout + time.Minute)
	if p.shared.board(&trip{}, p.read); answered(p.read) {
		t.Error("it has not waited for long")
	}
	p.read.since = time.Now().Add(-2*askTimeout - time.Millisecond)
	var now trip
	if p.shared.board(&now, p.read); !now.empty() || !answered(p.read) || !errors.Is(p.read.err, ErrUnavailable) {
		t.Error(now, answered(p.read), p.read.err)
	}
}
