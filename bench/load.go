package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// An answer is what came to one request. Its body stands until the next.
type answer struct {
	status int
	body   []byte
}

// A player makes the requests of one connection and knows the answers that are right.
// It is used by one goroutine, and goes on from one run to the next.
type player interface {
	// next appends a whole request, or gives nil when there is none left.
	next(buffer []byte) []byte
	// check says what is wrong with the answer to the last request. Nothing of a
	// credential is in its error.
	check(a answer) error
}

// A load is connections that ask in a closed loop: each sends its next request when it
// has read the answer to the one before.
type load struct {
	address string
	players []player
}

// run is what came of a load in one run.
type run struct {
	good    int // right answers
	bad     int // wrong answers, and requests without one
	elapsed time.Duration
	latency *hdrhistogram.Histogram // nanoseconds; nil when nothing was asked
	faults  map[string]int          // what was wrong, and how often
	dry     bool                    // ended early: a player had no request left
}

// rate is right answers in a second.
func (r run) rate() float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(r.good) / r.elapsed.Seconds()
}

// quantile gives the milliseconds that a part of all answers, from 0 to 1, did not
// exceed: at most a hundredth above the truth.
func (r run) quantile(q float64) float64 {
	if r.latency == nil {
		return 0
	}
	return milliseconds(time.Duration(r.latency.ValueAtQuantile(100 * q)))
}

func (r *run) took(d time.Duration) {
	_ = r.latencies().RecordValue(min(max(int64(d), shortest), longest)) // which it takes
}

// The ends of what is told apart, in nanoseconds.
const shortest, longest = int64(time.Microsecond), int64(2 * time.Minute)

func (r *run) latencies() *hdrhistogram.Histogram {
	if r.latency == nil {
		r.latency = hdrhistogram.New(shortest, longest, 2)
	}
	return r.latency
}

// maxFaults bounds how many different ones are remembered.
const maxFaults = 20

func (r *run) fault(what string, n int) {
	if r.faults == nil {
		r.faults = map[string]int{}
	}
	if len(r.faults) >= maxFaults && r.faults[what] == 0 {
		what = "others"
	}
	r.faults[what] += n
}

// merge takes the counts of another run.
func (r *run) merge(other run) {
	r.good, r.bad, r.elapsed, r.dry = r.good+other.good, r.bad+other.bad, r.elapsed+other.elapsed, r.dry || other.dry
	if other.latency != nil {
		r.latencies().Merge(other.latency)
	}
	for what, n := range other.faults {
		r.fault(what, n)
	}
}

// A span bounds a run.
type span struct {
	lasts time.Duration // 0: until every player has done its share
	most  int           // requests of all connections together; 0 is no bound
}

// grace is how long an answer may take beyond the end of a run.
const grace = 30 * time.Second

// run opens the connections, lets all of them ask for the span, and closes them. When the
// span has a duration and a player runs out before, all stop: the rest would be a run
// with fewer connections.
func (l load) run(ctx context.Context, s span) (run, error) {
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	workers := make([]*worker, len(l.players))
	for i, p := range l.players {
		workers[i] = &worker{player: p, address: l.address, stop: &stop, span: s, most: (s.most + len(l.players) - 1 - i) / len(l.players)}
		if err := workers[i].dial(); err != nil {
			return run{}, err
		}
		defer func() { workers[i].conn.Close() }()
	}
	var all sync.WaitGroup
	begin := time.Now()
	for _, w := range workers {
		all.Go(func() { w.work(begin) })
	}
	all.Wait()
	var total run
	for _, w := range workers {
		total.merge(w.run)
	}
	total.elapsed, total.dry = time.Since(begin), total.dry && s.lasts > 0
	return total, ctx.Err()
}

// worker is one connection. Nothing here is shared while it works, but stop. It writes to
// the connection itself, because a Transport of net/http wakes two more goroutines for
// each request, on the processors that are measured.
type worker struct {
	run
	player  player
	address string
	conn    net.Conn
	from    *bufio.Reader
	body    []byte
	stop    *atomic.Bool
	span    span
	most    int // its share of what the span has at most
}

func (w *worker) dial() error {
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		return err // the one before stays, for who closes it
	}
	w.conn, w.from = conn, bufio.NewReader(conn)
	return nil
}

func (w *worker) work(begin time.Time) {
	end := begin.Add(w.span.lasts)
	if w.span.lasts == 0 {
		end = begin.Add(time.Hour)
	}
	buffer := make([]byte, 0, 2<<10)
	// One reading of the clock for each request: the end of one is the beginning of the
	// next, so making it counts as well.
	for last, n := begin, 0; last.Before(end) && !w.stop.Load(); n++ {
		request := w.request(buffer[:0], n)
		if request == nil {
			return
		}
		now, ok := w.once(request, last, end.Add(grace))
		if last = now; !ok {
			return
		}
	}
}

// once makes one request, which counts from a moment, and gives when it was answered;
// false: there is no connection any more.
func (w *worker) once(request []byte, from, until time.Time) (now time.Time, ok bool) {
	a, closed, err := w.ask(request, until)
	now = time.Now()
	w.took(now.Sub(from))
	asked := err == nil
	if asked {
		err = w.player.check(a)
	}
	if err != nil {
		w.bad++
		w.note(err)
	} else {
		w.good++
	}
	if !asked || closed {
		w.conn.Close()
		if err := w.dial(); err != nil {
			w.note(err)
			return now, false
		}
	}
	return now, true
}

func (w *worker) note(err error) {
	var op *net.OpError
	if errors.As(err, &op) {
		err = errors.New(op.Op + ": " + op.Err.Error()) // without the port, which differs
	}
	w.fault(err.Error(), 1)
}

// request makes the request after n others, or gives nil when the connection has done its
// share or has nothing to ask.
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

// ask sends a request and reads the whole answer; closed says that the server closes the
// connection after it.
func (w *worker) ask(request []byte, until time.Time) (a answer, closed bool, err error) {
	if err := w.conn.SetDeadline(until); err != nil {
		return a, true, err
	}
	if _, err := w.conn.Write(request); err != nil {
		return a, true, err
	}
	got, err := http.ReadResponse(w.from, nil)
	if err != nil {
		return a, true, err
	}
	w.body = w.body[:0]
	for err == nil {
		if len(w.body) == cap(w.body) {
			w.body = append(w.body, 0)[:len(w.body)]
		}
		var n int
		n, err = got.Body.Read(w.body[len(w.body):cap(w.body)])
		w.body = w.body[:len(w.body)+n]
	}
	if err != io.EOF {
		return a, true, err
	}
	return answer{got.StatusCode, w.body}, got.Close, nil
}
