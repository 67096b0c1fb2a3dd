package limit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// A line is a connection to the server that all requests of a node have in
// common. What waits goes out together, and the server answers in that order.
// It is always read, so that an end of it is noticed before the next question is
// put. It dials by itself once, and never again after it has ended.
type line struct {
	ctx       context.Context // is done when the line has ended; its cause is why
	end       context.CancelCauseFunc
	questions chan *question
	sent      chan *question // those that await their answers, in order
}

// A question is one run of the script.
type question struct {
	words  []any // how many keys, keys and arguments
	whole  bool  // with the script's text: the server does not know its hash
	answer chan answered
}

type answered struct {
	value any
	err   error // is a redigo.Error: the server's own
}

const (
	// together is how many questions go out at once, at most.
	together = 64
	// slow bounds each step of making a connection, and each write.
	slow = time.Second
)

var (
	errSlow   = errors.New("no answer in time")
	errHungUp = errors.New("closed")
)

// keepAlive finds within 20 seconds that the far end of an idle connection is
// gone, and keeps what stands between from forgetting it.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

func newLine(server *Server) *line {
	ctx, end := context.WithCancelCause(context.Background())
	l := &line{ctx: ctx, end: end, questions: make(chan *question, together), sent: make(chan *question, 4*together)}
	go func() {
		c, err := server.dial(ctx)
		if err != nil {
			end(err)
			return
		}
		context.AfterFunc(ctx, func() { c.Close() })
		go l.read(c)
		l.write(c)
	}()
	return l
}

// dial connects and says who asks.
func (s *Server) dial(ctx context.Context) (redigo.Conn, error) {
	dialer := &net.Dialer{Timeout: slow, KeepAliveConfig: keepAlive}
	dial := dialer.DialContext
	if s.tls != nil {
		dial = (&tls.Dialer{NetDialer: dialer, Config: s.tls}).DialContext
	}
	wire, err := dial(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	c := redigo.NewConn(wire, 0, slow)
	for _, words := range s.greeting {
		if _, err := redigo.DoWithTimeout(c, slow, words[0].(string), words[1:]...); err != nil {
			c.Close()
			if told, ok := err.(redigo.Error); ok && words[0] == "AUTH" { // it may go on with the password
				code, _, _ := strings.Cut(string(told), " ")
				err = errors.New(code)
			}
			return nil, fmt.Errorf("%s: %w", words[0], err)
		}
	}
	// For whoever lists the server's clients. A user who may not say so can do without.
	redigo.DoWithTimeout(c, slow, "CLIENT", "SETNAME", "grantkeeper")
	memory, _ := redigo.String(redigo.DoWithTimeout(c, slow, "INFO", "memory"))
	s.forgets.Store(forgets(memory))
	return c, nil
}

// forgets reads in what a server says of its memory whether it evicts.
func forgets(memory string) bool {
	said := map[string]string{}
	for line := range strings.Lines(memory) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		said[name] = value
	}
	policy := said["maxmemory_policy"]
	return policy != "" && policy != "noeviction" && said["maxmemory"] != "0"
}

func (l *line) write(c redigo.Conn) {
	for {
		select {
		case <-l.ctx.Done():
			return
		case q := <-l.questions:
			if err := l.send(c, q); err != nil {
				l.end(err)
				return
			}
		}
	}
}

// send sends a question, and with it what waits.
func (l *line) send(c redigo.Conn, q *question) error {
	for n := 1; ; n++ {
		select {
		case l.sent <- q: // before it is sent: its answer may be quick
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
		put := window.SendHash
		if q.whole {
			put = window.Send
		}
		if err := put(c, q.words...); err != nil {
			return err
		}
		if n == together {
			return c.Flush()
		}
		select {
		case q = <-l.questions:
		default:
			return c.Flush()
		}
	}
}

func (l *line) read(c redigo.Conn) {
	for {
		value, err := redigo.ReceiveWithTimeout(c, 0)
		if _, told := err.(redigo.Error); err != nil && !told {
			l.end(fmt.Errorf("the connection ended: %w", err))
			return
		}
		select {
		case q := <-l.sent:
			q.answer <- answered{value, err}
		default:
			l.end(errors.New("an answer to nothing"))
			return
		}
	}
}

// ask puts a question and waits for the answer until late. A line that does not
// answer in time may be dead without anybody saying so, and ends.
func (l *line) ask(words []any, whole bool, late <-chan time.Time) (any, error) {
	q := &question{words, whole, make(chan answered, 1)}
	select {
	case l.questions <- q:
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	case <-late:
		l.end(errSlow)
		return nil, errSlow
	}
	select {
	case a := <-q.answer:
		return a.value, a.err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	case <-late:
		l.end(errSlow)
		return nil, errSlow
	}
}

// connected gives the line, a new one if the last has ended.
func (s *Shared) connected() (*line, error) {
	s.lines.Lock()
	defer s.lines.Unlock()
	switch {
	case s.hungUp:
		return nil, errHungUp
	case s.line == nil || s.line.ctx.Err() != nil:
		s.line = newLine(s.server)
	}
	return s.line, nil
}

// hangUp ends the line for good.
func (s *Shared) hangUp() {
	s.lines.Lock()
	defer s.lines.Unlock()
	s.hungUp = true
	if s.line != nil {
		s.line.end(errHungUp)
	}
}

// call runs the script in the server, which has so long to answer as a request
// may wait.
func (s *Shared) call(words []any) (any, error) {
	l, err := s.connected()
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(s.patience)
	defer late.Stop()
	value, err := l.ask(words, false, late.C)
	if told, ok := err.(redigo.Error); ok && strings.HasPrefix(string(told), "NOSCRIPT ") {
		value, err = l.ask(words, true, late.C)
	}
	return value, err
}
