package records

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// What the tests set, and what they look at.
var (
	MaxEventWalk = &maxEventWalk
	MostRecorded = &mostRecorded
	SelectEvent  = selectEvent
	ScanEvent    = scanEvent
	Later        = later

	EndRecordings = endRecordings
)

const (
	SealAfter = sealAfter
	GapBefore = gapBefore
	GapOff    = gapOff
)

func (s *Records) Handle() engine.Handle { return s.db }

func (s *Records) NewestBlock(ctx context.Context) (chain.Block, error) { return s.newestBlock(ctx) }

func (s *Records) Highest(ctx context.Context, upTo int64) (string, error) {
	return s.highest(ctx, upTo)
}

func (s *Records) AddBlock(ctx context.Context, last chain.Block, entries []engine.Event) (chain.Block, error) {
	return s.addBlock(ctx, last, entries)
}

func (s *Records) SealAll(ctx context.Context, last chain.Block, entries []engine.Event, out *Sealed) (chain.Block, error) {
	return s.sealAll(ctx, last, entries, out)
}

func (s *Records) Edge(ctx context.Context, f EventFilter) (way query.Builder, edge string, err error) {
	if way, err = f.way(); err == nil {
		edge, err = s.edge(ctx, f, way)
	}
	return way, edge, err
}

func (s *Records) EventsTo(ctx context.Context, f EventFilter, way query.Builder, edge string) ([]engine.Event, string, error) {
	return s.eventsTo(ctx, f, way, edge)
}

// Listed is the statement that lists attempts.
func (f AttemptFilter) Listed() (text string, args []any) {
	q := query.Builder{Text: selectAttempt}
	f.narrow(&q, 0)
	return q.Page("id DESC", 50), q.Args
}

// Kill has a recorder end as its process would: what waits is gone.
func (r *Recorder) Kill() {
	r.writing.Lock()
	r.closed = true
	r.writing.Unlock()
	close(r.stop)
	r.stopped.Wait()
}

// Hold lets nothing be written until it is let go, as a database that hangs does.
func (r *Recorder) Hold() (letGo func()) {
	r.writing.Lock()
	return r.writing.Unlock
}

// Most bounds how many records wait.
func (r *Recorder) Most(n int) { r.most = n }

// Pause has a recorder find that it has not written for a minute.
func (r *Recorder) Pause() {
	r.mu.Lock()
	r.wrote = time.Now().Add(-time.Minute)
	r.mu.Unlock()
}

func (r *Recorder) WriteRecords() error       { return r.write(false, false) }
func (r *Recorder) Session() activity.Session { return r.session }

// Take takes all that waits, tallies too where it is said, and gives back what puts it back.
func (r *Recorder) Take(tallies bool) (counted, left int64, sums []activity.Tally, giveBack func()) {
	b := r.take(tallies)
	return b.counted, b.left, b.tallies, func() { r.giveBack(b) }
}
