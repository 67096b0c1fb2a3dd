package gateway

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
)

// previewed is a service that is asked for previews.
type previewed struct {
	*Previews
	asked atomic.Int32
	log   *apitest.Lines
	now   atomic.Int64 // Unix seconds
}

func newPreviewed(t *testing.T, service http.HandlerFunc) *previewed {
	t.Helper()
	p := &previewed{log: &apitest.Lines{}}
	p.now.Store(1_800_000_000)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		service(w, r)
	}))
	t.Cleanup(far.Close)
	to, err := url.Parse(far.URL + "/grantkeeper/preview?of=bakery")
	if err != nil {
		t.Fatal(err)
	}
	p.Previews = &Previews{URL: to, Key: func() []byte { return []byte(upstreamKey) }, Now: func() time.Time { return time.Unix(p.now.Load(), 0) },
		Log: slog.New(slog.NewTextHandler(p.log, nil)), budget: time.Minute}
	return p
}

// bakery are two authorities of Ada, who fills both roles.
func bakery(person string) []grantset.Authority {
	m := org.NewMember(person, "ovn", false, []org.Role{
		{ID: "r-deliveries", Organization: "ovn", Circle: "shop", Name: "Deliveries"}, {ID: "r-orders", Organization: "ovn", Circle: "shop", Name: "Orders"}})
	picked := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "r-deliveries"}, {Role: "r-orders", Change: true}}}
	return []grantset.Authority{picked.Narrow(m, nil), grantset.Set{Kind: grantset.Everything}.Narrow(m, nil)}
}

const bakeryAnswer = `{"sets":[{"change":{"count":14,"titles":["40 rolls"]},"read":{"count":37}},{"change":{"count":51}}]}`

func answersPreview(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// Decision V50: the service can tell who asks and about what, and that nobody
// changed it.
func TestPreviewIsAskedSigned(t *testing.T) {
	var body []byte
	var who identity.Identity
	var fault error
	var p *previewed
	p = newPreviewed(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		who, fault = identity.VerifyCall(r.Header, identity.Call{Method: "POST", Target: "/grantkeeper/preview?of=bakery", Body: body}, p.Now(), []byte(upstreamKey))
		if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "" {
			fault = fmt.Errorf("headers: %v", r.Header)
		}
		answersPreview(bakeryAnswer)(w, r)
	})
	a, ok := p.Ask(t.Context(), "de", bakery("ada"))
	if !ok || a.Sets[0].Change.Count != 14 || a.Sets[0].Change.Titles[0] != "40 rolls" || a.Sets[0].Not != nil || a.Sets[1].Change.Count != 51 {
		t.Errorf("%+v, %t: %s", a, ok, p.log)
	}
	want := `{"person":"ada","organization":"ovn","language":"de","titles":20,"sets":[` +
		`{"grant":"roles","authority":"r-deliveries=read,r-orders=change"},{"grant":"everything","authority":"personal"}]}`
	if string(body) != want || fault != nil {
		t.Errorf("asked %s, want %s: %v", body, want, fault)
	}
	if who.Person != "ada" || who.Organization != "ovn" || who.Approval != "" || who.Acts("r-orders") != "none" {
		t.Errorf("signed as %+v", who)
	}
}

// What a service answers in another form than was asked is no answer, and the
// log says why, once a minute.
func TestPreviewsThatAreNone(t *testing.T) {
	const typed = "application/json"
	for name, service := range map[string]http.HandlerFunc{
		"a status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typed)
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, bakeryAnswer)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"another type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, bakeryAnswer)
		},
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, bakeryAnswer)
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typed)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, bakeryAnswer)
			_ = z.Close()
		},
		"10 MiB": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typed)
			_, _ = io.WriteString(w, bakeryAnswer+strings.Repeat(" ", 10<<20))
		},
		"a head of 1 MiB": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 1<<20))
			answersPreview(bakeryAnswer)(w, r)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typed)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, bakeryAnswer)
		},
		"below zero":          answersPreview(`{"sets":[{"change":{"count":-1}},{}]}`),
		"another set":         answersPreview(`{"sets":[{}]}`),
		"invalid UTF-8":       answersPreview(`{"sets":[{"change":{"count":1,"titles":["` + "\xff" + `"]}},{}]}`),
		"text turned around":  answersPreview(`{"sets":[{"change":{"count":1,"titles":["\u202e"]}},{}]}`),
		"more than one value": answersPreview(bakeryAnswer + bakeryAnswer),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPreviewed(t, service)
			for n := range 3 {
				if a, ok := p.Ask(t.Context(), "en", bakery("ada")); ok {
					t.Fatalf("%+v", a)
				}
				if n == 1 {
					p.now.Add(60)
				}
			}
			if p.asked.Load() != 3 || strings.Count(p.log.String(), "no preview") != 2 {
				t.Errorf("asked %d times; log\n%s", p.asked.Load(), p.log)
			}
		})
	}
}

// A late answer is none, and nothing goes on once the page is given up; that is
// no fault of the service.
func TestPreviewThatIsLate(t *testing.T) {
	left := make(chan struct{}, 99)
	p := newPreviewed(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
		left <- struct{}{}
	})
	for p.budget = 20 * time.Millisecond; p.asked.Load() == 0; p.budget *= 2 { // until the service has heard of one
		if _, ok := p.Ask(t.Context(), "en", bakery("ada")); ok || !strings.Contains(p.log.String(), "deadline exceeded") {
			t.Fatalf("%t: %s", ok, p.log)
		}
	}
	<-left
	half := newPreviewed(t, func(w http.ResponseWriter, r *http.Request) {
		answersPreview(bakeryAnswer[:9])(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	half.budget = p.budget
	if _, ok := half.Ask(t.Context(), "en", bakery("ada")); ok {
		t.Error("half an answer")
	}
}

// What was answered is kept for 30 s, by all that was asked.
func TestPreviewsAreKept(t *testing.T) {
	p := newPreviewed(t, answersPreview(bakeryAnswer))
	ask := func(want int32, language, person string, sets ...grantset.Authority) {
		t.Helper()
		if sets == nil {
			sets = bakery(person)
		}
		if _, ok := p.Ask(t.Context(), language, sets); !ok || p.asked.Load() != want {
			t.Errorf("%s, %s: %t, asked %d times, want %d", language, person, ok, p.asked.Load(), want)
		}
	}
	ask(1, "en", "ada")
	ask(1, "en", "ada")
	ask(2, "de", "ada")
	ask(3, "en", "tor")
	two := bakery("ada")
	ask(4, "en", "ada", two[1], two[0])
	p.now.Add(29)
	ask(4, "en", "ada")
	p.now.Add(1)
	ask(5, "en", "ada")
	for n := range 2 * previewsKept {
		p.Ask(t.Context(), fmt.Sprint(n), bakery("ada"))
	}
	if n := len(p.kept); n > previewsKept {
		t.Errorf("%d are kept", n)
	}
}

// So many are asked for at once; who cannot wait for a place does without.
func TestPreviewsAtOnce(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	p := newPreviewed(t, func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		<-out
		answersPreview(bakeryAnswer)(w, r)
	})
	p.budget = time.Minute
	var all sync.WaitGroup
	for n := range previewSlots {
		all.Go(func() {
			if _, ok := p.Ask(t.Context(), fmt.Sprint(n), bakery("ada")); !ok {
				t.Error("no answer")
			}
		})
	}
	for range previewSlots {
		<-in
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := p.Ask(gone, "en", bakery("ada")); ok || p.asked.Load() != previewSlots || len(p.slots) != previewSlots {
		t.Errorf("%t, asked %d times, %d places are taken", ok, p.asked.Load(), len(p.slots))
	}
	if p.log.String() != "" { // nobody waited
		t.Error(p.log)
	}
	close(out)
	all.Wait()
	go func() { <-in }()
	if _, ok := p.Ask(t.Context(), "en", bakery("ada")); !ok {
		t.Error("the places are not given back")
	}
}
