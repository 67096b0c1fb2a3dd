package enginetest_test

import (
	"bytes"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// proxy stands before a PostgreSQL server and loses the answer to one commit.
type proxy struct {
	listener net.Listener
	server   string
	armed    atomic.Int32 // notArmed, or what becomes of the next commit
}

const (
	notArmed = iota
	isMade
	isNot
)

func proxyTo(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	p := &proxy{listener: l, server: server}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(in)
		}
	}()
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) arm(made bool) {
	if made {
		p.armed.Store(isMade)
	} else {
		p.armed.Store(isNot)
	}
}

// saves are the statements whose commit somebody waits for.
var saves = regexp.MustCompile(`UPDATE approval|INSERT INTO (journal|client)`)

// link is one connection through the proxy.
type link struct {
	in, out  net.Conn
	texts    map[string]string // of prepared statements
	explicit bool              // between BEGIN and COMMIT
	saving   bool              // the transaction has saved something
	losing   atomic.Bool       // what the server answers from now on is lost
}

func (p *proxy) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer out.Close()
	l := &link{in: in, out: out, texts: map[string]string{}}
	client, server := pgproto3.NewBackend(in, in), pgproto3.NewFrontend(out, out)
	var m pgproto3.FrontendMessage
	if m, err = client.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(m)
	go l.answers()
	for end := true; ; {
		if end && server.Flush() != nil {
			return
		}
		if m, err = client.Receive(); err != nil {
			return
		}
		server.Send(m)
		var commits bool
		if end, commits = l.ask(m); commits && p.armed.CompareAndSwap(isNot, notArmed) {
			return // and the server undoes what it has of it
		} else if commits && p.armed.CompareAndSwap(isMade, notArmed) {
			l.losing.Store(true)
		}
	}
}

// ask follows what the client asks: end says that it waits for the answer then, commits
// that something it has saved is committed with it.
func (l *link) ask(m pgproto3.FrontendMessage) (end, commits bool) {
	switch m := m.(type) {
	case *pgproto3.Parse:
		l.texts[m.Name] = m.Query
		return false, false
	case *pgproto3.Bind:
		l.saving = l.saving || saves.MatchString(l.texts[m.PreparedStatement])
		return false, false
	case *pgproto3.Query:
		commits = l.saving && m.String == "COMMIT"
		switch { // any other statement, such as a SET, is a part of the transaction
		case strings.HasPrefix(m.String, "BEGIN"):
			l.explicit = true
		case m.String == "COMMIT", m.String == "ROLLBACK":
			l.explicit = false
		}
	case *pgproto3.Sync:
		commits = l.saving && !l.explicit
	case *pgproto3.Terminate:
	default:
		return false, false
	}
	l.saving = l.saving && l.explicit
	return true, commits
}

// answers passes on what the server says. What is lost ends the connection when the
// server is ready for more.
func (l *link) answers() {
	defer l.in.Close()
	defer l.out.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := l.out.Read(b)
		if err != nil {
			return
		}
		if l.losing.Load() {
			if bytes.Contains(b[:n], []byte{'Z', 0, 0, 0, 5}) {
				return
			}
		} else if _, err := l.in.Write(b[:n]); err != nil {
			return
		}
	}
}
