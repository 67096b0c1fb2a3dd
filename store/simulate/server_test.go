// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// This file is what PostgreSQL is told for the nodes, and what it says. They stand still
// meanwhile: else they would run beside it, in no order.

// pendingEnds begins to write into rows that a fact has ended them. Often that is
// lost: where it is done nobody notices whether a node knows the facts.
const pendingEnds = "l.version, l.at"

// deliver brings what a node has sent to the server.
func (s *cluster) deliver(c *conn) {
	s.still()
	sent := c.take()
	switch {
	case !c.greeted && isCancel(sent):
		s.asksToCancel(c, int(binary.BigEndian.Uint32(sent[8:])))
		c.arrive(0, io.EOF)
		c.cut = true
		return
	case !c.greeted:
		c.greeted, c.backend = true, s.real.take()
		c.reply = greeting(c.backend.hello, c.n)
		s.trace("  %d of %s connects", c.n, c.node.name())
		return
	case c.backend == nil:
		return
	}
	out, answers, bye, label := s.rewrite(c, sent)
	s.trace("  %d of %s: %s", c.n, c.node.name(), label)
	if strings.Contains(label, pendingEnds) && !s.settling && s.random.IntN(3) > 0 {
		s.cutOff(c)
		return
	}
	if answers > 0 {
		must(c.backend.send(out, answers))
		if !s.hear(c) {
			s.waits++
			c.waits = time.Now()
			s.blocked = append(s.blocked, c)
			s.trace("    %d waits for a lock", c.n)
			return
		}
	}
	if bye {
		s.recycle(c)
	}
	s.goOn()
}

func greeting(hello []byte, n int) (out []byte) {
	for kind, message := range messages(&hello) {
		if kind == 'K' {
			key := &pgproto3.BackendKeyData{ProcessID: uint32(n), SecretKey: []byte{0, 0, 0, 0}}
			out, _ = key.Encode(out)
			continue
		}
		out = append(out, message...)
	}
	return out
}

// hear reads the whole answer, or finds that the server waits for a lock.
func (s *cluster) hear(c *conn) bool {
	for {
		whole, err := c.backend.hear()
		must(err)
		if whole {
			c.reply = append(c.reply, c.backend.take()...)
			s.trace("    %s", heads(c.reply))
			return true
		}
		if s.isBlocked(c) {
			// A ring of those that wait is found by the server in a millisecond.
			if whole, err = c.backend.hear(); !whole && err == nil && s.isBlocked(c) {
				return false
			}
			must(err)
		}
	}
}

func (s *cluster) isBlocked(c *conn) bool {
	rows, err := s.real.own.ask(`SELECT cardinality(pg_blocking_pids(` + c.backend.pid + `))`)
	must(err)
	return rows[0] != "0"
}

// goOn finds which of those that waited for a lock have got it.
func (s *cluster) goOn() {
	s.still()
	for i := 0; i < len(s.blocked); i++ {
		c := s.blocked[i]
		if s.isBlocked(c) || !s.hear(c) {
			continue
		}
		s.unblocked(c)
		i = -1 // another may wait for what this one did
	}
}

func (s *cluster) unblocked(c *conn) {
	s.blocked = slices.DeleteFunc(s.blocked, func(b *conn) bool { return b == c })
	c.waits = time.Time{}
	s.trace("    %d waits no more", c.n)
	if c.cut {
		c.reply = nil
		s.part(c)
	}
}

// cancel has the server give up what a connection waits for.
func (s *cluster) cancel(c *conn) {
	s.still()
	_, err := s.real.own.ask(`SELECT pg_cancel_backend(` + c.backend.pid + `)`)
	must(err)
	for !s.hear(c) {
	}
	s.unblocked(c)
	s.goOn()
}

// asksToCancel is a node's request, which comes over a connection of its own.
func (s *cluster) asksToCancel(by *conn, n int) {
	s.trace("  %d of %s asks to cancel %d", by.n, by.node.name(), n)
	for _, c := range s.conns {
		if c.n == n && !c.waits.IsZero() {
			s.cancel(c)
			return
		}
	}
}

// end has the server end a connection.
func (s *cluster) end(c *conn, code, why string) {
	if c.backend == nil {
		return
	}
	s.trace("    the server ends %d: %s", c.n, code)
	s.recycle(c)
	fatal := &pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: why}
	c.reply, _ = fatal.Encode(c.reply)
	c.take()
	c.arrive(len(c.reply), io.EOF)
	c.cut = true
}

// recycle takes back what a connection has done and not committed, and gives its process to
// the next one.
func (s *cluster) recycle(c *conn) {
	s.still()
	if !c.waits.IsZero() {
		cut := c.cut
		c.cut = false // so that it stays as it is
		s.cancel(c)
		c.cut = cut
	}
	s.lingering = slices.DeleteFunc(s.lingering, func(l *conn) bool { return l == c })
	b := c.backend
	c.backend = nil
	s.real.give(b)
	s.goOn()
}
