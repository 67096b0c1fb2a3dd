package server

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watchedWrite says when it is written to.
type watchedWrite struct {
	net.Conn
	when func()
}

func (w watchedWrite) Write(p []byte) (int, error) {
	w.when()
	return len(p), nil
}

// leaveLast counts the answers, of a hundred, that left after three requests which
// were ready to run before. Now and then the runtime prefers who has waited longest.
func leaveLast(t *testing.T, turns *turns) (last int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 100 {
		var begun atomic.Int32
		var before int32
		c := &quietConn{Conn: watchedWrite{when: func() { before = begun.Load() }}, turns: turns}
		var requests sync.WaitGroup
		for range 3 {
			requests.Go(func() { begun.Add(1) })
		}
		if n, err := c.Write([]byte("answer")); n != 6 || err != nil {
			t.Fatal(n, err)
		}
		requests.Wait()
		if before == 3 {
			last++
		}
	}
	return last
}

// Requests that wait for a processor come before an answer that is ready, so that
// answers leave together.
func TestAnswersLeaveTogether(t *testing.T) {
	standing := func() time.Duration { return 0 }
	if last := leaveLast(t, &turns{since: standing}); last < 50 {
		t.Errorf("%d of 100 answers let the requests go before", last)
	}
}

// Who had to wait long is the last one for a while.
func TestNoAnswerWaitsTwice(t *testing.T) {
	var now, each time.Duration // each reading of the clock comes so much after the one before
	turns := &turns{since: func() time.Duration { now += each; return now }}
	each = longWait
	turns.wait()
	if turns.after.Load() != 0 {
		t.Error("a wait that is not long was the last")
	}
	each = longWait + 1
	turns.wait()
	each = 0
	if last := leaveLast(t, turns); last > 10 {
		t.Errorf("%d of 100 answers waited after a long wait", last)
	}
	now += noWait - 1
	if last := leaveLast(t, turns); last > 10 {
		t.Errorf("%d of 100 answers waited just before the while was over", last)
	}
	now++
	if last := leaveLast(t, turns); last < 50 {
		t.Errorf("%d of 100 answers waited again afterwards", last)
	}
}

// The connections of serve wait for each other.
func TestListenerHasTurns(t *testing.T) {
	l, err := listen("127.0.0.1:0", false, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go net.Dial("tcp", l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if q, ok := c.(*quietConn); !ok || q.turns == nil {
		t.Errorf("%T", c)
	}
}
