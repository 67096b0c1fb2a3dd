package server

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// pipe is a log that somebody reads, or has stopped to.
type pipe struct {
	servertest.Buffer
	stopped chan struct{} // until it is closed, whoever writes waits
}

func (p *pipe) Write(b []byte) (int, error) {
	<-p.stopped
	return p.Buffer.Write(b)
}

// Nobody reads the log any more: whoever logs goes on, memory is bounded, and
// the log says what it lacks once somebody reads it again.
func TestNobodyReadsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &pipe{stopped: make(chan struct{})}
		l := NewLines(out)
		l.Missed = func(n int) { fmt.Fprintf(l, `{"lines":%d}`+"\n", n) }
		l.Start()
		line := strings.Repeat("x", 1<<10) + "\n"
		const sent = 20 << 10 // 20 MiB
		begin := time.Now()
		for range sent {
			io.WriteString(l, line)
		}
		if took := time.Since(begin); took > 2*linesWait {
			t.Errorf("whoever logs was held up for %v", took)
		}
		l.mu.Lock()
		if n := len(l.waiting); n > linesFull+len(line) {
			t.Errorf("%d bytes wait", n)
		}
		l.mu.Unlock()
		close(out.stopped)
		time.Sleep(2 * flushEvery)
		got := strings.Count(out.String(), line)
		if told := fmt.Sprintf(`"lines":%d`, sent-got); !strings.Contains(out.String(), told) || got < 4<<10 {
			t.Errorf("%d of %d lines came; the log ends %q, want %s", got, sent, tail(out.String(), 200), told)
		}
		io.WriteString(l, "and on\n")
		l.Close()
		if !strings.HasSuffix(out.String(), "and on\n") {
			t.Errorf("after that it ends %q", tail(out.String(), 200))
		}
	})
}

// A slow disk holds up those who log much, and loses nothing.
func TestSlowLogLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		l := NewLines(writerFunc(func(b []byte) (int, error) {
			time.Sleep(linesWait / 2)
			return out.Write(b)
		}))
		l.Start()
		line := strings.Repeat("x", 1<<10) + "\n"
		const sent = 20 << 10
		for range sent {
			io.WriteString(l, line)
		}
		l.Close()
		if got := strings.Count(out.String(), line); got != sent {
			t.Errorf("%d of %d lines came", got, sent)
		}
	})
}

// The end of the program does not wait for whoever has stopped to read.
func TestCloseLeavesAFullPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &pipe{stopped: make(chan struct{})}
		l := NewLines(out)
		l.Start()
		slog.New(slog.NewTextHandler(l, nil)).Info("the last")
		begin := time.Now()
		l.Close()
		if took := time.Since(begin); took != linesLast {
			t.Errorf("it took %v", took)
		}
		close(out.stopped)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
