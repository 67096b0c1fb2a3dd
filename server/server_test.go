package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/server/servertest"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// started is a server of a good configuration as change leaves it, asked at base,
// until the test ends.
func started(t *testing.T, change func(*config.Config)) (s *Server, base string, log *servertest.Buffer) {
	t.Helper()
	l := good(t)
	address := freePort(t)
	l.BaseURLs = []string{"http://" + address}
	l.HTTP.Listen, l.Operator.Listen, l.Gateway.Listen = address, "off", "off"
	l.Config.Database.URL = "sqlite://" + filepath.Join(t.TempDir(), "test.db")
	change(&l.Config)
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	log = &servertest.Buffer{}
	s, err = Start(t.Context(), checked, Options{File: "test.toml", Log: slog.New(slog.NewJSONHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, l.BaseURLs[0], log
}

// goroutines are those of this process.
func goroutines() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// The bound of approvals is the pages' and the store's: without an end date nothing is
// approved.
func TestBoundOfApprovals(t *testing.T) {
	s, _, _ := started(t, func(c *config.Config) { c.Approvals.MaxDays = 30 })
	if s.page.MaxDays != 30 {
		t.Errorf("pages: %d days", s.page.MaxDays)
	}
	act := store.Act{Actor: "system"}
	c := client.Client{ID: "c", Name: "C", RedirectURIs: []string{"https://a.example/cb"}, IssuedAt: s.store.Now().Unix()}
	if err := errors.Join(s.store.AddDirectory(t.Context(), store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys"}},
	}, act), s.store.AddClient(t.Context(), c, store.Origin{}, act)); err != nil {
		t.Fatal(err)
	}
	answer := store.Answer{Handle: func(uint32) token.Handle { return token.Handle([]byte("0123456789abcdef")) }, Client: "c", Person: "ada", Organization: "nordlys",
		Grant: grantset.Set{Kind: grantset.Everything}, RedirectURI: "https://a.example/cb", Issuer: "i", Challenge: "c"}
	if _, _, err := s.store.Approve(t.Context(), answer, act); !errors.Is(err, store.ErrEndDate) {
		t.Errorf("without an end date: %v", err)
	}
	answer.EndsAt = s.store.Now().Unix() + 29*24*60*60
	if _, _, err := s.store.Approve(t.Context(), answer, act); err != nil {
		t.Errorf("within 30 days: %v", err)
	}
}

// Start answers on every listener, on free ports too; Close leaves none of them, no
// goroutine and no lock behind, and may be called again.
func TestStartAndClose(t *testing.T) {
	l := good(t)
	l.HTTP.Listen, l.Operator.Listen, l.Gateway.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	l.Config.Database.URL = "sqlite://" + filepath.Join(t.TempDir(), "test.db")
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Count(goroutines(), "\ngoroutine ")
	for range 2 { // the second on what the first has left
		s, err := Start(t.Context(), checked, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Wait() }()
		at := []net.Addr{s.PublicAddr(), s.OperatorAddr(), s.GatewayAddr()}
		alone := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for i, path := range []string{"/.well-known/oauth-authorization-server", "/readyz", "/nothing"} {
			r, err := http.NewRequest("GET", "http://"+at[i].String()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				r.Host = "app.example"
			}
			a, err := alone.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(a.Body)
			a.Body.Close()
			if want := []int{200, 200, 404}[i]; a.StatusCode != want || i == 0 && !strings.Contains(string(text), `"issuer":"https://app.example"`) {
				t.Errorf("%s: %s %s", path, a.Status, text)
			}
		}
		if err := errors.Join(s.Close(t.Context()), s.Close(t.Context()), <-ended); err != nil {
			t.Fatal(err)
		}
		for _, one := range at {
			if c, err := net.Dial("tcp", one.String()); err == nil {
				c.Close()
				t.Errorf("%s still listens", one)
			}
		}
	}
	for range 6000 { // what ends does so by itself
		if strings.Count(goroutines(), "\ngoroutine ") <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines were there before; now\n%s", before, goroutines())
}

// What cannot be opened leaves nothing open.
func TestStartThatFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name   string
		change func(*config.Checked)
		says   string
		hint   string
	}{
		{"public", func(c *config.Checked) { c.HTTP.Listen = taken.Addr().String() }, "is in use. Choose another: grantkeeper dev --listen 127.0.0.1:9000", ""},
		{"operators", func(c *config.Checked) { c.Operator.Listen = taken.Addr().String() }, "is in use. Choose another: grantkeeper dev --operator-listen 127.0.0.1:9001", ""},
		{"gateways", func(c *config.Checked) { c.Gateway.Listen = taken.Addr().String() }, "GRANTKEEPER_GATEWAY_LISTEN=127.0.0.1:9002 grantkeeper dev", ""},
		{"database", func(c *config.Checked) { c.Path = "/nowhere/x.db" }, "/nowhere", "see that the folder exists"},
	} {
		checked, err := good(t).Check()
		if err != nil {
			t.Fatal(err)
		}
		free := freePort(t)
		checked.HTTP.Listen, checked.Operator.Listen, checked.Gateway.Listen, checked.Path = free, "off", "off", ""
		tt.change(&checked)
		s, err := Start(t.Context(), checked, Options{Command: "grantkeeper dev"})
		var e *fault.Error
		if !errors.As(err, &e) || s != nil || e.Code != fault.Reach || !strings.Contains(e.What, tt.says) || !strings.HasPrefix(e.Hint, tt.hint) {
			t.Errorf("%s: %+v", tt.name, err)
		}
		if c, err := net.Dial("tcp", free); err == nil {
			c.Close()
			t.Errorf("%s: it listens all the same", tt.name)
		}
	}
}

// A request under way is let finish at the end, and cut off when whoever closes does
// not wait.
func TestCloseWaitsForRequests(t *testing.T) {
	for _, patient := range []bool{true, false} {
		asked, goOn := make(chan bool, 1), make(chan bool)
		service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- true
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}))
		defer service.Close()
		s, base, log := started(t, func(c *config.Config) {
			c.API.Upstream, c.Service.KeyFile = service.URL, write(t, "service.key", gatewayKey+"\n", 0o600)
		})
		addAda(t, s)
		answered := make(chan int, 1)
		go func() {
			r, _ := http.NewRequest("GET", base+"/api/v5/orders", nil)
			r.Header.Set("X-Auth-Token", adasKey)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				answered <- 0
				return
			}
			a.Body.Close()
			answered <- a.StatusCode
		}()
		<-asked
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		if patient {
			close(goOn)
		} else {
			cancel()
		}
		err, status := <-closed, <-answered
		cancel()
		if patient != (err == nil) || patient != (status == 200) || strings.Contains(log.String(), "cut off") {
			t.Errorf("patient %t: %v, answered %d\n%s", patient, err, status, log)
		}
	}
}

// Reread puts a good configuration in force, and of a bad one says what is wrong.
func TestReread(t *testing.T) {
	s, _, log := started(t, func(*config.Config) {})
	again := *s.present()
	again.APILimits = map[string]int{"nordlys": 7}
	s.Reread(t.Context(), func() (config.Checked, string, error) { return again, "test.toml", nil })
	if got := s.present().APILimits["nordlys"]; got != 7 {
		t.Errorf("after it was reread: %d", got)
	}
	s.Reread(t.Context(), func() (config.Checked, string, error) {
		return config.Checked{}, "", fault.BadConfig("do that", "this is wrong")
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last["err"] != "this is wrong" || last["hint"] != "do that" || s.present().APILimits["nordlys"] != 7 {
		t.Errorf("%v %s", err, log)
	}
}
