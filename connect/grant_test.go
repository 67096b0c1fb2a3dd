package connect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// connected is a grant that was approved.
func connected(t *testing.T, f *fake) (*grant, Options) {
	t.Helper()
	o := f.options(t, approves(f))
	if was, err := SignIn(t.Context(), o); err != nil || was {
		t.Fatal(was, err)
	}
	g, err := newGrant(o)
	if err != nil {
		t.Fatal(err)
	}
	return g, o
}

func kept(t *testing.T, o Options) (r record) {
	t.Helper()
	text, err := os.ReadFile(o.Store)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// changed writes a record as a program that was cut off left it.
func changed(t *testing.T, o Options, change func(*record)) {
	t.Helper()
	r := kept(t, o)
	change(&r)
	if err := (store{o.Store}).write(r); err != nil {
		t.Fatal(err)
	}
}

func TestSignIn(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	if at, err := os.Stat(o.Store); err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("kept with %v: %v", at.Mode(), err)
	}
	if token, err := g.token(t.Context(), ""); err != nil || token != "access-1" {
		t.Fatal(token, err)
	}
	if r := kept(t, o); r.Pending != nil || r.Sent || r.Refresh != "refresh-1" {
		t.Errorf("%+v", r)
	}
	if said := o.Err.(*servertest.Buffer).String(); strings.Contains(said, "access-1") || strings.Contains(said, "refresh-1") {
		t.Errorf("a token is told: %s", said)
	}
	if was, err := SignIn(t.Context(), o); err != nil || !was {
		t.Error("it is approved twice", was, err)
	}
	if was, err := SignOut(t.Context(), o); err != nil || !was || f.count("/revoke") != 1 || kept(t, o).Refresh != "" {
		t.Error("signed out:", was, err, f.count("/revoke"))
	}
	if was, err := SignOut(t.Context(), o); err != nil || was {
		t.Error("signed out twice:", was, err)
	}
}

// All copies on a machine refresh once between them, however they come upon it.
func TestOneRefresh(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	changed(t, o, func(r *record) { r.Expires = time.Now().Unix() })
	var all sync.WaitGroup
	for range 8 {
		g, err := newGrant(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			all.Go(func() {
				if token, err := g.token(context.Background(), ""); err != nil || token != "access-2" {
					t.Error(token, err)
				}
			})
		}
	}
	all.Wait()
	if n := f.count("refresh_token"); n != 1 || f.reused != 0 {
		t.Errorf("%d refreshes, %d reused", n, f.reused)
	}
	// So when a token is refused that has not expired.
	for range 8 {
		g, _ := newGrant(o)
		all.Go(func() {
			if token, err := g.token(context.Background(), "access-2"); err != nil || token != "access-3" {
				t.Error(token, err)
			}
		})
	}
	all.Wait()
	if n := f.count("refresh_token"); n != 2 || f.reused != 0 {
		t.Errorf("%d refreshes, %d reused", n, f.reused)
	}
}

// A request that is called off loses no answer to a refresh.
func TestRefreshIsNotCalledOff(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	changed(t, o, func(r *record) { r.Expires = 0 })
	ctx, cancel := context.WithCancel(t.Context())
	f.answers("/token", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		f.asIs(w, r)
	})
	if token, err := g.token(ctx, ""); err != nil || token != "access-2" {
		t.Error(token, err)
	}
	if r := kept(t, o); r.Refresh != "refresh-2" || r.Sent {
		t.Errorf("%+v", r)
	}
}

// What was cut off between sending a refresh token and keeping the answer is not sent
// again: that would be theft to the server. The person approves again, and the server
// lists nothing that nobody has.
func TestCutOffWhileRefreshing(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	changed(t, o, func(r *record) { r.Expires, r.Sent = 0, true })
	_, err := g.token(t.Context(), "")
	why, needed := needsApproval(err)
	if !needed || !strings.Contains(why, "cut off") || f.count("refresh_token") != 0 || f.reused != 0 || f.count("/revoke") != 1 {
		t.Errorf("%v, %d refreshes", err, f.count("refresh_token"))
	}
	if r := kept(t, o); r.Refresh != "" || r.Access != "" || r.Sent {
		t.Errorf("%+v", r)
	}
	// Until the access token ends, the record is good all the same.
	_, o = connected(t, f)
	changed(t, o, func(r *record) { r.Sent = true })
	if g, _ := newGrant(o); g != nil {
		if token, err := g.token(t.Context(), ""); err != nil || token == "" {
			t.Error(token, err)
		}
	}
}

// What could not be revoked is revoked later, by a start, a request or a sign-out: nobody
// else has its token.
func TestRevokedLater(t *testing.T) {
	for name, again := range map[string]func(*grant, Options) error{
		"a start":  func(_ *grant, o Options) error { g, err := newGrant(o); g.token(t.Context(), ""); return err },
		"a minute": func(g *grant, _ Options) error { g.settled = time.Time{}; g.token(t.Context(), ""); return nil },
		"--sign-out": func(_ *grant, o Options) error {
			was, err := SignOut(t.Context(), o)
			if err == nil && !was {
				err = errors.New("nothing was there")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			g, o := connected(t, f)
			changed(t, o, func(r *record) { r.Expires = 0 })
			down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }
			f.answers("/token", down)
			f.answers("/revoke", down)
			for range 3 {
				if _, err := g.token(t.Context(), ""); err == nil {
					t.Error("there is a token")
				}
			}
			if r := kept(t, o); len(r.Owed) != 1 || r.Owed[0] != "refresh-1" || r.Refresh != "" || f.count("/revoke") != 1 {
				t.Fatalf("%+v, asked %d times", r, f.count("/revoke"))
			}
			f.answers("/token", nil)
			f.answers("/revoke", nil)
			if err := again(g, o); err != nil {
				t.Error(err)
			}
			if r := kept(t, o); len(r.Owed) != 0 || f.refresh != "" || f.reused != 0 {
				t.Errorf("%+v, alive: %v", r, f.refresh != "")
			}
		})
	}
	// A sign-out that the server does not hear is an error, and not forgotten either.
	f := newFake(t)
	_, o := connected(t, f)
	f.answers("/revoke", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	if _, err := SignOut(t.Context(), o); err == nil || kept(t, o).Refresh != "" || len(kept(t, o).Owed) != 1 {
		t.Errorf("%v %+v", err, kept(t, o))
	}
	f.answers("/revoke", nil)
	if was, err := SignIn(t.Context(), o); err != nil || was || len(kept(t, o).Owed) != 0 || kept(t, o).Refresh == "" {
		t.Errorf("%v %+v", err, kept(t, o))
	}
	var r record
	for i := range 20 {
		r.Refresh = strings.Repeat("r", i+1)
		r.lose("", true)
	}
	if len(r.Owed) != mostOwed || len(r.Owed[mostOwed-1]) != 20 {
		t.Errorf("%v", r.Owed)
	}
}

// Who has waited for the lock has as long for the answer as anybody.
func TestWaitingTakesNoTime(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	unlock, ok, err := tryLock(o.Store + ".lock")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	freed := make(chan time.Time, 1)
	time.AfterFunc(time.Second, func() { freed <- time.Now(); unlock() })
	err = g.locked(t.Context(), func(ctx context.Context, _ record) error {
		until, _ := ctx.Deadline()
		if has := until.Sub(<-freed); has < 45*time.Second {
			t.Errorf("it has %s after the lock was free", has)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnswersToARefresh(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  http.HandlerFunc
		says    string
		sent    int  // how often the token is sent, with one more try
		approve bool // the person has to
	}{
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			says(w, 503, map[string]any{"error": "temporarily_unavailable"})
		}, "cannot answer now", 2, false},
		{"done or not", func(w http.ResponseWriter, _ *http.Request) { // the connection to its database broke at the commit
			w.Header().Set("Retry-After", "7")
			says(w, 503, map[string]any{"error": "temporarily_unavailable", "outcome": "unknown"})
		}, "was lost", 1, true},
		{"too many", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "cannot answer now", 2, false},
		{"ended", func(w http.ResponseWriter, _ *http.Request) { says(w, 400, map[string]any{"error": "invalid_grant"}) }, "has ended", 1, true},
		{"switched off", func(w http.ResponseWriter, _ *http.Request) { says(w, 401, map[string]any{"error": "invalid_client"}) }, "no longer lets", 1, true},
		{"a proxy's fault", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "was lost", 1, true},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "was lost", 1, true},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, "was lost", 1, true},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) { says(w, 200, map[string]any{"access_token": "x"}) }, "was lost", 1, true},
		{"sent elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		}, "was lost", 1, true},
		{"a member twice", func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"access_token":"a","access_token":"b","refresh_token":"c"}`))
		}, "was lost", 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			g, o := connected(t, f)
			before := f.count("/token")
			changed(t, o, func(r *record) { r.Expires = 0 })
			f.answers("/token", tt.answer)
			for range 2 {
				_, err := g.token(t.Context(), "")
				if _, needed := needsApproval(err); err == nil || !strings.Contains(err.Error(), tt.says) || needed != tt.approve {
					t.Errorf("%v", err)
				}
			}
			if n := f.count("/token") - before; n != tt.sent || f.count("/else") != 0 {
				t.Errorf("sent %d times", n)
			}
			if !tt.approve {
				f.answers("/token", nil)
				if token, err := g.token(t.Context(), ""); err != nil || token != "access-2" {
					t.Error(token, err)
				}
			}
		})
	}
}

// What has not left the machine can be sent again.
func TestRefreshOffline(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	closed := httptest.NewServer(nil)
	closed.Close()
	changed(t, o, func(r *record) { r.Expires, r.Server.Token = 0, closed.URL+"/token" })
	if _, err := g.token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Error(err)
	}
	changed(t, o, func(r *record) { r.Server.Token = f.URL + "/token" })
	if token, err := g.token(t.Context(), ""); err != nil || token != "access-2" {
		t.Error(token, err)
	}
}

// Where the answer cannot be written it is of use all the same, and what is kept does not
// claim that the token before is good.
func TestNothingCanBeWritten(t *testing.T) {
	f := newFake(t)
	g, o := connected(t, f)
	changed(t, o, func(r *record) { r.Expires = 0 })
	f.answers("/token", func(w http.ResponseWriter, r *http.Request) {
		os.Rename(filepath.Dir(o.Store), filepath.Dir(o.Store)+"-away")
		f.asIs(w, r)
	})
	if token, err := g.token(t.Context(), ""); err != nil || token != "access-2" {
		t.Error(token, err)
	}
	if !strings.Contains(o.Err.(*servertest.Buffer).String(), "cannot be kept") {
		t.Error("nobody is told")
	}
	if err := os.Rename(filepath.Dir(o.Store)+"-away", filepath.Dir(o.Store)); err != nil {
		t.Fatal(err)
	}
	if r := kept(t, o); !r.Sent {
		t.Errorf("%+v", r)
	}
}

func TestKeptForOneself(t *testing.T) {
	f := newFake(t)
	_, o := connected(t, f)
	for _, tt := range []struct {
		says  string
		spoil func()
	}{
		{"can be read by other users", func() { os.Chmod(o.Store, 0o640) }},
		{"can be read by other users", func() { os.Chmod(o.Store, 0o602) }},
		{"is of", func() { os.Chmod(o.Store, 0o600); o.URL = f.URL + "/other" }},
		{"not one JSON value", func() { o.URL = f.URL + "/mcp"; os.WriteFile(o.Store, []byte("{"), 0o600) }},
		{"not a plain file", func() { os.Remove(o.Store); os.Symlink("/dev/null", o.Store) }},
	} {
		tt.spoil()
		g, err := newGrant(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("want %q: %v", tt.says, err)
		}
	}
	dir, _ := os.ReadDir(filepath.Dir(o.Store))
	for _, file := range dir {
		if i, err := file.Info(); err == nil && i.Mode().IsRegular() && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has %v", file.Name(), i.Mode())
		}
	}
}

// Several copies open one browser, and all of them are connected by it.
func TestOneBrowser(t *testing.T) {
	f := newFake(t)
	var mu sync.Mutex
	var opened []string
	o := f.options(t, func(address string) error {
		mu.Lock()
		defer mu.Unlock()
		opened = append(opened, address)
		return nil
	})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := SignIn(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		n := len(opened)
		mu.Unlock()
		if n > 0 {
			break
		}
	}
	time.Sleep(500 * time.Millisecond) // others would by now
	mu.Lock()
	address := opened[0]
	mu.Unlock()
	r, err := f.person(address, url.Values{"code": {"code-1"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	all.Wait()
	if len(opened) != 1 || f.count("authorization_code") != 1 {
		t.Errorf("%d browsers, %d exchanges", len(opened), f.count("authorization_code"))
	}
}

// An assistant starts a copy, ends it while the person is in the browser, and starts
// another: that one takes the answer at the same port, and opens nothing. Somebody else on
// this machine may have taken the port meanwhile, but not each time.
func TestAnotherCopyGoesOn(t *testing.T) {
	for tries := 1; !anotherCopyGoesOn(t); tries++ {
		if tries == 5 {
			t.Fatal("each time another browser is opened")
		}
	}
}

// anotherCopyGoesOn reports false when the second copy opens a browser of its own.
func anotherCopyGoesOn(t *testing.T) bool {
	f := newFake(t)
	opened := make(chan string, 9)
	o := f.options(t, func(address string) error { opened <- address; return nil })
	first, err := newGrant(o)
	if err != nil {
		t.Fatal(err)
	}
	// The first copy as it is after it was killed: the record, and neither locks nor port.
	l, _, err := first.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.close()
	address := <-opened
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := SignIn(ctx, o)
		done <- err
	}()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if r, err := f.person(address, url.Values{"code": {"code-1"}}); err == nil {
			r.Body.Close()
			break
		} else if len(opened) > 0 {
			cancel()
			<-done
			return false
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(opened) != 0 || kept(t, o).Refresh == "" {
		t.Errorf("%d more browsers", len(opened))
	}
	return true
}

// A copy is killed while it exchanges the code: the next one sends no code that comes
// there once more, which would end what was approved, and has the person approve anew.
func TestCutOffWithTheCode(t *testing.T) {
	f := newFake(t)
	o := f.options(t, approves(f))
	o.NoBrowser = true
	g, err := newGrant(o)
	if err != nil {
		t.Fatal(err)
	}
	l, r, err := g.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var left []byte // on disk while the code is under way
	f.answers("/token", func(w http.ResponseWriter, _ *http.Request) {
		left, _ = os.ReadFile(o.Store)
		w.WriteHeader(502)
	})
	if _, err := g.answered(t.Context(), l, r.Server, arrived{code: "code-1"}); err == nil {
		t.Fatal("it is connected")
	}
	l.close()
	f.answers("/token", nil)
	if err := os.WriteFile(o.Store, left, 0o600); err != nil {
		t.Fatal(err)
	}
	if l := g.resume(kept(t, o)); l != nil {
		l.close()
		t.Fatal("it waits for the same code")
	}
	o.NoBrowser = false
	if g, err = newGrant(o); err != nil {
		t.Fatal(err)
	}
	a := g.begin(quietAtStart)
	<-a.done
	if a.err != nil || f.count("/token") != 2 || f.count("/oauth/desktop") != 2 || kept(t, o).Refresh == "" {
		t.Errorf("%v, %d exchanges, %d requests", a.err, f.count("/token"), f.count("/oauth/desktop"))
	}
}

// A program that is ended while it exchanges the code keeps what it gives: the server would
// list an access that nobody has.
func TestEndedWithTheCode(t *testing.T) {
	for _, serves := range []bool{false, true} {
		f := newFake(t)
		o := f.options(t, approves(f))
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		f.answers("/token", func(w http.ResponseWriter, r *http.Request) {
			end()
			select {
			case <-ended:
			case <-time.After(300 * time.Millisecond):
			}
			f.asIs(w, r)
		})
		var err error
		if serves {
			in, assistant := io.Pipe()
			defer assistant.Close()
			o.In, o.Out = in, io.Discard
			go func() { _, _ = io.WriteString(assistant, hello+"\n") }()
			err = Serve(ctx, o)
		} else {
			_, err = SignIn(ctx, o)
		}
		ended <- err
		if r := kept(t, o); err != nil || r.Refresh != "refresh-1" || r.Pending != nil {
			t.Errorf("serves %t: %v, %+v", serves, err, r)
		}
		late, err := newGrant(o)
		if err != nil {
			t.Fatal(err)
		}
		late.close()
		if _, err := late.exchange(t.Context(), nil, server{}, "code"); err != errEnds {
			t.Errorf("a code is sent by a program that ends: %v", err)
		}
	}
}

// A clock that was ahead when a browser was opened shuts nobody out.
func TestClockWasAhead(t *testing.T) {
	ahead := time.Now().Add(48 * time.Hour).Unix()
	for name, change := range map[string]func(*record){
		"opened":  func(r *record) { r.Opened, r.Pending = ahead, nil },
		"pending": func(r *record) { r.Opened, r.Pending.Until = ahead, ahead },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			o := f.options(t, approves(f))
			silent := o
			silent.NoBrowser = true
			g, _ := newGrant(silent)
			l, _, err := g.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.close()
			changed(t, o, change)
			if g, err = newGrant(o); err != nil {
				t.Fatal(err)
			}
			a := g.begin(quietInCalls)
			select {
			case <-a.done:
				if a.err != nil {
					t.Error(a.err)
				}
			case <-time.After(time.Minute):
				t.Error("it waits where nobody comes any more")
			}
		})
	}
	if (missing{}).Error() == "" {
		t.Error("an error says nothing")
	}
}

// No window for each call: who has said no is not asked again at once.
func TestPersonSaysNo(t *testing.T) {
	f := newFake(t)
	n := 0
	o := f.options(t, nil)
	o.Open = func(address string) error {
		n++
		go f.person(address, url.Values{"error": {"access_denied"}})
		return nil
	}
	g, err := newGrant(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		a := g.begin(quietAtStart)
		<-a.done
		if why, needed := needsApproval(a.err); !needed || why != "the person did not approve" {
			t.Error(a.err)
		}
	}
	if n != 1 {
		t.Errorf("%d browsers", n)
	}
	changed(t, o, func(r *record) { r.Opened -= int64(quietAtStart.Seconds()) })
	if <-g.begin(quietInCalls).done; n != 1 {
		t.Errorf("%d browsers", n)
	}
	if <-g.begin(quietAtStart).done; n != 2 {
		t.Errorf("%d browsers", n)
	}
	if _, err := SignIn(t.Context(), o); err == nil || n != 3 { // who asks for it is asked
		t.Error(n, err)
	}
}

// A code that is another request's is none, whoever brings it with the right state.
func TestWrongCode(t *testing.T) {
	f := newFake(t)
	o := f.options(t, func(address string) error {
		go func() {
			f.person(address, url.Values{"code": {"theirs"}})
		}()
		return nil
	})
	f.answers("/token", func(w http.ResponseWriter, r *http.Request) { says(w, 400, map[string]any{"error": "invalid_grant"}) })
	if _, err := SignIn(t.Context(), o); err == nil || !strings.Contains(err.Error(), "does not give access") {
		t.Error(err)
	}
	if kept(t, o).Refresh != "" {
		t.Error("something is kept")
	}
}

func TestDiscoveryRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		answer     http.HandlerFunc
		says       string
	}{
		{"no endpoint", "/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "does not say how to get access"},
		{"no challenge", "/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "does not say how to get access"},
		{"a redirect", "/mcp", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusFound)
		}, "does not say how to get access"},
		{"metadata elsewhere", "/mcp", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://evil.example/x"`)
			w.WriteHeader(401)
		}, "sends elsewhere"},
		{"another resource", "/resource", func(w http.ResponseWriter, _ *http.Request) {
			says(w, 200, map[string]any{"resource": "https://evil.example/mcp", "authorization_servers": []string{"https://evil.example"}})
		}, "says that it is"},
		{"a page", "/resource", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, "not one JSON value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.answers(tt.path, tt.answer)
			o := f.options(t, func(string) error { t.Error("a browser is opened"); return nil })
			if _, err := SignIn(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Error(err)
			}
		})
	}
	for name, change := range map[string]func(f *fake, m map[string]any){
		"another authorization server of the resource": nil,
		"another issuer":        func(_ *fake, m map[string]any) { m["issuer"] = "https://evil.example" },
		"tokens sent elsewhere": func(_ *fake, m map[string]any) { m["token_endpoint"] = "https://evil.example/token" },
		"a browser elsewhere":   func(_ *fake, m map[string]any) { m["authorization_endpoint"] = "https://evil.example/a" },
		"a terminal's control": func(f *fake, m map[string]any) {
			m["authorization_endpoint"] = f.URL + "/a\x1b]0;owned\a\r\nnot from grantkeeper"
		},
		"a space":                func(f *fake, m map[string]any) { m["token_endpoint"] = f.URL + "/token x" },
		"a query":                func(f *fake, m map[string]any) { m["authorization_endpoint"] = f.URL + "/a?client_id=another" },
		"a host that begins so":  func(f *fake, m map[string]any) { m["token_endpoint"] = f.URL + ".evil.example/token" },
		"asks elsewhere":         func(_ *fake, m map[string]any) { m["grantkeeper_desktop_endpoint"] = "http://127.0.0.1:1/" },
		"no desktop assistants":  func(_ *fake, m map[string]any) { delete(m, "grantkeeper_desktop_endpoint") },
		"revocation that is not": func(_ *fake, m map[string]any) { delete(m, "revocation_endpoint") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			if change == nil {
				f.answers("/resource", func(w http.ResponseWriter, _ *http.Request) {
					says(w, 200, map[string]any{"resource": f.URL + "/mcp", "authorization_servers": []string{"https://evil.example"}})
				})
			} else {
				f.answers("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
					recorded := httptest.NewRecorder()
					f.asIs(recorded, r)
					var m map[string]any
					json.Unmarshal(recorded.Body.Bytes(), &m)
					change(f, m)
					says(w, 200, m)
				})
			}
			o := f.options(t, func(string) error { t.Error("a browser is opened"); return nil })
			_, err := SignIn(t.Context(), o)
			if err == nil {
				t.Fatal("it goes on")
			}
			if name == "no desktop assistants" && !strings.Contains(Words(err), "does not let assistants on a person's own computer connect this way (its operator can allow it: clients.desktop = true)") {
				t.Error(Words(err))
			}
		})
	}
}

// Whatever a server says, it stays on its line.
func TestTerminalStaysItsOwn(t *testing.T) {
	for path, answer := range map[string]http.HandlerFunc{
		"/resource": func(w http.ResponseWriter, _ *http.Request) {
			says(w, 200, map[string]any{"resource": "\x1b[2J\u202e\nconnected"})
		},
		"/oauth/desktop": func(w http.ResponseWriter, _ *http.Request) {
			says(w, 400, map[string]any{"error": "invalid_request", "error_description": "\x1b[2J\u202e\nconnected" + strings.Repeat("x", 9000)})
		},
		"/token": func(w http.ResponseWriter, _ *http.Request) {
			says(w, 400, map[string]any{"error": "\x1b[2J\u202e\nconnected"})
		},
	} {
		f := newFake(t)
		f.answers(path, answer)
		o := f.options(t, approves(f))
		_, err := SignIn(t.Context(), o)
		if err == nil {
			t.Fatalf("%s: it is connected", path)
		}
		said := Words(err) + o.Err.(*servertest.Buffer).String()
		if strings.ContainsAny(said, "\x1b\u202e") || strings.Contains(said, "\nconnected") || len(said) > 4000 {
			t.Errorf("%s: %q", path, said)
		}
	}
	var b servertest.Buffer
	say(&b, "%s: %v\n%s", "a\x1b", errors.New("b\nc"), "d")
	if b.String() != "grantkeeper connect: a : b c\nd\n" {
		t.Errorf("%q", b.String())
	}
}

func TestListener(t *testing.T) {
	l, err := listen(pending{Path: newSecret(), Start: newSecret(), Cookie: newSecret(), Address: "https://app.example/authorize"}, "https://app.example")
	if err != nil {
		t.Fatal(err)
	}
	l.serve("the.state")
	at := "http://" + l.on.Addr().String()
	good := url.Values{"code": {"c"}, "state": {"the.state"}, "iss": {"https://app.example"}}
	with := func(changes ...string) string {
		q := url.Values{}
		maps.Copy(q, good)
		for i := 0; i < len(changes); i += 2 {
			if q.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				q.Del(changes[i])
			}
		}
		return "/" + l.pending.Path + "?" + q.Encode()
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	cookie := cookieName + "=" + l.pending.Cookie
	send := func(method, path, host string, headers ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(method, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if r.Host = l.on.Addr().String(); host != "" {
			r.Host = host
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer
	}
	for _, tt := range []struct {
		name, method, path, host string
		status                   int
	}{
		{"another path", "GET", "/callback?" + good.Encode(), "", 404},
		{"the root", "GET", "/?" + good.Encode(), "", 404},
		{"a name that leads here", "GET", with(), "rebound.example", 421},
		{"localhost", "GET", with(), "localhost:" + strings.Split(l.on.Addr().String(), ":")[1], 421},
		{"a form", "POST", with(), "", 405},
		{"HEAD", "HEAD", with(), "", 405},
		{"another state", "GET", with("state", "x"), "", 400},
		{"no state", "GET", with("state", ""), "", 400},
		{"another issuer", "GET", with("iss", "https://evil.example"), "", 400},
		{"no issuer", "GET", with("iss", ""), "", 400},
		{"code and error", "GET", with("error", "access_denied"), "", 400},
		{"neither", "GET", with("code", ""), "", 400},
		{"two codes", "GET", with() + "&code=d", "", 400},
	} {
		if a := send(tt.method, tt.path, tt.host); a.StatusCode != tt.status {
			t.Errorf("%s: %d", tt.name, a.StatusCode)
		}
	}
	for _, headers := range [][]string{
		{"Cookie", ""}, // another browser, which somebody's link leads here
		{"Cookie", cookieName + "=" + newSecret()},
		{"Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Dest", "iframe", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "cors"},
	} {
		for _, path := range []string{with(), "/" + l.pending.Path} {
			if a := send("GET", path, "", headers...); a.StatusCode != 403 {
				t.Errorf("%v: %d", headers, a.StatusCode)
			}
		}
	}
	select {
	case got := <-l.answers:
		t.Fatalf("it takes %+v", got)
	default:
	}
	a := send("GET", with(), "", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != 303 || a.Header.Get("Location") != "/"+l.pending.Path || a.Header.Get("Referrer-Policy") != "no-referrer" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if got := <-l.answers; got.code != "c" {
		t.Errorf("%+v", got)
	}
	send("GET", with("code", "second"), "")
	select {
	case got := <-l.answers:
		t.Errorf("it takes another one: %+v", got)
	default:
	}
	go l.finish("<Connected>.")
	ask, err := http.NewRequest("GET", at+"/"+l.pending.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Cookie", cookie)
	r, err := c.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	n, _ := r.Body.Read(page)
	r.Body.Close()
	if !strings.Contains(string(page[:n]), "&lt;Connected&gt;.") || !strings.Contains(string(page[:n]), "You can close this window") {
		t.Errorf("%s", page[:n])
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := http.Get(at); err != nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it is never closed")
		}
	}
}

// The address that is opened is good for one browser. Whoever comes second is told, and
// nothing is connected.
func TestStartsOnce(t *testing.T) {
	f := newFake(t)
	o := f.options(t, nil)
	g, err := newGrant(o)
	if err != nil {
		t.Fatal(err)
	}
	l, r, err := g.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var at *url.URL
	for range 2 { // the same browser may come back
		a, err := f.browser.Get(l.pending.start())
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if at, err = a.Location(); err != nil || a.StatusCode != 303 || at.String() != l.pending.Address || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Fatalf("%v %d %v", err, a.StatusCode, a.Header)
		}
		for _, c := range a.Cookies() {
			if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/"+l.pending.Path || c.Value == l.pending.Path || c.MaxAge > 600 {
				t.Errorf("%+v", c)
			}
		}
	}
	if !kept(t, o).Pending.Started {
		t.Error("another copy would let a second browser begin")
	}
	l.close()
	resumed := g.resume(kept(t, o)) // which goes by the record alone
	if resumed == nil {
		t.Fatal("it is not gone on with")
	}
	second := newBrowser(t)
	a, err := second.Get(resumed.pending.start())
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(a.Body)
	a.Body.Close()
	if a.StatusCode != 410 || !strings.Contains(string(page), "was opened already") || len(a.Cookies()) != 0 || strings.Contains(string(page), "authorize") {
		t.Fatalf("%d %s", a.StatusCode, page)
	}
	got := <-resumed.answers
	go f.browser.Get(f.brings(at, url.Values{"code": {"too-late"}}))
	if _, err := g.answered(t.Context(), resumed, r.Server, got); err == nil || !strings.Contains(err.Error(), "two browsers") {
		t.Error(err)
	}
	resumed.close()
	if f.count("/token") != 0 || kept(t, o).Pending != nil || !strings.Contains(o.Err.(*servertest.Buffer).String(), "two browsers") {
		t.Errorf("%+v %s", kept(t, o), o.Err)
	}
}

// Whose access it is, is said where the person and the assistant see it.
func TestSaysWho(t *testing.T) {
	f := newFake(t)
	page := make(chan string, 1)
	o := f.options(t, nil)
	o.Open = func(address string) error {
		go func() {
			if r, err := f.person(address, url.Values{"code": {newSecret()}}); err == nil {
				text, _ := io.ReadAll(r.Body)
				r.Body.Close()
				page <- string(text)
			}
		}()
		return nil
	}
	if _, err := SignIn(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	const who = "Connected as Ada Berg, in Nordlys."
	if text := <-page; !strings.Contains(text, who) || !strings.Contains(o.Err.(*servertest.Buffer).String(), who) || kept(t, o).Who != "Ada Berg, in Nordlys" {
		t.Errorf("%s\n%s", text, o.Err)
	}
	s := kept(t, o).Server
	for _, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) },
		func(w http.ResponseWriter, _ *http.Request) { says(w, 200, map[string]any{"person": "ada"}) },
	} {
		f.answers("/api/v5/me", answer)
		if who := s.who(t.Context(), newSecretHTTP(), "access-1"); who != "" || f.count("/else") != 0 {
			t.Errorf("%q", who)
		}
	}
	f.answers("/api/v5/me", func(w http.ResponseWriter, _ *http.Request) {
		says(w, 200, map[string]any{"person": map[string]any{"id": "p"}, "organization": map[string]any{"name": "N\x1b[2J\n" + strings.Repeat("x", 500)}})
	})
	if who := s.who(t.Context(), newSecretHTTP(), "access-1"); !strings.HasPrefix(who, "p, in N [2J x") || len(who) > 150 {
		t.Errorf("%q", who)
	}
}

func TestQuietsAndLifetimes(t *testing.T) {
	if quietInCalls < client.HandoverLifetime {
		t.Error("a call opens a browser while another page is good")
	}
}
