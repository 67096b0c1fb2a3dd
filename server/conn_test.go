package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts how often a connection's deadlines are really set.
type counted struct {
	net.Conn
	sets atomic.Int64
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.sets.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c *counted) SetWriteDeadline(t time.Time) error {
	c.sets.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

// quietPair gives a quiet connection and its other end. net.Pipe's deadlines
// follow the bubble's clock.
func quietPair(t *testing.T) (*quietConn, *counted, net.Conn) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	under := &counted{Conn: ours}
	return &quietConn{Conn: under, turns: newTurns()}, under, theirs
}

// Whoever sets a deadline for each request is heard, and the connection is left
// alone.
func TestQuietDeadlinesAreSetOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, under, peer := quietPair(t)
		go func() {
			for range 100 {
				_, _ = peer.Write([]byte("request"))
				_, _ = io.ReadFull(peer, make([]byte, 6))
			}
		}()
		for range 100 {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			c.SetWriteDeadline(time.Now().Add(30 * time.Second))
			if n, err := c.Read(make([]byte, 64)); n != 7 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := c.Write([]byte("answer")); n != 6 || err != nil {
				t.Fatal(n, err)
			}
			c.SetReadDeadline(time.Time{})
		}
		if n := under.sets.Load(); n != 2 {
			t.Errorf("%d deadlines were set, want one of each direction", n)
		}
	})
}

// A deadline is kept to the moment, whatever came before it.
func TestQuietDeadlineIsKept(t *testing.T) {
	for name, before := range map[string][]time.Duration{
		"at once":      nil,
		"after longer": {time.Hour},
		"after sooner": {time.Second},
		"after none":   {time.Second, 0},
		"after past":   {-time.Hour * 24 * 365},
		"after many":   {time.Second, time.Minute, time.Millisecond, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, _ := quietPair(t)
				for _, set := range map[string]func(time.Time) error{"read": c.SetReadDeadline, "write": c.SetWriteDeadline} {
					for _, d := range before {
						at := time.Time{}
						if d != 0 {
							at = time.Now().Add(d)
						}
						set(at)
					}
					set(time.Now().Add(20 * time.Second))
				}
				for what, op := range map[string]func([]byte) (int, error){"read": c.Read, "write": c.Write} {
					c.SetDeadline(time.Now().Add(20 * time.Second))
					begin := time.Now()
					_, err := op(make([]byte, 8))
					if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took != 20*time.Second {
						t.Errorf("%s ends after %v with %v", what, took, err)
					}
				}
			})
		})
	}
}

// What a deadline ended too early goes on, and loses nothing of what it did.
func TestQuietWriteGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := quietPair(t)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		go func() {
			time.Sleep(500 * time.Millisecond)
			c.SetWriteDeadline(time.Now().Add(time.Hour))
		}()
		got := make(chan string)
		go func() {
			var all []byte
			for range 5 { // slower than the first deadline
				b := make([]byte, 2)
				_, _ = io.ReadFull(peer, b)
				all = append(all, b...)
				time.Sleep(time.Second)
			}
			got <- string(all)
		}()
		if n, err := c.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Error(n, err)
		}
		if all := <-got; all != "0123456789" {
			t.Errorf("arrived: %q", all)
		}
	})
}

// A past deadline wakes what waits, and none wakes it again.
func TestQuietPastDeadlineWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := quietPair(t)
		c.SetReadDeadline(time.Now().Add(time.Hour))
		woken := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 64))
			woken <- err
		}()
		synctest.Wait()
		begin := time.Now()
		c.SetReadDeadline(time.Unix(1, 0))
		if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 0 {
			t.Errorf("woken after %v with %v", time.Since(begin), err)
		}
		if _, err := c.Read(make([]byte, 64)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the deadline is past, and a read got", err)
		}
		c.SetReadDeadline(time.Time{})
		go peer.Write([]byte("more"))
		if n, err := c.Read(make([]byte, 64)); n != 4 || err != nil {
			t.Error(n, err)
		}
	})
}

// Nothing waits: a past deadline costs nothing then, and is heard all the same.
func TestQuietPastDeadlineBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, under, peer := quietPair(t)
		go peer.Write([]byte("one"))
		if n, err := c.Read(make([]byte, 8)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		c.SetDeadline(time.Unix(1, 0))
		for what, op := range map[string]func([]byte) (int, error){"read": c.Read, "write": c.Write} {
			if _, err := op(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		c.SetDeadline(time.Time{})
		if n := under.sets.Load(); n != 0 {
			t.Errorf("%d deadlines were set", n)
		}
	})
}

// A deadline that was set again is the one that later ones are compared with.
func TestQuietSoonerAfterLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := quietPair(t)
		c.SetReadDeadline(time.Now().Add(time.Second))
		c.SetReadDeadline(time.Now().Add(time.Hour))
		go func() {
			time.Sleep(2 * time.Second) // the first one has passed, too early
			peer.Write([]byte("one"))
		}()
		if n, err := c.Read(make([]byte, 8)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		begin := time.Now()
		c.SetReadDeadline(begin.Add(time.Minute))
		_, err := c.Read(make([]byte, 8))
		if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Minute {
			t.Errorf("ends after %v with %v", took, err)
		}
	})
}

// partly reads something, and meets its deadline.
type partly struct{ net.Conn }

func (partly) Read(p []byte) (int, error) { return 2, os.ErrDeadlineExceeded }

func TestQuietReadKeepsWhatCame(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := &quietConn{Conn: partly{ours}, turns: newTurns()}
	if n, err := c.Read(make([]byte, 8)); n != 2 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(n, err)
	}
}

// Only the first of two reads of one byte is net/http's watch: whoever asks
// again means it.
func TestQuietWatchIsSparedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := quietPair(t)
		go peer.Write([]byte("ab"))
		one := make([]byte, 1)
		if n, err := c.Read(one); n != 0 || err != nil {
			t.Error("the watch got", n, err)
		}
		for _, want := range "ab" {
			n, err := io.ReadFull(c, one)
			if n != 1 || err != nil || rune(one[0]) != want {
				t.Errorf("read %d, %v, %q", n, err, one)
			}
		}
		if n, err := c.Read(one); n != 0 || err != nil {
			t.Error("the next watch got", n, err)
		}
		watched := &quietConn{Conn: c.Conn, watched: true, turns: c.turns}
		go peer.Write([]byte("c"))
		if n, err := watched.Read(one); n != 1 || err != nil {
			t.Error("a watched connection got", n, err)
		}
	})
}

func quietServer(t *testing.T, watched bool, h http.Handler) string {
	l, err := listen("127.0.0.1:0", watched, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// Headers of every length around net/http's buffer, and requests sent together,
// are all answered: a read can be of one byte there as well.
func TestQuietServerReadsEveryLength(t *testing.T) {
	addr := quietServer(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s", len(r.Header.Get("Long")), body)
	}))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(c)
	for long := 4040; long < 4110; long++ {
		request := "POST / HTTP/1.1\r\nHost: x\r\nLong: " + strings.Repeat("a", long) + "\r\nContent-Length: 1\r\n\r\nb"
		// In two pieces, so that the server's buffer is full but for its end.
		for _, piece := range []string{request[:4095], request[4095:] + request} {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		for range 2 {
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%d: %v", long, err)
			}
			body, _ := io.ReadAll(answer.Body)
			if want := fmt.Sprintf("%d b", long); string(body) != want {
				t.Fatalf("%q, want %q", body, want)
			}
		}
	}
}

// A request that others work on ends with its client, where that is watched.
func TestWatchedClientGoesAway(t *testing.T) {
	ended := make(chan error, 1)
	addr := quietServer(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	c.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the request goes on without its client")
	}
}
