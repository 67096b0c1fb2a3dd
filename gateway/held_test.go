package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/store"
)

// ends are what ends a right of Ada, and what her request is answered then.
var ends = []struct {
	name   string
	end    func(ctx context.Context, b *behind) error
	status int
}{
	{"approval revoked", func(ctx context.Context, b *behind) error {
		return b.store.EndApproval(ctx, b.approval, approval.RevokedByPerson, store.Act{})
	}, 401},
	{"member removed", func(ctx context.Context, b *behind) error {
		return b.store.RemoveMember(ctx, "nordlys", "ada", store.Act{})
	}, 401},
	{"person deactivated", func(ctx context.Context, b *behind) error { return b.store.SetActive(ctx, "ada", false, store.Act{}) }, 401},
	{"AI integration off", func(ctx context.Context, b *behind) error {
		return b.store.SetIntegration(ctx, "nordlys", false, store.Act{})
	}, 401},
	{"client disabled", func(ctx context.Context, b *behind) error {
		return b.store.SetClientEnabled(ctx, "client-1", false, store.Act{})
	}, 401},
	{"role lost", func(ctx context.Context, b *behind) error {
		return b.store.SetFiller(ctx, "treasurer", "ada", false, store.Act{})
	}, 503},
}

// The service hears of no request whose right has ended before its last byte
// (decision B7): not of a short one, and of a long one not the end. Where a role
// was lost, it is told so, or the request is broken off.
func TestUpstreamHeldOpen(t *testing.T) {
	for _, c := range ends {
		for _, size := range []int{2, maxHeld, 3 * maxHeld} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, chunked %t", c.name, size, chunked), func(t *testing.T) {
					whole, acted := make(chan bool, 1), make(chan string, 1)
					var b *behind
					b = newBehind(t, func(w http.ResponseWriter, r *http.Request) {
						who, err := identity.Verify(r.Header, b.now(), []byte(upstreamKey))
						acted <- fmt.Sprint(who.Acts("treasurer"), " ", err)
						_, err = io.Copy(io.Discard, r.Body)
						whole <- err == nil
						fmt.Fprint(w, "secret")
					}, nil)
					rest := b.holdOpen("POST", size, chunked)
					if err := c.end(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					status, body := rest()
					long := size > maxHeld
					switch want := c.status; {
					case want == 503 && !long: // the service is told what is left
						if status != 200 || <-acted != "none <nil>" {
							t.Errorf("got %d %s", status, body)
						}
					case status != want || strings.Contains(body, "secret"):
						t.Errorf("got %d %s, want %d", status, body, want)
					case !long && b.served.Load() != 0:
						t.Error("the service was asked")
					case long && <-whole:
						t.Error("the service got the end")
					}
				})
			}
		}
	}
}

// holdOpen sends a request but for its last byte, and gives what sends that.
func (b *behind) holdOpen(method string, size int, chunked bool) (rest func() (int, string)) {
	t := b.t
	t.Helper()
	conn, err := net.Dial("tcp", b.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	framing, first, last := fmt.Sprintf("Content-Length: %d", size), strings.Repeat("x", size-1), "x"
	if chunked {
		framing = "Transfer-Encoding: chunked"
		first, last = fmt.Sprintf("%x\r\n%s\r\n", size-1, first), "1\r\nx\r\n0\r\n\r\n"
	}
	if _, err := io.WriteString(conn, method+" /api/v5/notes HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer "+b.access+"\r\nExpect: 100-continue\r\n"+framing+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // who waits for the body has checked
		t.Fatal(line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, first); err != nil {
		t.Fatal(err)
	}
	if size > maxHeld { // the service is under way
		for b.served.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return func() (int, string) {
		defer conn.Close()
		if _, err := io.WriteString(conn, last); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode, text(t, answer)
	}
}

// What the service answers is given if the right still stands when it comes, and
// goes on for as long as it does.
func TestUpstreamAnswersWhileTheRightStands(t *testing.T) {
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				var b *behind
				b = newBehind(t, func(w http.ResponseWriter, _ *http.Request) {
					if err := c.end(t.Context(), b); err != nil {
						t.Error(err)
					}
					fmt.Fprint(w, "secret")
				}, nil)
				want := c.status
				if want == 503 && method == "POST" {
					want = 200 // it was done
				}
				a := b.call(method, "/api/v5/notes", nil)
				body := text(t, a)
				if a.StatusCode != want || want != 200 && strings.Contains(body, "secret") || want == 401 && a.Header.Get("WWW-Authenticate") != challenge {
					t.Errorf("%s: got %d %v %s, want %d", method, a.StatusCode, a.Header, body, want)
				}
				if done := strings.Contains(body, "may have been done"); want == 401 && done != (method == "POST") {
					t.Errorf("%s: %s", method, body)
				}
			}
			next := make(chan bool)
			b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, "one")
				http.NewResponseController(w).Flush()
				<-next
				fmt.Fprintln(w, "secret")
			}, func(u *Upstream, _ *httptest.Server) { u.each = time.Nanosecond })
			lines := bufio.NewReader(b.call("GET", "/api/v5/events", nil).Body)
			if line, err := lines.ReadString('\n'); line != "one\n" || err != nil {
				t.Fatal(line, err)
			}
			if err := c.end(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			close(next)
			if rest, err := io.ReadAll(lines); len(rest) != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("went on: %q, %v", rest, err)
			}
		})
	}
}

// A short answer goes on when its end has come: the right is asked then, too.
func TestTheEndOfAShortAnswer(t *testing.T) {
	var b *behind
	b = newBehind(t, nil, func(u *Upstream, _ *httptest.Server) {
		u.each, u.to = time.Nanosecond, tripper(func(*http.Request) (*http.Response, error) {
			body := io.MultiReader(strings.NewReader("secret"), ending(func() error { return ends[0].end(t.Context(), b) }))
			return &http.Response{StatusCode: 200, ContentLength: 6, Header: http.Header{}, Body: io.NopCloser(body)}, nil
		})
	})
	a := b.call("GET", "/api/v5/notes", nil)
	if said := text(t, a); a.StatusCode != ends[0].status {
		t.Errorf("%d %s, want %d", a.StatusCode, said, ends[0].status)
	}
}

// ending is the end of a body, at which something happens.
type ending func() error

func (e ending) Read([]byte) (int, error) {
	if err := e(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// A change that began in time is told although its token has expired meanwhile, also while
// its answer goes on: a client that hears of the token alone would send it again (decision
// V15). What reads is not, and a change of which the last byte comes later does not happen.
func TestATokenThatExpiresMeanwhile(t *testing.T) {
	for _, c := range []struct {
		method string
		after  time.Duration // since the token was got
		status int
	}{{"POST", 60 * time.Minute, 200}, {"GET", 60 * time.Minute, 401}, {"POST", 91 * time.Minute, 401}} {
		var b *behind
		b = newBehind(t, func(w http.ResponseWriter, _ *http.Request) {
			b.Pass(c.after)
			fmt.Fprintln(w, strings.Repeat("done", short))
			http.NewResponseController(w).Flush()
			fmt.Fprintln(w, "done")
		}, func(u *Upstream, _ *httptest.Server) { u.each = time.Nanosecond })
		a := b.call(c.method, "/api/v5/notes", nil)
		if said := text(t, a); a.StatusCode != c.status || strings.HasSuffix(said, "done\n") != (c.status == 200) {
			t.Errorf("%s after %s: %d", c.method, c.after, a.StatusCode)
		}
	}
	for _, size := range []int{2, 2 * maxHeld} {
		whole := make(chan bool, 1)
		b := newBehind(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			whole <- err == nil
		}, nil)
		rest := b.holdOpen("POST", size, false)
		b.Pass(31 * time.Minute)
		if status, said := rest(); status != 401 {
			t.Errorf("a body of %d bytes that comes later: %d %s", size, status, said)
		}
		if b.served.Load() > 0 && <-whole {
			t.Errorf("the service has all %d bytes", size)
		}
	}
}

// A silent answer to a change goes on when the token has expired; one to what reads is
// broken off.
func TestSilentAnswersWhoseTokenExpires(t *testing.T) {
	next := make(chan bool)
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "one")
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-next:
			fmt.Fprintln(w, "two")
		}
	}, func(u *Upstream, _ *httptest.Server) { u.Streams.Every = 10 * time.Millisecond })
	post, get := b.call("POST", "/api/v5/notes", nil), b.call("GET", "/api/v5/notes", nil)
	b.Pass(31 * time.Minute)
	if said, err := io.ReadAll(get.Body); string(said) != "one\n" || err == nil {
		t.Errorf("what reads: %q, %v", said, err)
	}
	close(next)
	if said, err := io.ReadAll(post.Body); string(said) != "one\ntwo\n" || err != nil {
		t.Errorf("a change: %q, %v", said, err)
	}
}

// Who has as many requests under way as there may be is refused before the service hears of
// it, and has its place again once one is over (decision V15).
func TestCallsUnderWayAreBounded(t *testing.T) {
	begun, next := make(chan bool), make(chan bool)
	b := newBehind(t, func(w http.ResponseWriter, _ *http.Request) {
		begun <- true
		<-next
	}, func(u *Upstream, _ *httptest.Server) { u.Streams = NewStreams(u.API, 4) })
	over := make(chan int)
	go func() { over <- b.call("GET", "/api/v5/notes", nil).StatusCode }()
	<-begun
	served := b.served.Load()
	for _, method := range []string{"GET", "POST"} {
		if a := b.call(method, "/api/v5/notes", strings.NewReader("{}")); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" || b.served.Load() != served {
			t.Errorf("%s: one more: %d", method, a.StatusCode)
		}
	}
	next <- true
	if status := <-over; status != 200 {
		t.Errorf("the first: %d", status)
	}
	go func() { <-begun; next <- true }()
	for {
		if a := b.call("GET", "/api/v5/notes", nil); a.StatusCode == 200 {
			break // it is counted out when the proxy has seen its end
		}
	}
	for most, want := range map[int][2]int{0: {10_000, 1_000}, 1: {1, 1}, 400: {400, 100}, 1 << 20: {10_000, 1_000}} {
		if s := NewStreams(b.api, most); s.Most != want[0] || s.OfOne != want[1] {
			t.Errorf("of %d: %d, and %d of one", most, s.Most, s.OfOne)
		}
	}
}

// An answer that is silent is broken off when the right to it ends, and the service
// hears that it is over; nobody else's is. What may have changed something goes on for as
// long as some right stands (decision V15).
func TestSilentAnswersEndWithTheRight(t *testing.T) {
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			gone, next := make(chan string, 3), make(chan bool)
			b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, "one")
				http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					gone <- r.Method + r.URL.Path
				case <-next:
					fmt.Fprintln(w, "two")
				}
			}, func(u *Upstream, _ *httptest.Server) { u.Streams.Every = 10 * time.Millisecond })
			open := func(method, path string) *bufio.Reader {
				lines := bufio.NewReader(b.call(method, path, nil).Body)
				if line, err := lines.ReadString('\n'); line != "one\n" || err != nil {
					t.Fatal(line, err)
				}
				return lines
			}
			get, post := open("GET", "/api/v5/events"), open("POST", "/api/v5/notes")
			b.access = b.live("tor", everything).access
			other := open("GET", "/api/v5/else")
			if err := c.end(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			cut, stay := []*bufio.Reader{get, post}, []*bufio.Reader{other}
			if c.status == 503 {
				cut, stay = cut[:1], append(stay, post)
			}
			for _, lines := range cut {
				if rest, err := io.ReadAll(lines); len(rest) != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("went on: %q, %v", rest, err)
				}
				<-gone
			}
			if c.status == 401 && (c.name == "AI integration off" || c.name == "client disabled") {
				return // which ends Tor's too
			}
			close(next)
			for _, lines := range stay {
				if rest, err := io.ReadAll(lines); string(rest) != "two\n" || err != nil {
					t.Errorf("another's: %q, %v", rest, err)
				}
			}
		})
	}
}

// Who reads nothing of an answer keeps none of it under way: neither the write that
// waits, nor the question for the right (decision V15).
func TestAnswersThatNobodyReads(t *testing.T) {
	gone := make(chan bool)
	var upstream *Upstream
	var sent atomic.Int64
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for piece := make([]byte, 1<<16); r.Context().Err() == nil; sent.Add(1) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}, func(u *Upstream, _ *httptest.Server) { u.Streams.Every, upstream = 10*time.Millisecond, u })
	a := b.call("GET", "/api/v5/events", nil)
	for last := int64(-1); sent.Load() == 0 || last != sent.Load(); time.Sleep(50 * time.Millisecond) {
		last = sent.Load()
	}
	if err := ends[0].end(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	<-gone
	if n, err := io.Copy(io.Discard, a.Body); n >= sent.Load()<<16 && err == nil {
		t.Error("what was on its way came all the same")
	}
	for upstream.Streams.Watched() {
		time.Sleep(time.Millisecond)
	}
}

const challenge = `Bearer realm="Svalinn", resource_metadata="` + base + `/.well-known/oauth-protected-resource/api/v5", error="invalid_token"`

// However a body comes in pieces, it is passed on whole, and asks once before
// its last byte when it is longer than what is held.
func TestHold(t *testing.T) {
	for _, size := range []int{0, 1, 2, maxHeld - 1, maxHeld, maxHeld + 1, maxHeld + 2, 3 * maxHeld} {
		text := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		for name, pieces := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by the byte": iotest.OneByteReader, "by halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			for _, refusal := range []error{nil, over{api.ErrEnded}} {
				asked := 0
				b, err := hold(io.NopCloser(pieces(bytes.NewReader(text))))
				if err != nil {
					t.Fatal(err)
				}
				b.stands = func() error { asked++; return refusal }
				got, err := io.ReadAll(iotest.HalfReader(b))
				want, asks := text, 0
				if size > maxHeld {
					asks = 1
				}
				if asks == 1 && refusal != nil {
					if want = text[:size-1]; !errors.Is(err, api.ErrEnded) {
						t.Errorf("%d %s: %v", size, name, err)
					}
				} else if err != nil {
					t.Errorf("%d %s: %v", size, name, err)
				}
				if !bytes.Equal(got, want) || asked != asks {
					t.Errorf("%d %s: got %d bytes, asked %d times; want %d, %d", size, name, len(got), asked, len(want), asks)
				}
			}
		}
	}
	broken := errors.New("broken")
	if _, err := hold(io.NopCloser(iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	b, err := hold(io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 2*maxHeld)), iotest.ErrReader(broken))))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); len(got) > 2*maxHeld || !errors.Is(err, broken) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
