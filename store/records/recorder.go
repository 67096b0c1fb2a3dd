package records

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// How a Recorder writes, and what it bounds.
const (
	recordEvery  = 250 * time.Millisecond // gathers records for one commit
	recordAgain  = time.Second            // after one that failed
	tallyEvery   = 10 * time.Second       // gathers what is counted: the same row is written once for it
	recordBeat   = 10 * time.Second       // shows that this node lives, where there are others
	recordIdle   = time.Minute            // else
	recordLapsed = 25 * time.Second       // without a word: others are about to take this node for dead (engine.NodeLife)

	maxQueued = 16_384  // records that wait
	fullBatch = 1024    // are written at once
	maxHours  = 200_000 // approvals that are counted at the same time, of one hour each
)

// A Recorder keeps what calls do (package activity). Records wait in memory and are
// written together a moment later, so that no answer waits for them. That a node records
// is a row by itself, which goes when the node ends in order: what a node that is killed
// has not written lies in a gap that this row becomes. The nil Recorder keeps nothing.
type Recorder struct {
	store *Records
	beat  time.Duration

	mu      sync.Mutex
	queue   []activity.Record
	hours   map[hourOf]*hour
	dirty   []hourOf                 // those with something that is not written
	over    int64                    // the hour before which all are forgotten, Unix seconds
	since   int64                    // Unix seconds, of the first that was counted and is not written; 0 is none
	counted map[approval.ID]*counted // of day
	day     int64
	lost    activity.Gap // records that found no room; none while Why is empty
	under   *list.List   // of *Call: those under way, the oldest first
	figures RecorderFigures
	wrote   time.Time // by this machine's clock: when the session's row was last written
	most    int       // maxQueued, but in tests

	writing sync.Mutex // one write at a time
	session activity.Session
	closed  bool

	wake, full chan struct{} // there is something to write; much
	stop       chan struct{}
	stopped    sync.WaitGroup
}

// RecorderFigures are for metrics.
type RecorderFigures struct {
	Recorded int64 // since the start
	Counted  int64 // calls, in tallies
	Lost     int64 // records that found no room
	Failed   int64 // writes, which are tried again
	Waiting  int   // records, now
}

type hourOf struct {
	approval approval.ID
	begins   int64
}

// hour is what is counted of one approval in one hour, in all.
type hour struct {
	kinds map[kindOf]*activity.Tally
	dirty bool // it is among those
}

type kindOf struct {
	what activity.What
	kind string
}

type counted struct{ changes, refused int }

// RecordActivity begins to keep what calls do. It returns when the session is durable: from then
// on nothing is lost without a mark.
func (s *Records) RecordActivity() (*Recorder, error) {
	r := &Recorder{
		store: s, beat: recordIdle, most: maxQueued, hours: map[hourOf]*hour{}, counted: map[approval.ID]*counted{}, under: list.New(),
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if s.db.Options.URL != "" {
		r.beat = recordBeat
	}
	now := s.db.Now().Unix()
	r.session = activity.Session{ID: s.db.Env.Ids.Next(s.db.Now()), Opened: now, Written: now, Seen: now}
	err := s.db.Apart(func(tx *engine.Tx) error {
		if err := endRecordings(tx, now, s.db.Options.URL != ""); err != nil {
			return err
		}
		if err := beginRecording(tx, now); err != nil {
			return err
		}
		return openRecording(tx, r.session)
	})
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	r.wrote = time.Now()
	r.stopped.Go(r.run)
	return r, nil
}

// StopActivity notes that nothing is kept from now on, where something was.
func (s *Records) StopActivity() error {
	now := s.db.Now().Unix()
	err := s.db.Apart(func(tx *engine.Tx) error {
		if err := endRecordings(tx, now, s.db.Options.URL != ""); err != nil {
			return err
		}
		return stopRecording(tx, now)
	})
	if err != nil {
		return fmt.Errorf("activity: %w", err)
	}
	return nil
}

// A Call is under way: what it does is not known yet.
type Call struct {
	recorder *Recorder
	begun    int64 // Unix seconds
	at       *list.Element
}

// Begin is called before a call that may change something is passed on, and Done after.
func (r *Recorder) Begin() *Call {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Call{recorder: r, begun: r.store.db.Now().Unix()}
	c.at = r.under.PushBack(c)
	return c
}

// Done keeps what a call did, before the client is answered; nothing where it did
// nothing. Done again is nothing.
func (c *Call) Done(of approval.ID, did ...activity.Record) {
	if c == nil {
		return
	}
	c.recorder.add(c, of, did)
}

// Refuse keeps that a call was refused.
func (r *Recorder) Refuse(of approval.ID, what activity.Record) {
	if r != nil {
		what.Outcome = activity.Refused
		r.add(nil, of, []activity.Record{what})
	}
}

func (r *Recorder) add(c *Call, of approval.ID, did []activity.Record) {
	for i := range did {
		did[i] = activity.Clean(did[i])
	}
	r.mu.Lock()
	if c != nil && c.at == nil {
		r.mu.Unlock()
		return
	}
	now := r.store.db.Now()
	for _, one := range did {
		one.At, one.Approval = now.Unix(), of
		if !r.singly(one) {
			what := activity.Changes
			if one.Outcome == activity.Refused {
				what = activity.Refusal
			}
			r.count(activity.Tally{Approval: of, Hour: activity.Hour(one.At), What: what, Kind: one.Item.Kind, Calls: 1})
			continue
		}
		if len(r.queue) >= r.most {
			r.lose(one.At)
			continue
		}
		one.ID = r.store.db.Env.Ids.Next(now)
		r.queue = append(r.queue, one)
		r.figures.Recorded++
	}
	if c != nil {
		r.under.Remove(c.at)
		c.at = nil
	}
	waiting, lapsed := len(r.queue), len(did) > 0 && r.store.db.Options.URL != "" && time.Since(r.wrote) > recordLapsed
	r.mu.Unlock()
	r.signal(waiting)
	if lapsed { // a node that was paused: others may have closed its session
		_ = r.write(false, false)
	}
}

func (r *Recorder) signal(waiting int) {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	if waiting >= fullBatch {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
}

// singly reports whether a record is kept by itself; the lock is the caller's.
func (r *Recorder) singly(one activity.Record) bool {
	if day := activity.Day(one.At); day != r.day {
		r.day = day
		clear(r.counted)
	}
	n := r.counted[one.Approval]
	if n == nil {
		n = &counted{}
		r.counted[one.Approval] = n
	}
	if one.Outcome == activity.Refused {
		n.refused++
		return n.refused <= activity.MostRefusals
	}
	n.changes++
	return n.changes <= activity.MostChanges
}

// lose notes that a record found no room; the lock is the caller's.
func (r *Recorder) lose(at int64) {
	r.figures.Lost++
	if r.lost.Why == "" {
		r.lost = activity.Gap{ID: r.store.db.Env.Ids.Next(r.store.db.Now()), From: at, Why: activity.Full}
	}
	r.lost.To = at
}

// Read counts a call that only reads, with what the service says of it.
func (r *Recorder) Read(of approval.ID, items ...identity.Item) {
	if r == nil {
		return
	}
	t := activity.Tally{Approval: of, Hour: activity.Hour(r.store.db.Now().Unix()), What: activity.Reads, Calls: 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, one := range items {
		n := int64(max(one.Count, 1))
		if one.Did == identity.Viewed && one.Count == 0 && one.Title == "" && one.ID == "" {
			n = 0 // none of the kind
		}
		t.Kind, t.Items, t.Private, t.Personal = one.Kind, n, 0, 0
		if one.Private {
			t.Private = n
		}
		if one.Personal {
			t.Personal = n
		}
		if i > 0 {
			t.Calls = 0
		}
		r.count(t)
	}
	if len(items) == 0 {
		r.count(t)
	}
}

// Unseen counts a call that another proxy was told may pass, and did not say what it is.
func (r *Recorder) Unseen(of approval.ID) {
	if r == nil {
		return
	}
	t := activity.Tally{Approval: of, Hour: activity.Hour(r.store.db.Now().Unix()), What: activity.Unseen, Calls: 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(t)
}

// count adds to a tally; the lock is the caller's.
func (r *Recorder) count(t activity.Tally) {
	at := hourOf{t.Approval, t.Hour}
	h := r.hours[at]
	if h == nil {
		if len(r.hours) >= maxHours {
			r.lose(t.Hour)
			return
		}
		h = &hour{kinds: map[kindOf]*activity.Tally{}}
		r.hours[at] = h
	}
	k := kindOf{t.What, t.Kind}
	if _, known := h.kinds[k]; !known && len(h.kinds) >= activity.MostKinds {
		k.kind = ""
	}
	sum := h.kinds[k]
	if sum == nil {
		sum = &activity.Tally{Approval: t.Approval, Hour: t.Hour, What: t.What, Kind: k.kind}
		h.kinds[k] = sum
	}
	sum.Calls, sum.Items, sum.Private, sum.Personal = sum.Calls+t.Calls, sum.Items+t.Items, sum.Private+t.Private, sum.Personal+t.Personal
	r.soil(at, h)
	if r.since == 0 {
		r.since = r.store.db.Now().Unix()
	}
	r.figures.Counted += t.Calls
}

// soil has an hour written the next time; the lock is the caller's.
func (r *Recorder) soil(at hourOf, h *hour) {
	if !h.dirty {
		h.dirty = true
		r.dirty = append(r.dirty, at)
	}
}

// Figures are as of now.
func (r *Recorder) Figures() RecorderFigures {
	if r == nil {
		return RecorderFigures{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.figures
	f.Waiting = len(r.queue)
	return f
}

// run writes until the recorder is closed.
func (r *Recorder) run() {
	var again time.Duration // after a write that failed; 0 is none
	idle, tallies := time.NewTimer(r.beat), time.NewTicker(tallyEvery)
	defer idle.Stop()
	defer tallies.Stop()
	due := false // what is counted is
	for {
		wait := recordEvery
		select {
		case <-r.stop:
			return
		case <-idle.C:
			wait = 0
		case <-tallies.C:
			if due = r.counts(); !due {
				continue
			}
			wait = 0
		case <-r.wake:
		}
		wait = max(wait, again)
		select {
		case <-r.stop:
			return
		case <-r.full:
		case <-time.After(wait):
		}
		if err := r.write(false, due); err == nil {
			again, due = 0, false
		} else {
			if again == 0 {
				r.store.db.Log.Warn("what calls did cannot be written; it is kept and tried again", "waiting", r.Figures().Waiting, "err", err)
			}
			again = min(max(recordAgain, 2*again), recordBeat)
			r.signal(0)
		}
		idle.Reset(r.beat)
	}
}

// counts reports whether anything was counted that is not written.
func (r *Recorder) counts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty) > 0
}

// recordBatch is what is written together.
type recordBatch struct {
	records []activity.Record
	tallies []activity.Tally
	hours   []hourOf
	lost    activity.Gap
	now     int64
	under   int64 // since when the oldest call is under way; 0 is none
	counted int64 // since when tallies were counted; 0 is none
	left    int64 // the same of those that are left for later
}

// take takes what waits; of what is counted only with tallies.
func (r *Recorder) take(tallies bool) (b recordBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.now = r.store.db.Now().Unix()
	b.records, r.queue = r.queue, nil
	if !tallies {
		b.left = r.since
	} else {
		for _, at := range r.dirty {
			h := r.hours[at]
			h.dirty = false
			for _, t := range h.kinds {
				b.tallies = append(b.tallies, *t)
			}
		}
		b.hours, r.dirty = r.dirty, nil
		b.counted, r.since = r.since, 0
	}
	b.lost, r.lost = r.lost, activity.Gap{}
	if oldest := r.under.Front(); oldest != nil {
		b.under = oldest.Value.(*Call).begun
	}
	return b
}

// giveBack keeps what could not be written for the next time.
func (r *Recorder) giveBack(b recordBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures.Failed++
	r.queue = append(b.records, r.queue...)
	for _, at := range b.hours {
		r.soil(at, r.hours[at])
	}
	if b.counted > 0 {
		r.since = b.counted
	}
	switch {
	case b.lost.Why == "":
	case r.lost.Why != "":
		r.lost.ID, r.lost.From = b.lost.ID, b.lost.From
	default:
		r.lost = b.lost
	}
}

// written forgets what is durable: of hours that are over nothing more comes.
func (r *Recorder) written(b recordBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrote = time.Now()
	now := activity.Hour(b.now)
	if r.over == now {
		return
	}
	r.over = now
	for at, h := range r.hours {
		switch {
		case at.begins >= now:
		case h.dirty:
			r.over = 0 // not yet
		default:
			delete(r.hours, at)
		}
	}
}

// write writes what waits, and that this node records still or, closing, that it ends.
// What is counted is left for later without tallies.
func (r *Recorder) write(closing, tallies bool) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.closed {
		return nil
	}
	b := r.take(tallies)
	next := r.session
	next.Written, next.Seen = max(r.session.Written, activity.Under(activity.Under(b.now, b.under), b.left)), b.now
	err := r.store.db.Apart(func(tx *engine.Tx) error {
		if err := writeActivity(tx, b, r.session.ID); err != nil {
			return err
		}
		if closing {
			return closeRecording(tx, next, b.under > 0)
		}
		return keepRecording(tx, next)
	})
	if err != nil {
		r.giveBack(b)
		return err
	}
	r.session, r.closed = next, closing
	r.written(b)
	return nil
}

// Close writes what waits and ends the session. Calls that are still under way leave a
// gap, and so does what cannot be written.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	select {
	case <-r.stop:
		return nil
	default:
	}
	close(r.stop)
	r.stopped.Wait()
	if err := r.write(true, true); err != nil && !errors.Is(err, engine.ErrConflict) {
		return fmt.Errorf("activity: %w", err)
	}
	return nil
}

// Flush writes what waits, for whoever reads it next.
func (r *Recorder) Flush() error {
	if r == nil {
		return nil
	}
	return r.write(false, true)
}
