// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A conn is one connection of a node, which carries what the seed lets through. A goroutine
// that waits for it waits for something in the bubble.
type conn struct {
	node *node
	n    int // of the seed, once everybody stands still; until then 0

	mu       sync.Mutex
	change   sync.Cond
	in       []byte // has arrived at the node
	out      []byte // was sent by it, and has not arrived at the server
	broken   error  // what comes behind in
	closed   bool   // by the node
	deadline time.Time
	late     *time.Timer

	// All below is the scheduler's.

	backend    *backend // nil until it is there, and once it is gone
	greeted    bool
	reply      []byte    // what the server has said and has not arrived
	waits      time.Time // since when the server waits for a lock to go on; zero: it does not
	cut        bool      // the network has lost it
	statements map[string]string
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

func newConn(of *node) *conn {
	c := &conn{node: of, statements: map[string]string{}}
	c.change.L = &c.mu
	return c
}

func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(c.in) > 0:
			n := copy(b, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.broken != nil:
			return 0, c.broken
		}
		c.change.Wait()
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.broken != nil:
		return 0, c.broken
	}
	c.out = append(c.out, b...)
	return len(b), nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.stopLate()
	c.change.Broadcast()
	return nil
}

func (c *conn) stopLate() {
	if c.late != nil {
		c.late.Stop()
		c.late = nil
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLate()
	if c.deadline = t; !t.IsZero() && time.Until(t) > 0 {
		c.late = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.change.Broadcast()
		})
	}
	c.change.Broadcast()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }
func (c *conn) LocalAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (c *conn) RemoteAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432} }

// sent reports whether something is on its way to the server.
func (c *conn) sent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out) > 0
}

// cancels is which connection it asks the server to cancel, or -1.
func (c *conn) cancels() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isCancel(c.out) {
		return -1
	}
	return int(binary.BigEndian.Uint32(c.out[8:]))
}

func isCancel(sent []byte) bool {
	return len(sent) >= 12 && binary.BigEndian.Uint32(sent[4:]) == 80877102
}

// gone reports whether the node has closed it, and nothing of it is on its way.
func (c *conn) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed && len(c.out) == 0
}

// take takes what is on its way to the server.
func (c *conn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.out
	c.out = nil
	return out
}

// arrive lets the node have what the server said, or the first so many bytes of it; behind
// them the connection is broken, if there is such an error.
func (c *conn) arrive(most int, broken error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, c.reply[:min(most, len(c.reply))]...)
	c.reply = nil
	if broken != nil {
		c.broken = broken
	}
	c.change.Broadcast()
}

// A backend is one connection to PostgreSQL. Connections of nodes have it one after another,
// each as a new one: to start a process of the server for each takes longer than all else.
//
// The calls are those of the system, which nobody else of this process runs beside.
type backend struct {
	fd    int
	pid   string
	hello []byte // what the server says at the start

	unread []byte // less than a message
	said   []byte // whole messages of the answer under way
	need   int    // answers that are to come
	status byte   // I, T or E: in no transaction, in one, in one that has failed

	lockTimeout time.Duration // as the transaction under way has set it
	doomed      bool          // the planted fault is to take it back
	idle        time.Time     // since when it is in a transaction and does nothing
}

func dialBackend(port int, schema string) (*backend, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	if err := errors.Join(
		syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 2000}),
	); err != nil {
		return nil, err
	}
	b := &backend{fd: fd}
	hello := &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{
		"user": "postgres", "database": "postgres", "search_path": schema, "application_name": "grantkeeper",
	}}
	sent, err := hello.Encode(nil)
	if err != nil {
		return nil, err
	}
	if err := b.send(sent, 1); err != nil {
		return nil, err
	}
	for {
		if whole, err := b.hear(); whole || err != nil {
			b.hello = b.take()
			return b, err
		}
	}
}

// received is what one call to the system gives; one at a time is made.
var received [16 << 10]byte

func (b *backend) send(bytes []byte, answers int) error {
	b.need += answers
	b.idle = time.Time{}
	for len(bytes) > 0 {
		n, err := syscall.Write(b.fd, bytes)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		bytes = bytes[max(0, n):]
	}
	return nil
}

// hear reads what the server says. It is whole when every answer has come; if not, the
// server has said nothing for a while.
func (b *backend) hear() (whole bool, err error) {
	buffer := received[:]
	for b.need > 0 {
		n, err := syscall.Read(b.fd, buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		case n == 0:
			return false, io.ErrUnexpectedEOF
		}
		b.unread = append(b.unread, buffer[:n]...)
		rest := b.unread
		for kind, message := range messages(&rest) {
			switch kind {
			case 'Z':
				b.need, b.status = b.need-1, message[5]
			case 'K':
				b.pid = strconv.Itoa(int(binary.BigEndian.Uint32(message[5:])))
			}
			b.said = append(b.said, message...)
		}
		b.unread = append([]byte{}, rest...)
	}
	return true, nil
}

// take takes the answer, once it is whole.
func (b *backend) take() []byte {
	said := b.said
	b.said = nil
	if b.status == 'I' {
		b.lockTimeout, b.doomed = 0, false
	} else {
		b.idle = time.Now()
	}
	return said
}

// ask runs statements that are the scheduler's own, and gives the first column of each row.
func (b *backend) ask(statements ...string) (rows []string, err error) {
	var bytes []byte
	for _, text := range statements {
		if bytes, err = (&pgproto3.Query{String: text}).Encode(bytes); err != nil {
			return nil, err
		}
	}
	if err := b.send(bytes, len(statements)); err != nil {
		return nil, err
	}
	for {
		whole, err := b.hear()
		if err != nil {
			return nil, err
		}
		if whole {
			break
		}
	}
	said := b.take()
	for kind, message := range messages(&said) {
		switch kind {
		case 'E':
			return nil, fmt.Errorf("%s: %s", statements, refusal(message))
		case 'D':
			var row pgproto3.DataRow
			if err := row.Decode(message[5:]); err != nil {
				return nil, err
			}
			rows = append(rows, string(row.Values[0]))
		}
	}
	return rows, nil
}

// messages goes through the whole messages of what a node or the server has said, and leaves
// the rest.
func messages(of *[]byte) func(func(kind byte, message []byte) bool) {
	return func(yield func(byte, []byte) bool) {
		for len(*of) >= 5 {
			size := 1 + int(binary.BigEndian.Uint32((*of)[1:]))
			if len(*of) < size {
				return
			}
			message := (*of)[:size]
			*of = (*of)[size:]
			if !yield(message[0], message) {
				return
			}
		}
	}
}

// refusal is the SQLSTATE and the text of an error of the server.
func refusal(message []byte) string {
	var e pgproto3.ErrorResponse
	if err := e.Decode(message[5:]); err != nil {
		return err.Error()
	}
	return e.Code + " " + e.Message
}

// heads tells what an answer consists of, for the trace: what depends on the hour of the
// machine or on the server's processes is not in it.
func heads(said []byte) string {
	var out []string
	for kind, message := range messages(&said) {
		switch kind {
		case 'E':
			out = append(out, "E("+refusal(message)+")")
		case 'Z':
			out = append(out, "Z"+string(message[5]))
		case 'C':
			out = append(out, "C("+strings.TrimRight(string(message[5:]), "\x00")+")")
		default:
			out = append(out, string(kind))
		}
	}
	return strings.Join(out, "")
}

// called is a statement as the trace has it.
func called(text string) string {
	digest := fnv.New32a()
	io.WriteString(digest, text)
	words := strings.Fields(text)
	return fmt.Sprintf("%s #%04x", strings.Join(words[:min(5, len(words))], " "), digest.Sum32()&0xffff)
}
