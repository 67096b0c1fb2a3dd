package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// asks is a player with so many requests.
type asks struct{ left int }

func (p *asks) next(b []byte) []byte {
	if p.left == 0 {
		return nil
	}
	p.left--
	return appendGet(b, "/", firstAddress, nil)
}

func (p *asks) check(a answer) error { return right(a, 200, []byte("yes")) }

func loadOf(t *testing.T, handler http.HandlerFunc, shares ...int) load {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	l := load{address: server.Listener.Addr().String()}
	for _, n := range shares {
		l.players = append(l.players, &asks{n})
	}
	return l
}

// Each right and each wrong answer is counted, and so is its time.
func TestLoadCounts(t *testing.T) {
	var n atomic.Int64
	l := loadOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":"temporarily_unavailable"}`)
		case 1:
			_, _ = io.WriteString(w, "no")
		case 2:
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "yes")
		default:
			_, _ = io.WriteString(w, "yes")
		}
	}, 100, 60, 40)
	r, err := l.run(context.Background(), span{})
	if err != nil {
		t.Fatal(err)
	}
	if r.good != 100 || r.bad != 100 || r.latency.TotalCount() != 200 || r.dry {
		t.Errorf("%d right, %d wrong, %d timed, dry %v", r.good, r.bad, r.latency.TotalCount(), r.dry)
	}
	if r.faults["status 429 temporarily_unavailable"] != 50 || r.faults["the answer has not what it should"] != 50 || len(r.faults) != 2 {
		t.Errorf("faults: %v", r.faults)
	}
}

// A connection that breaks is an error, and the next request has a new one.
func TestLoadGoesOnAfterABrokenConnection(t *testing.T) {
	var n atomic.Int64
	l := loadOf(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%5 == 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "yes")
	}, 50)
	r, err := l.run(context.Background(), span{})
	if err != nil || r.good != 40 || r.bad != 10 || r.faults[io.ErrUnexpectedEOF.Error()] != 10 {
		t.Errorf("%d right, %d wrong, %v %v", r.good, r.bad, r.faults, err)
	}
}

func yes(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }

// In a run with a duration all stop when one has nothing left; in one without,
// each does its share.
func TestLoadEndsEarly(t *testing.T) {
	r, err := loadOf(t, yes, 3, -1).run(context.Background(), span{lasts: time.Hour})
	if err != nil || !r.dry || r.good < 3 || r.elapsed <= 0 || r.rate() <= 0 {
		t.Errorf("dry %v, %d right, %v", r.dry, r.good, err)
	}
	r, err = loadOf(t, yes, -1, -1).run(context.Background(), span{most: 15})
	if err != nil || r.dry || r.good != 15 {
		t.Errorf("dry %v, %d right, want 15; %v", r.dry, r.good, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := loadOf(t, yes, -1).run(ctx, span{lasts: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestLoadWithoutAServer(t *testing.T) {
	l := loadOf(t, yes, 1)
	l.address = "127.0.0.1:1"
	if _, err := l.run(context.Background(), span{}); err == nil {
		t.Error("no error")
	}
}

// However many different faults there are, few are remembered and all counted.
func TestFaultsAreBounded(t *testing.T) {
	w := run{}
	for i := range 100 {
		w.fault(fmt.Sprintf("fault %d", i), 1)
	}
	n := 0
	for _, times := range w.faults {
		n += times
	}
	if n != 100 || len(w.faults) != maxFaults+1 || w.faults["others"] != 100-maxFaults {
		t.Errorf("%d faults of %d kinds", n, len(w.faults))
	}
}

func TestResident(t *testing.T) {
	if n, err := residentOf("VmPeak:\t  9 kB\nVmRSS:\t   1234 kB\nVmData:\t 5 kB\n"); n != 1234<<10 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	for _, bad := range []string{"", "VmPeak: 1 kB\n", "VmRSS: x kB\n"} {
		if n, err := residentOf(bad); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
}

// The bare server says where it is, answers, and ends with its input.
func TestBareServer(t *testing.T) {
	in, closeIn := io.Pipe()
	fromOut, out := io.Pipe()
	ended := make(chan error)
	go func() { ended <- serveBare([]string{asBare}, in, out) }()
	var address string
	if _, err := fmt.Fscanln(fromOut, &address); err != nil {
		t.Fatal(err)
	}
	l := load{address: address, players: []player{barePlayer(nil, 0, 1)}}
	if r, err := l.run(context.Background(), span{most: 3}); err != nil || r.good != 3 || r.bad != 0 {
		t.Errorf("%d right, %v %v", r.good, r.faults, err)
	}
	closeIn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	o, err := readOptions(nil, os.Stderr)
	if err != nil || len(o.scenarios) != len(scenarios)-1 || o.connections != 64 || o.repetitions != 5 || o.live != 10_000 {
		t.Errorf("defaults: %+v %v", o, err)
	}
	o, err = readOptions(strings.Fields("-scenarios refresh,bare -connections 3 -json -"), os.Stderr)
	if err != nil || len(o.scenarios) != 2 || o.scenarios[0].name != "refresh" || o.connections != 3 || o.json != "-" {
		t.Errorf("%+v %v", o, err)
	}
	o, err = readOptions(strings.Fields("-scale 1000000,10000,10000"), os.Stderr)
	if err != nil || !slices.Equal(o.scales, []int{10_000, 1_000_000}) {
		t.Errorf("%v %v", o.scales, err)
	}
	for _, bad := range []string{
		"-scale 10000 -postgres", "-scale 10", "-scale many", "-scenarios verify-bounded",
		"-scenarios nothing", "-scenarios ,", "x", "-connections 0", "-duration 0s", "-warmup 0s", "-duration 1h",
		"-repetitions 0", "-stock -1", "-live 0", "-approvals -1", "-approvals 1 -growth", "-cut -growth", "-tails -cut", "-members 0", "-flood -1", "-flood 1 -growth", "-flood 1 -postgres", "-unknown",
	} {
		if _, err := readOptions(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A request that is due while all connections wait for answers counts from then on, and
// what was due before the end is asked for.
func TestOpenCountsFromWhenARequestWasDue(t *testing.T) {
	var n atomic.Int64
	slow := make(chan struct{})
	ctx, end := context.WithCancel(context.Background())
	l := loadOf(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			time.AfterFunc(300*time.Millisecond, func() { end(); close(slow) })
			<-slow
		}
		_, _ = io.WriteString(w, "yes")
	}, 1000)
	r, err := l.open(ctx, 100)
	if err != nil || r.bad > 0 || r.good < 25 {
		t.Fatalf("%d right, %v %v", r.good, r.faults, err)
	}
	if late := r.quantile(0.5); late < 100 { // in the middle of 300 ms in which nothing was answered
		t.Errorf("half of the requests count %v ms", late)
	}
}

// Who is late when an open loop ends asks for what was due until then, and for nothing later:
// at this rate one connection never is on time.
func TestOpenEnds(t *testing.T) {
	l := loadOf(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(w, "yes")
	}, 5000)
	const rate = 1000
	ctx, end := context.WithCancel(context.Background())
	begin := time.Now()
	var elapsed time.Duration
	ended := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { end(); elapsed = time.Since(begin); close(ended) })
	r, err := l.open(ctx, rate)
	<-ended
	if due := rate * (elapsed.Seconds() + 1); err != nil || r.bad > 0 || float64(r.good) > due { // a second for a busy machine
		t.Errorf("%d right, of %.0f that were due at the end; %v %v", r.good, due, r.faults, err)
	}
}
