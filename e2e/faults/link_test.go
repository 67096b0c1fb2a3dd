package faults

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A link is the network between one node and what it stands on: it can be slow, be
// cut, and swallow everything without a word.
type link struct {
	listener net.Listener

	mu     sync.Mutex
	to     string // address of the server
	cut    bool
	delay  time.Duration
	thaw   chan struct{} // closed while it carries
	conns  map[net.Conn]bool
	closed bool

	carried atomic.Int64 // pieces, both ways
}

// newLink listens at an address of this machine and leads to a server; to nothing
// while to is empty.
func newLink(t testing.TB, at, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", at+":0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to, thaw: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(l.thaw)
	go l.accept()
	t.Cleanup(l.close)
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(in)
	}
}

func (l *link) carry(in net.Conn) {
	l.mu.Lock()
	to, cut := l.to, l.cut || l.closed || l.to == ""
	if !cut {
		l.conns[in] = true
	}
	l.mu.Unlock()
	if cut {
		in.Close()
		return
	}
	defer l.drop(in)
	out, err := net.DialTimeout("tcp", to, time.Second)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.conns[out] = true
	l.mu.Unlock()
	defer l.drop(out)
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		l.copy(to, from)
		to.Close()
		from.Close()
		done <- struct{}{}
	}
	go pipe(out, in)
	pipe(in, out)
	<-done
	<-done
}

// copy carries bytes one way, as fast as the link is at the moment.
func (l *link) copy(to io.Writer, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			l.carried.Add(1)
			l.mu.Lock()
			delay, thaw := l.delay, l.thaw
			l.mu.Unlock()
			<-thaw
			time.Sleep(delay)
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) drop(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// sever ends every connection, and takes new ones or not.
func (l *link) sever(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.conns {
		c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.delay = false, 0
}

func (l *link) slow(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// freeze swallows everything until the func is called: what was sent before arrives
// then, however late.
func (l *link) freeze() (thaw func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	frozen := make(chan struct{})
	l.thaw = frozen
	return func() { close(frozen) }
}

// lead leads to another server from the next connection on, and ends the others.
func (l *link) lead(to string) {
	l.mu.Lock()
	l.to = to
	l.mu.Unlock()
	l.sever(false)
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.listener.Close()
	l.sever(true)
}
