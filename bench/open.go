package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// open asks in an open loop, for as long as ctx lives: requests are due at a fixed rate,
// whether those before were answered or not, and each counts from when it was due. So who
// has to wait because all connections do is in the figures (no coordinated omission).
func (l load) open(ctx context.Context, rate float64) (run, error) {
	var stop atomic.Bool
	var tickets, end atomic.Int64 // end is when ctx ended
	defer context.AfterFunc(ctx, func() { end.Store(time.Now().UnixNano()) })()
	workers := make([]*worker, len(l.players))
	for i, p := range l.players {
		workers[i] = &worker{player: p, address: l.address, stop: &stop}
		if err := workers[i].dial(); err != nil {
			return run{}, err
		}
		defer func() { workers[i].conn.Close() }()
	}
	var all sync.WaitGroup
	begin := time.Now()
	due := func() time.Time {
		return begin.Add(time.Duration(float64(tickets.Add(1)-1) / rate * float64(time.Second)))
	}
	for _, w := range workers {
		all.Go(func() { w.workDue(ctx, due, &end) })
	}
	all.Wait()
	var total run
	for _, w := range workers {
		total.merge(w.run)
	}
	total.elapsed = time.Since(begin)
	return total, nil
}

// workDue asks for what is due next, again and again: what was due before ctx ended, too.
// What is due later is nobody's, also for who is late: they would have to do it all alone.
func (w *worker) workDue(ctx context.Context, due func() time.Time, end *atomic.Int64) {
	buffer := make([]byte, 0, 2<<10)
	for !w.stop.Load() {
		at := due()
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			if time.Now().Before(at) {
				return
			}
		}
		if over := end.Load(); over > 0 && at.UnixNano() > over {
			return
		}
		request := w.player.next(buffer[:0])
		if request == nil {
			w.dry = true
			w.stop.Store(true)
			return
		}
		if _, ok := w.once(request, at, time.Now().Add(grace)); !ok {
			return
		}
	}
}
