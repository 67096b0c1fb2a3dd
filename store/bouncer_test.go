package store

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// bouncer is the pgbouncer that the tests run through; nil while they connect to the
// server itself.
var bouncer *pgtest.Bouncer

// startBouncer makes the tests run through pgbouncer until the end of this one.
func startBouncer(t *testing.T) {
	t.Helper()
	b, err := server.Bouncer()
	if err != nil {
		t.Fatal(err)
	}
	bouncer = b
	t.Cleanup(func() {
		bouncer = nil
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// What is told by several nodes behind pgbouncer, which gives each transaction another
// connection, is what is told without it. Package enginetest runs behind it too.
func TestThroughPgbouncer(t *testing.T) {
	if embedded() {
		return
	}
	startBouncer(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"F09", TestF09OverNodes},
		{"every node knows at once", TestEveryNodeKnowsAtOnce},
		{"remembered rows", TestRememberedRows},
		{"starts at once", TestStartAtOnce},
		{"starts that are refused", TestStartRefused},
		{"one node sweeps", TestOneNodeSweepsWhileOthersWait},
		{"trimmed changes", TestTrimmedChanges},
		{"texts that cannot be stored", TestTextsThatCannotBeStored},
		{"moves that are not committed", TestMovesThatAreNotCommitted},
		{"moves over a stale connection", TestMovesOverAStaleConnection},
		{"a refresh of another row", TestARefreshOfAnotherRow},
		{"refreshes together", TestRefreshesTogether},
		{"timeouts end with the statement", TestTimeoutsEndWithTheStatement},
	} {
		t.Run(tt.name, tt.test)
	}
}

// While pgbouncer is restarted callers are told that it cannot be now; what was
// acknowledged stands, and nodes go on by themselves.
func TestPgbouncerRestarts(t *testing.T) {
	if embedded() {
		return
	}
	startBouncer(t)
	all := nodes(t, 2)
	outages(t, all, bouncer, func(id approval.ID) {
		for _, h := range all {
			if _, err := h.Check(ctx, id); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a check without pgbouncer: %v, want unavailable", err)
			}
		}
	})
}

// outages has approvals refreshed while something that all nodes need goes away
// three times; away is called while it is, with one of them. What was
// acknowledged must be there at the end.
func outages(t *testing.T, all []house, needed interface {
	Kill() error
	Run() error
}, away func(approval.ID)) {
	t.Helper()
	var ids []approval.ID
	for n := range 8 {
		ids = append(ids, all[0].live(t, all[0].unique(n)))
	}
	refreshed := make([]int64, len(ids)) // generations that were acknowledged
	var happened atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			for refreshed[n] = 1; ; {
				v, err := all[n%len(all)].refresh(ids[n], refreshed[n])
				switch {
				case err == nil && v == approval.OK:
					refreshed[n]++
					happened.Add(1)
				case err == nil:
					return // one whose answer was lost had happened: that is reuse
				case !errors.Is(err, ErrUnavailable):
					t.Error(v, err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	until(t, "one that was refreshed twice", func() bool { return happened.Load() > int64(len(ids)) })
	for range 3 {
		time.Sleep(100 * time.Millisecond)
		if err := needed.Kill(); err != nil {
			t.Fatal(err)
		}
		away(ids[0])
		if err := needed.Run(); err != nil {
			t.Fatal(err)
		}
		for _, h := range all {
			for h.Ready(ctx) != nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	close(stop)
	wg.Wait()
	for n, id := range ids {
		row, err := all[n%len(all)].Approval(ctx, id)
		if err != nil || row.Generation < refreshed[n] {
			t.Errorf("generation %d, %v; %d was acknowledged", row.Generation, err, refreshed[n])
		}
	}
	if most := slices.Max(refreshed); most < 3 {
		t.Errorf("at most %d refreshes: too little happened for this to mean anything", most)
	}
}
