package server

import (
	"log/slog"
	"math"
	"sync"
	"syscall"
	"time"
)

// A connLimit bounds the connections of a listener, so that strangers who open many
// and say nothing shut nobody out: when there are as many as there may be, those
// that wait for their client make room for the next. It leaves descriptors to
// the database and the other listeners.
type connLimit struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex
	all    []*quietConn
	hand   int // where the next look begins
	warned time.Time
}

// unlimited is the place of a connection that is counted by no connLimit.
const unlimited = -1

// A share of the descriptors that a process may have is not for strangers, and
// at least so many.
const (
	keptShare = 8
	keptLeast = 48
)

// connections gives how many the limit of open files leaves to clients, and how many to
// requests that are under way at services with an API, and at MCP servers, each: a request
// of HTTP/2 takes one behind, and none before.
func connections(behind bool) (clients, services int) {
	most := mostOf(math.MaxUint64)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		most = mostOf(uint64(files.Cur))
	}
	if !behind {
		return most, 0
	}
	return most / 2, most / 4
}

// mostOf is how many connections a limit of open files leaves.
func mostOf(files uint64) int {
	n := int(min(files, 1<<24))
	return max(n-max(n/keptShare, keptLeast), n/4)
}

// roomTries is how often, a millisecond apart, somebody looks for one who waits
// before a connection is let in beside all the others: when all of them are being
// answered, or were accepted so lately that nobody reads them yet.
const roomTries = 100

// enter makes room where there is none, for a sixty-fourth of the connections at a time.
func (g *connLimit) enter(c *quietConn) {
	if g == nil {
		return
	}
	g.mu.Lock()
	var out []*quietConn
	for tries := 0; len(g.all) >= g.most && tries < roomTries; tries++ {
		if out = g.waiting(len(g.all) - g.most + 1 + g.most/64); len(out) > 0 {
			break
		}
		g.mu.Unlock()
		time.Sleep(time.Millisecond)
		g.mu.Lock()
	}
	c.place = len(g.all)
	g.all = append(g.all, c)
	warn := len(out) > 0 && time.Since(g.warned) >= time.Minute
	if warn {
		g.warned = time.Now()
	}
	g.mu.Unlock()
	if warn {
		g.log.Warn("as many connections as there may be: those that wait make room", "connections", g.most, "setting", "LimitNOFILE, ulimit -n")
	}
	for _, one := range out {
		_ = one.Conn.Close() // whoever reads it closes the rest
	}
}

// waiting takes out up to n connections that wait for their client: first those
// that have said nothing since they were looked at last.
func (g *connLimit) waiting(n int) (out []*quietConn) {
	for looks := 2 * len(g.all); looks > 0 && len(out) < n && len(g.all) > 0; looks-- {
		g.hand %= len(g.all)
		if c := g.all[g.hand]; c.waits() {
			g.remove(c) // the newest is in its place, and has time for a round
			out = append(out, c)
		}
		g.hand++
	}
	return out
}

func (g *connLimit) leave(c *quietConn) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(c)
}

func (g *connLimit) remove(c *quietConn) {
	if c.place == unlimited {
		return
	}
	last := g.all[len(g.all)-1]
	g.all[c.place], last.place = last, c.place
	g.all[len(g.all)-1] = nil
	g.all = g.all[:len(g.all)-1]
	c.place = unlimited
}
