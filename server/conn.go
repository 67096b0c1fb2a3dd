package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// quietListener accepts connections that spare the machine what net/http does
// for each request and a short answer has no use for: it moves the deadlines
// five times, and watches with a read of one byte, in a goroutine of its own,
// whether the client goes away meanwhile. Together that is a tenth of the time
// of a request.
type quietListener struct {
	net.Listener
	watched bool       // a client that goes away ends its request (http.Request.Context)
	limit   *connLimit // nil bounds nothing
	turns   *turns
}

func (l quietListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	q := &quietConn{Conn: c, watched: l.watched, turns: l.turns, limit: l.limit}
	l.limit.enter(q)
	return q, nil
}

// quietConn keeps every deadline to the moment, and seldom sets one.
type quietConn struct {
	net.Conn
	watched     bool
	unwatched   bool // the read of one byte has been spared since the last real one
	read, write deadline
	turns       *turns
	limit       *connLimit
	place       int // its index in limit.all, under limit.mu; unlimited is none
	answering   atomic.Int32
}

// waits reports whether it waits for its client.
func (c *quietConn) waits() bool { return c.answering.Load() == 0 && c.read.waits() }

// Read reads, but for net/http's watch: that gets nothing, and is content. Were
// a read of one byte ever for anything else, its reader would ask again, as
// io.Reader demands, and the second one in turn is real.
func (c *quietConn) Read(p []byte) (int, error) {
	for {
		if !c.read.begin(len(p) > 1) {
			return 0, os.ErrDeadlineExceeded
		}
		if len(p) == 1 && !c.watched && !c.unwatched {
			c.unwatched = true
			c.read.end(nil, nil)
			return 0, nil
		}
		c.unwatched = false
		n, err := c.Conn.Read(p)
		if again := c.read.end(err, c.Conn.SetReadDeadline); n > 0 || !again {
			return n, err
		}
	}
}

func (c *quietConn) Write(p []byte) (n int, err error) {
	c.turns.wait()
	for {
		if !c.write.begin(true) {
			return n, os.ErrDeadlineExceeded
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if !c.write.end(err, c.Conn.SetWriteDeadline) {
			return n, err
		}
	}
}

func (c *quietConn) Close() error {
	c.limit.leave(c)
	return c.Conn.Close()
}

func (c *quietConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *quietConn) SetReadDeadline(t time.Time) error {
	return c.read.set(t, c.Conn.SetReadDeadline)
}

func (c *quietConn) SetWriteDeadline(t time.Time) error {
	return c.write.set(t, c.Conn.SetWriteDeadline)
}

// longAgo tells the times that mean "at once", as net/http has one, from those
// that no clock says any more.
var longAgo = time.Unix(1<<20, 0)

// deadline is that of one direction of a connection. The connection itself has
// one that comes no later than what is wanted. When it passes too early, the
// operation that it ended goes on under another: on a busy connection that is
// once in the length of the deadline, not with every request.
type deadline struct {
	mu     sync.Mutex
	wanted time.Time // zero is never
	armed  time.Time // what the connection has; zero is none
	busy   int       // operations under way
	asks   bool      // the last that began is no watch
	heard  bool      // one has ended well since waits was asked
}

// set notes a deadline, and passes it on where what is armed would come later.
// One of long ago is for what is under way: without that, begin is enough.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	soon := d.armed.IsZero() || d.armed.After(t)
	if t.IsZero() || !soon || d.busy == 0 && t.Before(longAgo) {
		return nil
	}
	d.armed = t
	return arm(t)
}

// begin reports whether an operation may begin: not after a deadline of long
// ago. One that does not ask is net/http's watch.
func (d *deadline) begin(asks bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted.IsZero() && d.wanted.Before(longAgo) {
		return false
	}
	d.busy++
	d.asks = asks
	return true
}

// waits reports whether an operation waits, and none has ended well since waits
// was asked last.
func (d *deadline) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	heard := d.heard
	d.heard = false
	return d.busy > 0 && d.asks && !heard
}

// end reports whether an operation that began goes on, because its deadline
// was not the one that is wanted by now: that one is armed then.
func (d *deadline) end(err error, arm func(time.Time) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	d.heard = d.heard || err == nil
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if !d.wanted.IsZero() && !time.Now().Before(d.wanted) {
		return false
	}
	d.armed = d.wanted
	return arm(d.wanted) == nil
}
