package records_test

import (
	arguments "flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
	"github.com/grantkeeper/grantkeeper/store/records"
)

// records begins to record on a node, and ends it with the test.
func (h house) records(t testing.TB) *records.Recorder {
	t.Helper()
	h.Handle().Options.ActivityKeep = activity.Keep
	r, err := h.RecordActivity()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// dead lets the time pass after which a node is taken for dead.
func (h house) dead() { h.clock.add(engine.NodeLife + 2*time.Second) }

func (h house) recorded(t testing.TB, f records.ActivityFilter) []activity.Record {
	t.Helper()
	var all []activity.Record
	if err := h.EachActivity(ctx, f, func(r activity.Record) error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func (h house) gaps(t testing.TB, created, ended int64) []activity.Gap {
	t.Helper()
	of, err := h.ActivityGaps(ctx, created, ended, 0)
	if err != nil {
		t.Fatal(err)
	}
	return of.Gaps
}

func flush(t testing.TB, r *records.Recorder) {
	t.Helper()
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
}

func change(path string) activity.Record {
	return activity.Record{Way: activity.API, Outcome: activity.Done, Status: 200, Method: "PUT", Path: path}
}

func TestRecords(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	id := h.live(t, h.unique(1))
	one := activity.Record{
		Way: activity.MCP, Outcome: activity.Done, Status: 200, Method: "POST", Path: "/api/v5/mcp", Tool: "move_order",
		Item: identity.Item{ID: "17", Title: "Büdget", Kind: "order", Did: identity.Closed, Role: "treasurer", Private: true, Personal: true, Detail: "Text"},
	}
	r.Begin().Done(id, one)
	h.clock.add(time.Second)
	r.Begin().Done(id, change("/api/v5/orders/1?secret=x"), change("/api/v5/orders/2"))
	r.Begin().Done(id) // did nothing
	r.Refuse(id, activity.Record{Way: activity.API, Method: "DELETE", Path: "/api/v5/orders/1", Reason: "no_role"})
	r.Read(id)
	r.Read(id, identity.Item{Kind: "order", Count: 38, Private: true}, identity.Item{Kind: "note", Count: 2, Personal: true}, identity.Item{ID: "9", Kind: "note", Title: "x"})
	c := r.Begin()
	c.Done(id, change("/once"))
	c.Done(id, change("/twice"))
	flush(t, r)
	all := h.recorded(t, records.ActivityFilter{Approval: id, OldestFirst: true})
	var paths []string
	for _, one := range all {
		paths = append(paths, string(one.Outcome)+" "+one.Path)
	}
	if got, want := strings.Join(paths, ", "), "done /api/v5/mcp, done /api/v5/orders/1, done /api/v5/orders/2, refused /api/v5/orders/1, done /once"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got := all[0]
	if got.At != 1_800_000_000 || got.Approval != id || got.ID == "" {
		t.Errorf("%+v", got)
	}
	if got.ID, got.At, got.Approval = "", 0, (approval.ID{}); got != one {
		t.Errorf("%+v, want %+v", got, one)
	}
	if got := h.recorded(t, records.ActivityFilter{Approval: id, Refused: true}); len(got) != 1 || got[0].Reason != "no_role" {
		t.Errorf("refused: %+v", got)
	}
	if got := h.recorded(t, records.ActivityFilter{Approval: id, Done: true, Limit: 1}); len(got) != 4 || got[0].Path != "/once" {
		t.Errorf("done, newest first, one by one: %+v", got)
	}
	failed := change("/failed")
	failed.Outcome = activity.Failed
	r.Begin().Done(id, failed)
	flush(t, r)
	if changes, refused, err := h.ActivityCount(ctx, id, 0, query.MaxTime); changes != 4 || refused != 1 || err != nil {
		t.Errorf("%d, %d, %v", changes, refused, err)
	}
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	hour := activity.Hour(h.Now().Unix())
	if want := []activity.Tally{
		{Approval: id, Hour: hour, What: activity.Reads, Calls: 1},
		{Approval: id, Hour: hour, What: activity.Reads, Kind: "note", Items: 3, Personal: 2},
		{Approval: id, Hour: hour, What: activity.Reads, Kind: "order", Calls: 1, Items: 38, Private: 38},
	}; err != nil || !slices.Equal(tallies, want) {
		t.Errorf("%+v, %v; want %+v", tallies, err, want)
	}
	r.Read(id) // counted in all, whenever it is written
	flush(t, r)
	flush(t, r)
	if tallies, _ := h.ActivityTallies(ctx, id, 0, 0); tallies[0].Calls != 2 {
		t.Errorf("%+v", tallies)
	}
	if other := h.recorded(t, records.ActivityFilter{Approval: h.live(t, h.unique(2))}); len(other) > 0 {
		t.Errorf("another's: %+v", other)
	}
	if _, _, err := h.Activity(ctx, records.ActivityFilter{Approval: id, After: "x"}); err == nil {
		t.Error("a cursor that is none is taken")
	}
	if f := r.Figures(); f != (records.RecorderFigures{Recorded: 6, Counted: 3}) {
		t.Errorf("%+v", f)
	}
}

// A recorder that is none keeps nothing, and asks for nothing.
func TestNoRecorder(t *testing.T) {
	var r *records.Recorder
	r.Begin().Done(approval.ID{}, change("/x"))
	r.Refuse(approval.ID{}, change("/x"))
	r.Read(approval.ID{})
	if r.Flush() != nil || r.Close() != nil || r.Figures() != (records.RecorderFigures{}) {
		t.Error("it does something")
	}
}

// What a node that ends without a word has not written lies in a gap; one that ends in
// order leaves none.
func TestGapsOfNodes(t *testing.T) {
	all := nodes(t, 2)
	h, start := all[0], all[0].Now().Unix()
	id := h.live(t, h.unique(1))
	lives := func() []activity.Gap { return h.gaps(t, start, 0) }
	h.clock.add(time.Minute)
	first := h.records(t)
	before := lives()
	if len(before) != 1 || before[0] != (activity.Gap{ID: records.GapBefore, From: start, To: start + 60, Why: activity.Before}) {
		t.Errorf("before: %+v", before)
	}
	h.clock.add(time.Minute)
	first.Begin().Done(id, change("/written"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	h.clock.add(time.Hour)
	second := all[1].records(t)
	if got := lives(); len(got) != 1 {
		t.Errorf("after an orderly end: %+v", got)
	}
	h.clock.add(time.Second)
	second.Begin().Done(id, change("/written too"))
	flush(t, second)
	h.clock.add(time.Second)
	killed := h.Now().Unix()
	second.Begin().Done(id, change("/lost"))
	second.Kill()
	h.dead()
	if got := lives(); !embedded() && (len(got) != 2 || got[0].From > killed || got[0].To < killed) {
		t.Errorf("not found out yet: %+v", got)
	}
	h.records(t)
	got := lives()
	if len(got) != 2 || got[0].Why != activity.Stopped || got[0].From != killed-1 || got[0].To < killed {
		t.Errorf("after a kill at %d: %+v", killed, got)
	}
	if got := h.gaps(t, start, killed-10); len(got) != 1 {
		t.Errorf("of an approval that had ended: %+v", got)
	}
	if got := h.recorded(t, records.ActivityFilter{Approval: id}); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// A call that is under way while a node is killed may have done something: the gap begins
// where it did.
func TestGapOfWhatIsUnderWay(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	h.clock.add(time.Minute)
	begun := h.Now().Unix()
	call := r.Begin()
	h.clock.add(time.Minute)
	r.Begin().Done(h.live(t, h.unique(1)), change("/x"))
	flush(t, r)
	if of, err := h.ActivityGaps(ctx, begun, 0, 0); err != nil || of.Complete != begun {
		t.Errorf("complete to %d, %v; want %d", of.Complete, err, begun)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := h.gaps(t, begun, 0); len(got) != 1 || got[0].From != begun || got[0].To != h.Now().Unix() {
		t.Errorf("closed over a call: %+v", got)
	}
	call.Done(approval.ID{}, change("/late"))
}

// A node that was taken for dead and lives has lost nothing.
func TestTakenForDead(t *testing.T) {
	all := nodes(t, 2)
	if embedded() {
		return // which has one node
	}
	h := all[0]
	start := h.Now().Unix()
	r := h.records(t)
	id := h.live(t, h.unique(1))
	flush(t, r)
	r.Begin().Done(id, change("/waits"))
	letGo := r.Hold() // is paused
	h.dead()
	other := all[1]
	other.records(t)
	if got := h.gaps(t, start, 0); len(got) != 2 {
		t.Errorf("taken for dead: %+v", got)
	}
	letGo()
	flush(t, r)
	if got := h.gaps(t, start, 0); len(got) != 1 || got[0].Why != activity.Before {
		t.Errorf("it lives: %+v", got)
	}
	if got := h.recorded(t, records.ActivityFilter{Approval: id}); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	h.dead()
	r.Pause()
	if err := other.Handle().Apart(func(tx *engine.Tx) error { return records.EndRecordings(tx, h.Now().Unix(), true) }); err != nil {
		t.Fatal(err)
	}
	r.Begin().Done(id, change("/first after a pause")) // is written before it is answered
	r.Kill()
	if got := h.recorded(t, records.ActivityFilter{Approval: id}); len(got) != 2 {
		t.Errorf("lost without a mark: %+v", got)
	}
}

// Where the session's row is gone the database was set back: what was written since may be
// missing.
func TestSetBack(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	opened := h.Now().Unix()
	h.clock.add(time.Minute)
	if err := h.Handle().Apart(func(tx *engine.Tx) error { _, err := tx.Exec(`DELETE FROM activity_session`); return err }); err != nil {
		t.Fatal(err)
	}
	flush(t, r)
	flush(t, r)
	got := h.gaps(t, opened+1, 0)
	if len(got) != 1 || got[0].Why != activity.SetBack || got[0].To != opened+60 {
		t.Errorf("%+v", got)
	}
}

// A restore says what it may have taken away.
func TestRestoredActivity(t *testing.T) {
	h := furnished(t)
	h.records(t).Close()
	h.clock.add(time.Hour)
	if _, err := h.SettleRestored(ctx, store.Act{}); err != nil {
		t.Fatal(err)
	}
	now := h.Now().Unix()
	if got := h.gaps(t, now-1800, 0); len(got) != 1 || got[0].Why != activity.SetBack || got[0].From != now-1800 || got[0].To != now {
		t.Errorf("%+v", got)
	}
}

func TestOff(t *testing.T) {
	h := furnished(t)
	start := h.Now().Unix()
	if err := h.StopActivity(); err != nil {
		t.Fatal(err)
	}
	if got := h.gaps(t, start, 0); len(got) != 0 {
		t.Errorf("never on: %+v", got)
	}
	h.records(t).Close()
	h.clock.add(time.Minute)
	for range 2 {
		if err := h.StopActivity(); err != nil {
			t.Fatal(err)
		}
	}
	h.clock.add(time.Minute)
	if got := h.gaps(t, start+1, 0); len(got) != 1 || got[0] != (activity.Gap{ID: records.GapOff, From: start + 60, Why: activity.Off}) {
		t.Errorf("off: %+v", got)
	}
	h.records(t)
	if got := h.gaps(t, start+1, 0); len(got) != 1 || got[0].From != start+60 || got[0].To != start+120 || got[0].ID == records.GapOff {
		t.Errorf("on again: %+v", got)
	}
}

// What finds no room is said to be lost; what a day has too much of is counted.
func TestRecorderIsBounded(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	start := h.Now().Unix()
	id := h.live(t, h.unique(1))
	flush(t, r)
	h.clock.add(time.Minute)
	letGo := r.Hold() // the database hangs
	r.Most(5)
	for n := range 9 {
		r.Begin().Done(id, change(fmt.Sprint("/", n)))
		h.clock.add(time.Second)
	}
	letGo()
	flush(t, r)
	got := h.gaps(t, start+1, 0)
	if len(got) != 1 || got[0].Why != activity.Full || got[0].From != start+65 || got[0].To != start+68 {
		t.Errorf("%+v", got)
	}
	if all := h.recorded(t, records.ActivityFilter{Approval: id}); len(all) != 5 {
		t.Errorf("%d records", len(all))
	}
	if f := r.Figures(); f.Recorded != 5 || f.Lost != 4 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
	r.Most(2 * activity.MostRefusals)
	for range activity.MostRefusals + 7 {
		r.Refuse(id, activity.Record{Path: "/no"})
	}
	for n := range activity.MostKinds + 5 {
		r.Read(id, identity.Item{Kind: fmt.Sprint("kind", n), Count: 2})
	}
	flush(t, r)
	if all := h.recorded(t, records.ActivityFilter{Approval: id, Refused: true}); len(all) != activity.MostRefusals {
		t.Errorf("%d refused", len(all))
	}
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	if err != nil || len(tallies) > activity.MostKinds+1 {
		t.Errorf("%d tallies, %v", len(tallies), err)
	}
	var refused, items int64
	for _, one := range tallies {
		if one.What == activity.Refusal {
			refused += one.Calls
		}
		items += one.Items
	}
	if refused != 7 || items != 2*(activity.MostKinds+5) {
		t.Errorf("refused %d, items %d", refused, items)
	}
}

// Days go when their time is over: for who reads at once, and from the database by a sweep.
func TestActivityIsKeptForAWhile(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	id := h.live(t, h.unique(1))
	r.Begin().Done(id, change("/old"))
	r.Read(id)
	flush(t, r)
	rows := func() (n int) {
		t.Helper()
		if err := h.Handle().Reader.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM activity) + (SELECT COUNT(*) FROM activity_tally)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	h.clock.add(activity.Keep)
	if _, err := h.Sweep(ctx); err != nil || rows() != 2 || len(h.recorded(t, records.ActivityFilter{Approval: id})) != 1 {
		t.Errorf("gone too soon: %d rows, %v", rows(), err)
	}
	h.clock.add(24 * time.Hour)
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	if len(h.recorded(t, records.ActivityFilter{Approval: id})) != 0 || len(tallies) != 0 || err != nil {
		t.Errorf("still told: %+v, %v", tallies, err)
	}
	if due, err := h.Due(ctx); err != nil || due.Activity != 2 || rows() != 2 {
		t.Errorf("due: %+v, %v, %d rows", due, err, rows())
	}
	swept, err := h.Sweep(ctx)
	if err != nil || swept.Activity != 2 || rows() != 0 {
		t.Errorf("%+v, %v, %d rows", swept, err, rows())
	}
}

// What was done for a person who is removed goes with them.
func TestActivityOfWhoIsRemoved(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	id := h.live(t, h.unique(1))
	tors := h.unique(2)
	tors.Person = "tor"
	of := h.live(t, tors)
	for n := range 3 {
		r.Begin().Done(id, change(fmt.Sprint("/", n)))
		r.Begin().Done(of, change("/tor"))
	}
	r.Read(id)
	flush(t, r)
	d := directory.Directory{People: []directory.Person{{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}}}}
	if _, err := h.ImportDirectory(ctx, directory.Import{Directory: d, Prune: map[string]bool{directory.ListPeople: true}}, store.Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	if got := h.recorded(t, records.ActivityFilter{Approval: id}); len(got) != 0 || len(tallies) != 0 || err != nil {
		t.Errorf("%+v, %+v, %v", got, tallies, err)
	}
	if got := h.recorded(t, records.ActivityFilter{Approval: of}); len(got) != 3 {
		t.Errorf("of another: %+v", got)
	}
}

var activityChanges = arguments.Int("activity", 600, "how many changes TestNothingIsLostWithoutAMarkWhileNodesAreKilled makes")

// Through two nodes that are killed at any moment (decision V71): each change that was acknowledged is
// there once, or lies in a gap; and nothing else is there.
func TestNothingIsLostWithoutAMarkWhileNodesAreKilled(t *testing.T) {
	all := nodes(t, 2)
	h := all[0]
	h.clock.add(time.Minute)
	created := h.Now().Unix()
	id := h.live(t, h.unique(1))
	h.clock.add(time.Second)
	random := rand.New(rand.NewPCG(42, 1))
	var mu sync.Mutex
	acknowledged := map[string]int64{}
	live := []*records.Recorder{all[0].records(t), nil}
	if !embedded() {
		live[1] = all[1].records(t)
	}
	kills := 0
	for n := 0; n < *activityChanges; {
		var some sync.WaitGroup
		for range 1 + random.IntN(20) {
			n++
			r := live[random.IntN(2)]
			if r == nil {
				r = live[0]
			}
			path := fmt.Sprint("/change/", n)
			some.Go(func() {
				c := r.Begin()
				at := h.Now().Unix()
				c.Done(id, change(path))
				mu.Lock()
				acknowledged[path] = at
				mu.Unlock()
			})
		}
		some.Wait()
		switch random.IntN(12) {
		case 0:
			h.clock.add(time.Duration(random.IntN(3000)) * time.Millisecond)
		case 1, 2:
			flush(t, live[0])
		case 3:
			which := random.IntN(2)
			if live[which] == nil {
				continue
			}
			kills++
			live[which].Kill()
			if h.dead(); !embedded() {
				flush(t, live[1-which])
			}
			live[which] = all[which].records(t)
		}
	}
	for _, r := range live {
		flush(t, r)
	}
	lost := h.check(t, id, created, acknowledged)
	t.Logf("%d changes, %d kills: %d lost, each in a gap", len(acknowledged), kills, lost)
}

// check holds what is recorded against what was acknowledged, and counts what lies in gaps.
func (h house) check(t *testing.T, id approval.ID, created int64, acknowledged map[string]int64) (lost int) {
	t.Helper()
	gaps := h.gaps(t, created, 0)
	seen := map[string]bool{}
	for _, r := range h.recorded(t, records.ActivityFilter{Approval: id}) {
		if _, made := acknowledged[r.Path]; !made {
			t.Errorf("invented: %s", r.Path)
		}
		if seen[r.Path] {
			t.Errorf("twice: %s", r.Path)
		}
		seen[r.Path] = true
	}
	for path, at := range acknowledged {
		if seen[path] {
			continue
		}
		lost++
		if !slices.ContainsFunc(gaps, func(g activity.Gap) bool { return g.From <= at && (g.To == 0 || at <= g.To) }) {
			t.Errorf("%s at %d is missing, and no gap says so: %+v", path, at, gaps)
		}
	}
	return lost
}

// What the database does not take waits, and is there once when it does again; and nobody
// is answered by a server that cannot note that it records.
func TestRecordsWaitForTheDatabase(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	id := h.live(t, h.unique(1))
	rename := func(from, to string) {
		t.Helper()
		if err := h.Handle().Apart(func(tx *engine.Tx) error { _, err := tx.Exec(`ALTER TABLE ` + from + ` RENAME TO ` + to); return err }); err != nil {
			t.Fatal(err)
		}
	}
	rename("activity", "away")
	var want []string
	for n := range 100 {
		want = append(want, fmt.Sprint("/", n))
		r.Begin().Done(id, change(want[n]))
		r.Read(id, identity.Item{Kind: "note"})
		if n%40 == 0 {
			if err := r.Flush(); err == nil {
				t.Fatal("written to where nothing is")
			}
		}
	}
	if f := r.Figures(); f.Failed < 3 || f.Waiting != 100 || f.Lost != 0 {
		t.Errorf("%+v", f)
	}
	rename("away", "activity")
	flush(t, r)
	var got []string
	for _, one := range h.recorded(t, records.ActivityFilter{Approval: id, OldestFirst: true}) {
		got = append(got, one.Path)
	}
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	if !slices.Equal(got, want) || err != nil || len(tallies) != 1 || tallies[0].Items != 100 {
		t.Errorf("%d records, %+v, %v", len(got), tallies, err)
	}
	if f := r.Figures(); f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	rename("activity_session", "away")
	if again, err := h.RecordActivity(); err == nil || again != nil {
		t.Errorf("it records without a mark: %v", err)
	}
}

// Who calls an organization most: by what is counted and what is recorded, within a time,
// and nobody else's.
func TestBusiest(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	some, most, silent := h.live(t, h.unique(1)), h.live(t, h.unique(2)), h.live(t, h.unique(3))
	r.Read(most)
	r.Read(some)
	flush(t, r)
	h.clock.add(25 * time.Hour)
	r.Begin().Done(some, change("/a"))
	r.Begin().Done(some, change("/b"))
	for range 3 {
		r.Read(most)
	}
	flush(t, r)
	h.ran(t, fmt.Sprintf(`UPDATE approval SET used_at = %d`, h.Now().Unix()))
	since := h.Now().Add(-24 * time.Hour).Unix()
	got, err := h.Busiest(ctx, "nordlys", since, 9)
	if err != nil || len(got) != 2 || got[0].ID != most || got[0].Calls != 3 || got[1].ID != some || got[1].Calls != 2 {
		t.Errorf("%+v, %v (silent: %s)", got, err, silent)
	}
	if got, err := h.Busiest(ctx, "nordlys", since, 1); err != nil || len(got) != 1 || got[0].ID != most {
		t.Errorf("one: %+v, %v", got, err)
	}
	for _, tt := range []struct {
		organization string
		since        int64
	}{{"fjell", since}, {"nordlys", h.Now().Add(2 * time.Hour).Unix()}} {
		if got, err := h.Busiest(ctx, tt.organization, tt.since, 9); err != nil || len(got) != 0 {
			t.Errorf("%v: %+v, %v", tt, got, err)
		}
	}
}

// What is counted is written more seldom than records are, and until then what is said to
// be durable goes no farther than its first.
func TestCountsWait(t *testing.T) {
	h := furnished(t)
	r := h.records(t)
	id := h.live(t, h.unique(1))
	counted := h.Now().Unix()
	r.Read(id)
	h.clock.add(8 * time.Second)
	r.Begin().Done(id, change("/a"))
	if err := r.WriteRecords(); err != nil {
		t.Fatal(err)
	}
	tallies, err := h.ActivityTallies(ctx, id, 0, 0)
	if err != nil || len(tallies) != 0 || r.Session().Written != counted || len(h.recorded(t, records.ActivityFilter{Approval: id})) != 1 {
		t.Errorf("before it is due: %+v, %v, written to %d, counted at %d", tallies, err, r.Session().Written, counted)
	}
	flush(t, r)
	if tallies, err = h.ActivityTallies(ctx, id, 0, 0); err != nil || len(tallies) != 1 || tallies[0].Calls != 1 || r.Session().Written != counted+8 {
		t.Errorf("when it is due: %+v, %v, written to %d", tallies, err, r.Session().Written)
	}
	if counted, left, tallies, _ := r.Take(true); counted != 0 || left != 0 || len(tallies) != 0 {
		t.Errorf("nothing is left: %d, %d, %+v", counted, left, tallies)
	}
	r.Read(id)
	_, _, _, giveBack := r.Take(true) // as for a write that fails
	giveBack()
	if _, left, tallies, _ := r.Take(false); left != counted+8 || len(tallies) != 0 {
		t.Errorf("given back: %d, %+v", left, tallies)
	}
	for n := range 150 { // more rows than one statement takes, by all sizes of statements
		r.Read(id, identity.Item{Kind: fmt.Sprint("kind", n%15), Count: 1})
		h.clock.add(10 * time.Minute)
	}
	flush(t, r)
	calls := 0
	tallies, err = h.ActivityTallies(ctx, id, 0, 0)
	for _, one := range tallies {
		calls += int(one.Calls)
	}
	if err != nil || calls != 152 || len(tallies) < 81 {
		t.Errorf("%d calls in %d rows, %v; want 152", calls, len(tallies), err)
	}
}
