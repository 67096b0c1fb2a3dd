package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A player makes the requests of one connection and knows the answers that
// are right. It is used by one goroutine, and goes on from one run to the
// next.
type player interface {
	// next appends a whole request, or gives nil when there is none left.
	next(buffer []byte) []byte
	// check says what is wrong with the answer to the last request. Nothing
	// of a credential is in its error.
	check(a answer) error
}

// A load is connections that ask in a closed loop: each sends its next
// request when it has read the answer to the one before.
type load struct {
	address string
	players []player
}

// run is what came of a load in one run.
type run struct {
	good    int // right answers
	bad     int // wrong answers, and requests without one
	elapsed time.Duration
	latency histogram
	faults  map[string]int // what was wrong, and how often
	dry     bool           // ended early: a player had no request left
}

// rate is right answers in a second.
func (r run) rate() float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(r.good) / r.elapsed.Seconds()
}

// A span bounds a run.
type span struct {
	lasts time.Duration // 0: until every player has done its share
	most  int           // requests of all connections together; 0 is no bound
}

// grace is how long an answer may take beyond the end of a run.
const grace = 30 * time.Second

// run opens the connections, lets all of them ask for the span, and closes
// them. When the span has a duration and a player runs out before, all stop:
// the rest would be a run with fewer connections.
func (l load) run(ctx context.Context, s span) (run, error) {
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	workers := make([]*worker, len(l.players))
	for i, p := range l.players {
		conn, err := net.Dial("tcp", l.address)
		if err != nil {
			return run{}, err
		}
		defer conn.Close()
		workers[i] = &worker{player: p, address: l.address, conn: conn, answers: newAnswers(conn), stop: &stop, span: s,
			most: (s.most + len(l.players) - 1 - i) / len(l.players)}
	}
	var all sync.WaitGroup
	begin := time.Now()
	for _, w := range workers {
		all.Go(func() { w.work(begin) })
	}
	all.Wait()
	total := run{elapsed: time.Since(begin), faults: map[string]int{}}
	for _, w := range workers {
		w.conn.Close()
		total.add(w)
	}
	return total, ctx.Err()
}

func (r *run) add(w *worker) {
	r.good += w.good
	r.bad += w.bad
	r.dry = r.dry || w.dry && w.span.lasts > 0
	r.latency.merge(&w.latency)
	for what, n := range w.faults {
		r.faults[what] += n
	}
}

// merge takes the counts of another run, one after the other.
func (r *run) merge(other run) {
	if r.faults == nil {
		r.faults = map[string]int{}
	}
	r.good += other.good
	r.bad += other.bad
	r.elapsed += other.elapsed
	r.dry = r.dry || other.dry
	r.latency.merge(&other.latency)
	for what, n := range other.faults {
		r.faults[what] += n
	}
}

// worker is one connection. Nothing here is shared while it works, but stop.
type worker struct {
	player  player
	address string
	conn    net.Conn
	answers *answers
	stop    *atomic.Bool
	span    span
	most    int // its share of what the span has at most

	good, bad int
	latency   histogram
	faults    map[string]int
	dry       bool
}

func (w *worker) work(begin time.Time) {
	end := begin.Add(w.span.lasts)
	if w.span.lasts == 0 {
		end = begin.Add(time.Hour)
	}
	w.fault(w.conn.SetDeadline(end.Add(grace)))
	buffer := make([]byte, 0, 2<<10)
	// One reading of the clock for each request: the end of one is the
	// beginning of the next, so making it counts as well.
	for last, n := begin, 0; last.Before(end) && !w.stop.Load(); n++ {
		request := w.request(buffer[:0], n)
		if request == nil {
			return
		}
		a, err := w.ask(request)
		now := time.Now()
		w.latency.add(now.Sub(last))
		last = now
		if err != nil {
			if w.bad++; !w.again(err, end) {
				return
			}
			continue
		}
		if err := w.player.check(a); err != nil {
			w.bad++
			w.fault(err)
		} else {
			w.good++
		}
		if a.close && !w.again(nil, end) {
			return
		}
	}
}

// request makes the request after n others, or gives nil when the connection
// has done its share or has nothing to ask.
func (w *worker) request(buffer []byte, n int) []byte {
	if w.span.most == 0 || n < w.most {
		if request := w.player.next(buffer); request != nil {
			return request
		}
	}
	if w.dry = true; w.span.lasts > 0 {
		w.stop.Store(true)
	}
	return nil
}

func (w *worker) ask(request []byte) (answer, error) {
	if _, err := w.conn.Write(request); err != nil {
		return answer{}, err
	}
	return w.answers.next()
}

// again opens a new connection after a fault, or after the server closed one.
func (w *worker) again(why error, end time.Time) bool {
	w.fault(why)
	w.conn.Close()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.fault(err)
		return false
	}
	w.conn, w.answers = conn, newAnswers(conn)
	w.fault(conn.SetDeadline(end.Add(grace)))
	return true
}

// maxFaults bounds how many different ones are remembered.
const maxFaults = 20

func (w *worker) fault(err error) {
	if err == nil {
		return
	}
	if w.faults == nil {
		w.faults = map[string]int{}
	}
	what := err.Error()
	if op, ok := err.(*net.OpError); ok {
		what = op.Op + ": " + op.Err.Error() // without the port, which differs
	}
	if len(w.faults) >= maxFaults && w.faults[what] == 0 {
		what = "others"
	}
	w.faults[what]++
}
