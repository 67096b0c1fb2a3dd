package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// A commit that the server may have made is not made again, whatever the error is
// called: pgbouncer has a code for a server that has gone meanwhile.
func TestACommitOfUnknownOutcome(t *testing.T) {
	if embedded() {
		return
	}
	for _, state := range []string{"08P01", "57P01"} {
		h := furnished(t)
		misled, arm := h.misled(t, state, nil)
		arm()
		if err := misled.RemoveMember(ctx, "nordlys", "tor", Act{}); !errors.Is(err, ErrUnavailable) || code(err) != state {
			t.Errorf("%s: %v, want unavailable", state, err)
		}
		if _, err := h.Member(ctx, "tor", "nordlys"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want that the commit was made", state, err)
		}
	}
}

// What was noted while its commit's answer was lost is in the journal once, and is
// told once.
func TestNotesOfUnknownOutcome(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	var told atomic.Int64
	misled, arm := h.misled(t, "08P01", func(e Event) {
		if e.Kind == "client_refused" {
			told.Add(1)
		}
	})
	arm()
	misled.Record(Event{Kind: "client_refused"})
	if err := misled.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := h.shared.db.QueryRow(`SELECT COUNT(*) FROM journal WHERE kind = 'client_refused'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 1 || told.Load() != 1 {
		t.Errorf("written %d times, told %d times; want once", n, told.Load())
	}
}

// misled opens the same database once more, through a proxy that has the next
// commit made after arm, and answers it with an error.
func (h house) misled(t *testing.T, sqlState string, journaled func(Event)) (n house, arm func()) {
	t.Helper()
	u, err := url.Parse(h.options.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	var armed atomic.Bool
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go mislead(in, server, sqlState, &armed)
		}
	}()
	u.Host = l.Addr().String()
	n = h
	if n.Store, err = Open(ctx, Options{URL: u.String(), Ring: h.ring, Now: h.clock.Now, databaseTime: h.clock.Now, Journaled: journaled}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		l.Close()
	})
	return n, func() { armed.Store(true) }
}

func mislead(in net.Conn, server, sqlState string, armed *atomic.Bool) {
	defer in.Close()
	out, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer out.Close()
	var commits atomic.Bool
	go func() {
		defer out.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := in.Read(b)
			if err != nil {
				return
			}
			if bytes.Contains(b[:n], []byte("COMMIT\x00")) && armed.Swap(false) {
				commits.Store(true)
			}
			if _, err := out.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := out.Read(b)
		if err != nil {
			return
		}
		answer, last := b[:n], commits.Load()
		if last {
			fields := "SFATAL\x00VFATAL\x00C" + sqlState + "\x00Mserver conn crashed?\x00\x00"
			answer = append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...)
		}
		if _, err := in.Write(answer); err != nil || last {
			return
		}
	}
}
