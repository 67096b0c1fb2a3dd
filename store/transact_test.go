package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// A commit that the server may have made is not made again, whatever the error is
// called: pgbouncer has a code for a server that has gone meanwhile.
func TestACommitOfUnknownOutcome(t *testing.T) {
	if embedded() {
		return
	}
	for _, state := range []string{"08P01", "57P01"} {
		h := furnished(t)
		misled, arm := h.misled(t, misleading{state: state}, nil)
		arm()
		if err := misled.RemoveMember(ctx, "nordlys", "tor", Act{}); !errors.Is(err, ErrUnavailable) || postgres.Code(err) != state {
			t.Errorf("%s: %v, want unavailable", state, err)
		}
		if _, err := h.Member(ctx, "tor", "nordlys"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want that the commit was made", state, err)
		}
	}
}

// What was noted while its commit's answer was lost is in the journal once, and is
// told once: whether the commit was made, or not, or takes its time.
func TestNotesOfUnknownOutcome(t *testing.T) {
	if embedded() {
		return
	}
	for name, how := range map[string]misleading{
		"made": {state: "08P01"}, "not made": {state: "08P01", undone: true}, "under way": {early: true},
	} {
		h := furnished(t)
		if how.early {
			h.sql(t, `CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN IF NEW.kind = 'client_refused' THEN PERFORM pg_sleep(2.5); END IF; RETURN NULL; END $$`)
			h.sql(t, `CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON journal
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()`)
		}
		var told atomic.Int64
		misled, arm := h.misled(t, how, func(e Event) {
			if e.Kind == "client_refused" {
				told.Add(1)
			}
		})
		arm()
		misled.Record(Event{Kind: "client_refused"})
		for end := time.Now().Add(time.Minute); told.Load() == 0 && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		if err := misled.Ready(ctx); err != nil {
			t.Error(name, err)
		}
		var n int
		if err := h.postgres().DB.QueryRow(`SELECT COUNT(*) FROM journal WHERE kind = 'client_refused'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 1 || told.Load() != 1 {
			t.Errorf("%s: written %d times, told %d times; want once", name, n, told.Load())
		}
	}
}

// A misleading is what becomes of the answer to a commit.
type misleading struct {
	state  string // of the error that it is instead
	undone bool   // and rightly so
	early  bool   // the connection is cut before there is one, and to cancel does not help
}

// misled opens the same database once more, through a proxy that misleads it about the
// next commit after arm.
func (h house) misled(t *testing.T, how misleading, journaled func(Event)) (n house, arm func()) {
	t.Helper()
	u, err := url.Parse(h.db.Options.URL)
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
			go how.mislead(in, server, &armed)
		}
	}()
	u.Host = l.Addr().String()
	n = h
	if n.Store, err = Open(ctx, Options{URL: u.String(), Ring: h.ring, Now: h.clock.Now, DatabaseTime: h.clock.Now, Journaled: journaled}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		l.Close()
	})
	return n, func() { armed.Store(true) }
}

func (how misleading) mislead(in net.Conn, server string, armed *atomic.Bool) {
	defer in.Close()
	out, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer out.Close()
	var commits atomic.Bool
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := in.Read(b)
			if err != nil {
				if !commits.Load() {
					out.Close()
				}
				return
			}
			if how.early && n == 16 && bytes.Equal(b[:8], []byte{0, 0, 0, 16, 4, 210, 22, 46}) {
				in.Close() // it asks to cancel
				out.Close()
				return
			}
			asked := b[:n]
			if bytes.Contains(asked, []byte("COMMIT\x00")) && armed.Swap(false) {
				commits.Store(true)
				if how.undone {
					asked = bytes.Replace(asked, []byte("COMMIT\x00"), []byte("ABORT \x00"), 1)
				}
			}
			if _, err := out.Write(asked); err != nil {
				return
			}
			if how.early && commits.Load() {
				in.Close()
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
			fields := "SFATAL\x00VFATAL\x00C" + how.state + "\x00Mserver conn crashed?\x00\x00"
			answer = append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...)
		}
		if _, err := in.Write(answer); err != nil || last {
			return
		}
	}
}
