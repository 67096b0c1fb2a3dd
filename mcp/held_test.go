package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// postgres is one server for the tests of this package.
var postgres = sync.OnceValues(func() (*pgtest.Server, error) {
	pg, err := pgtest.Start()
	if err == nil {
		stop = func() { pg.Stop() }
	}
	return pg, err
})

var stop = func() {}

func TestMain(m *testing.M) {
	status := m.Run()
	stop()
	os.Exit(status)
}

// onBoth runs a test on either engine, with a new database; "" is a file.
func onBoth(t *testing.T, do func(t *testing.T, database string)) {
	pg, err := postgres()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Run("SQLite", func(t *testing.T) { do(t, "") })
	t.Run("PostgreSQL", func(t *testing.T) {
		name, err := pg.Database()
		if err != nil {
			t.Fatal(err)
		}
		do(t, pg.URL(name))
	})
}

// waiting is a service whose answers wait. It tells of each request that has come.
type waiting struct {
	came chan string   // its body
	say  chan string   // what is to be answered
	gone chan struct{} // the request was called off
	kind string        // of the answer
}

func newWaiting(kind string) *waiting {
	return &waiting{came: make(chan string, 100), say: make(chan string), gone: make(chan struct{}, 100), kind: kind}
}

func (s *waiting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", s.kind)
	if s.kind == "text/event-stream" {
		w.(http.Flusher).Flush()
	}
	s.came <- string(body)
	for {
		select {
		case text := <-s.say:
			io.WriteString(w, text)
			if s.kind != "text/event-stream" {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			s.gone <- struct{}{}
			return
		}
	}
}

// A request whose headers came while a right stood, and whose body comes after it
// has ended, never reaches the service, on either engine (decision V2).
func TestHeldOpen(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		service := newWaiting("application/json")
		h := newHouseOn(t, database, service)
		admitted := make(chan struct{}, 1)
		h.api.Checked = func(api.Result) { admitted <- struct{}{} }
		for n, end := range []func(approval.ID) error{
			func(id approval.ID) error { h.end(id); return nil },
			func(approval.ID) error { return h.store.RemoveMember(t.Context(), "nordlys", "tor", act) },
		} {
			name := []string{"revoked", "removed"}[n]
			token, id := h.live("tor", everything)
			r, w := io.Pipe()
			status := make(chan int, 1)
			go func() { status <- h.open(context.Background(), "POST", token, r).StatusCode }()
			io.WriteString(w, call("x")[:20])
			<-admitted
			if err := end(id); err != nil {
				t.Fatal(err)
			}
			io.WriteString(w, call("x")[20:])
			w.Close()
			if got := <-status; got != 401 {
				t.Errorf("%s: %d", name, got)
			}
		}
		if len(service.came) != 0 {
			t.Errorf("the service heard %q", <-service.came)
		}
	})
}

// An answer is given when the right to it stands after it came: what was read by
// another right is not, what was changed is told (decision V15).
func TestAnswersThatComeTooLate(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":7,"result":{"x":1}}`
	read := `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:"}}`
	onBoth(t, func(t *testing.T, database string) {
		for name, c := range map[string]struct {
			body   string
			end    func(*house, approval.ID)
			status int
			want   string // part of the answer, as JSON
		}{
			"read, revoked":    {read, (*house).end, 401, "invalid_token"},
			"changed, revoked": {call("x"), (*house).end, 401, "invalid_token"},
			"read, narrowed":   {read, (*house).narrow, 503, "temporarily_unavailable"},
			"changed, still":   {call("x"), (*house).narrow, 200, answer},
			"read, the same":   {read, func(*house, approval.ID) {}, 200, answer},
		} {
			service := newWaiting("application/json")
			h := newHouseOn(t, database, service)
			database = "" // the others are not the engine's
			token, id := h.live("ada", everything)
			got := make(chan answered, 1)
			go func() { got <- h.send("POST", token, c.body) }()
			<-service.came
			c.end(h, id)
			service.say <- answer
			if a := <-got; a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
			}
		}
	})
}

// narrow takes some of what an approval allows.
func (h *house) narrow(id approval.ID) {
	h.t.Helper()
	now, err := h.store.Check(context.Background(), id)
	if err == nil {
		err = h.store.EditGrant(context.Background(), id, now.Approval.Person, now.Approval.Grant, grantset.Set{Kind: grantset.Roles, Personal: true}, act)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// The same in a stream that has begun: the answer is left out, or an error takes its
// place; what else comes a moment later passes.
func TestAnswersInStreams(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*house, approval.ID)
		want string
	}{
		"revoked":  {(*house).end, ""},
		"narrowed": {(*house).narrow, `data: {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"` + api.ErrChanged.Description + `"}}`},
	} {
		service := newWaiting("text/event-stream")
		h := newHouse(t, service)
		token, id := h.live("ada", everything)
		a := h.open(t.Context(), "POST", token, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:"}}`))
		from := bufio.NewReader(a.Body)
		service.say <- "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"
		if got := readLine(t, from) + readLine(t, from); !strings.Contains(got, "progress") {
			t.Errorf("%s: %q", name, got)
		}
		c.end(h, id)
		service.say <- "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"secret\":1}}\n\n"
		if c.want != "" {
			if got := readLine(t, from); got != c.want {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
	}
}

// An approval that ends cuts its silent streams, and nobody else's, and the service
// hears that they are over, on either engine (decision V15).
func TestStreamsEndWithTheirApproval(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		service := newWaiting("text/event-stream")
		h := newHouseOn(t, database, service, func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
		for n, end := range []func(approval.ID){h.end, h.narrow, func(approval.ID) {
			if err := h.store.RemoveMember(t.Context(), "nordlys", "tor", act); err != nil {
				t.Fatal(err)
			}
		}} {
			name := []string{"revoked", "narrowed", "removed"}[n]
			token, id := h.live("tor", everything)
			other, _ := h.live("ada", everything)
			listen := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{}}}`
			streams := []*http.Response{h.open(t.Context(), "GET", token, nil), h.open(t.Context(), "POST", token, strings.NewReader(listen))}
			stays := h.open(t.Context(), "GET", other, nil)
			for range 3 {
				<-service.came
			}
			end(id)
			for _, a := range streams {
				if rest, _ := io.ReadAll(a.Body); len(rest) > 0 {
					t.Errorf("%s: %q", name, rest)
				}
				<-service.gone
			}
			service.say <- "data: {}\n\n"
			if got := readLine(t, bufio.NewReader(stays.Body)); got != "data: {}" {
				t.Errorf("%s: the other stream: %q", name, got)
			}
			stays.Body.Close()
			<-service.gone
		}
		for h.proxy.Streams.Watched() {
			time.Sleep(time.Millisecond) // nobody asks any more once none is open
		}
	})
}

// A call whose approval ends is called off, and is 401 (decision V15), which does not say
// that nothing was changed by what the service may have done.
func TestCallsEndWithTheirApproval(t *testing.T) {
	service := newWaiting("application/json")
	h := newHouse(t, service, func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
	for message, want := range map[string]string{
		call("x"): "may have been done", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:b"}}`: "Nothing was changed",
	} {
		token, id := h.live("ada", everything)
		got := make(chan answered, 1)
		go func() { got <- h.send("POST", token, message) }()
		<-service.came
		h.end(id)
		<-service.gone
		if a := <-got; a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" || !strings.Contains(a.body, want) {
			t.Errorf("%d %s, want %q", a.StatusCode, a.body, want)
		}
	}
}

// A token that only expires ends a stream, and no call that began in time
// (decision V15).
func TestExpiryOfTheToken(t *testing.T) {
	service := newWaiting("text/event-stream")
	h := newHouse(t, service, func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
	token, _ := h.liveFor("ada", everything, 2*time.Second)
	listens := h.open(t.Context(), "GET", token, nil)
	calls := h.open(t.Context(), "POST", token, strings.NewReader(call("x")))
	if rest, _ := io.ReadAll(listens.Body); len(rest) > 0 {
		t.Errorf("the stream: %q", rest)
	}
	if a := h.send("GET", token, ""); a.StatusCode != 401 {
		t.Errorf("a new one: %d", a.StatusCode)
	}
	service.say <- "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"
	if got := readLine(t, bufio.NewReader(calls.Body)); got != `data: {"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("the call: %q", got)
	}
}

// A client that reads nothing keeps no stream open after its approval (decision V15).
func TestStreamsThatNobodyReads(t *testing.T) {
	gone := make(chan struct{})
	var sent atomic.Int64
	h := newHouse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 1<<16)); err != nil {
				return
			}
			sent.Add(1)
		}
	}), func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
	token, id := h.live("ada", everything)
	a := h.open(t.Context(), "GET", token, nil)
	for last := int64(-1); last != sent.Load(); time.Sleep(200 * time.Millisecond) {
		last = sent.Load()
	}
	h.end(id)
	<-gone
	if n, err := io.Copy(io.Discard, a.Body); n >= sent.Load()<<16 && err == nil {
		t.Error("what was on its way came all the same")
	}
}

// So many requests are under way at once, of one approval and of all (decision V15).
func TestBoundsOfStreams(t *testing.T) {
	const more = 12 // which leaves 8 of 84 to other organizations
	service := newWaiting("text/event-stream")
	h := newHouse(t, service, func(h *house) { h.proxy.Streams.Most = MaxOfOne + more + 8 })
	token, _ := h.live("ada", everything)
	other, _ := h.live("ada", everything)
	ctx, cancel := context.WithCancel(t.Context())
	for range MaxOfOne {
		if a := h.open(ctx, "GET", token, nil); a.StatusCode != 200 {
			t.Fatal(a.StatusCode)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		if a := h.send(method, token, call("x")); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: one more: %d %s", method, a.StatusCode, a.body)
		}
	}
	for range more {
		if a := h.open(ctx, "GET", other, nil); a.StatusCode != 200 {
			t.Fatal(a.StatusCode)
		}
	}
	if a := h.send("GET", other, ""); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("one more of all: %d %s", a.StatusCode, a.body)
	}
	cancel()
	for range MaxOfOne + more {
		<-service.gone
	}
	for {
		if a := h.open(t.Context(), "GET", token, nil); a.StatusCode == 200 {
			break // each is counted out when the proxy has seen its end
		}
	}
	for most, want := range map[int][2]int{0: {MaxStreams, MaxOfOne}, 1: {1, 4}, 100: {100, 25}, 1 << 20: {1 << 20, MaxOfOne}} { // nobody shuts all others out
		if s := NewStreams(h.api, most, 0); s.Most != want[0] || s.OfOne != want[1] {
			t.Errorf("of %d: %d, and %d of one", most, s.Most, s.OfOne)
		}
	}
}

// Bodies of which the call is under way are in memory: so much of one approval, and what is
// beyond is refused while it is read (decision V15).
func TestBoundsOfBodies(t *testing.T) {
	const most = 1000
	service := newWaiting("application/json")
	h := newHouse(t, service, func(h *house) {
		h.proxy.MaxBody, h.proxy.Streams = most, NewStreams(h.api, 0, most)
		h.proxy.Streams.Every = time.Millisecond
	})
	token, _ := h.live("ada", everything)
	other, _ := h.live("ada", everything)
	long := call("x") + strings.Repeat(" ", most-len(call("x")))
	var over sync.WaitGroup
	begin := func(token string) {
		over.Go(func() {
			if a := h.send("POST", token, long); a.StatusCode != 200 {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
		<-service.came
	}
	for range heldOfOne {
		begin(token)
	}
	if a := h.send("POST", token, call("x")); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d %s", a.StatusCode, a.body)
	}
	begin(other)
	for range heldOfOne + 1 {
		service.say <- `{"jsonrpc":"2.0","id":1,"result":{}}`
	}
	over.Wait()
	for h.proxy.Streams.Watched() {
		time.Sleep(time.Millisecond)
	}
	begin(token)
	service.say <- `{"jsonrpc":"2.0","id":1,"result":{}}`
	over.Wait()
}

// A server that stops ends the streams that would never end, and lets calls finish
// (decision V15).
func TestDrain(t *testing.T) {
	service := newWaiting("text/event-stream")
	h := newHouse(t, service)
	token, _ := h.live("ada", everything)
	listens := h.open(t.Context(), "GET", token, nil)
	calls := h.open(t.Context(), "POST", token, strings.NewReader(call("x")))
	h.proxy.Drain()
	if rest, _ := io.ReadAll(listens.Body); len(rest) > 0 {
		t.Errorf("%q", rest)
	}
	if a := h.send("GET", token, ""); a.StatusCode != 503 {
		t.Errorf("a new one: %d %s", a.StatusCode, a.body)
	}
	service.say <- "data: {}\n\n"
	if got := readLine(t, bufio.NewReader(calls.Body)); got != "data: {}" {
		t.Errorf("the call: %q", got)
	}
}

// Nothing is left of requests that are over.
func TestNothingIsLeftOfStreams(t *testing.T) {
	service := newWaiting("text/event-stream")
	h := newHouse(t, service, func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
	token, _ := h.live("ada", everything)
	before := 0
	for round := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		for range 30 {
			h.open(ctx, "GET", token, nil)
			<-service.came
		}
		cancel()
		for range 30 {
			<-service.gone
		}
		for h.proxy.Streams.Watched() {
			time.Sleep(time.Millisecond)
		}
		if round == 0 {
			before = runtime.NumGoroutine()
		}
	}
	for runtime.NumGoroutine() > before+10 { // connections that wait for use
		time.Sleep(time.Millisecond)
	}
}

// While the database is away no event passes, and a stream that is silent stays: its
// client would find nothing better elsewhere.
func TestStreamsWithoutTheDatabase(t *testing.T) {
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	name, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	service := newWaiting("text/event-stream")
	h := newHouseOn(t, pg.URL(name), service, func(h *house) { h.proxy.Streams.Every = 10 * time.Millisecond })
	token, _ := h.live("ada", everything)
	a := h.open(t.Context(), "GET", token, nil)
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	service.say <- "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"secret\":1}}\n\n"
	if rest, _ := io.ReadAll(a.Body); bytes.Contains(rest, []byte("secret")) {
		t.Errorf("%q", rest)
	}
}
