package consent

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// The certificate of httptest is for these hosts.
const (
	documentHost = "assistant.example.com"
	documentID   = "https://" + documentHost + "/client.json"
	documentBack = "https://assistant.example.com/cb"
	elsewhere    = "https://other.example.org/cb"
)

// A published document is what a server of documents says.
type published struct {
	mu      sync.Mutex
	name    string
	uris    []string
	status  int
	maxAge  int
	private bool // its host leads to loopback
	asked   atomic.Int32
	gate    chan struct{} // unless nil, each answer waits for it
}

func (p *published) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", p.maxAge))
	w.WriteHeader(p.status)
	json.NewEncoder(w).Encode(map[string]any{"client_id": "https://" + r.Host + r.URL.Path, "client_name": p.name, "redirect_uris": p.uris})
}

// withDocuments has a site take documents of hosts, from a server that it gives.
func withDocuments(t testing.TB, s *site, hosts ...string) *published {
	t.Helper()
	p := &published{name: "Assistant", uris: []string{documentBack}, status: http.StatusOK, maxAge: 600}
	at := httptest.NewUnstartedServer(p)
	at.Config.ErrorLog = log.New(io.Discard, "", 0)
	at.StartTLS()
	t.Cleanup(at.Close)
	roots := x509.NewCertPool()
	roots.AddCert(at.Certificate())
	s.Documents = document.New(document.Options{Roots: roots, Within: time.Minute, Now: func() time.Time { return s.Store.Now() },
		Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.private {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.Listener.Addr().String())
		}})
	s.DocumentHosts = func() []string { return hosts }
	s.OwnHosts = func() []string { return []string{"app.svalinn.example"} }
	return p
}

// byDocument is the address of a request of such a client.
func byDocument(changes ...string) string {
	return pagetest.Authorize(append([]string{"client_id", documentID, "redirect_uri", documentBack}, changes...)...)
}

// A client whose ID is the URL of its document goes through as any other: it is fetched
// at the first request, and again once it is too old; what it says of itself is shown with
// its host, and a page that is open goes by what was fetched.
func TestClientByItsDocument(t *testing.T) {
	pagetest.OnBothEngines(t, func(t *testing.T, place func(*testing.T) store.Options) {
		s := openSite(t, place(t), nil)
		s.Furnish()
		p := withDocuments(t, s, "first.example.com", documentHost)
		b := s.SignedIn("ada")
		shown := b.Get(byDocument()).Want(200).Says("Assistant", "Not checked by Svalinn", documentHost)
		code := shown.Approve().Sent(documentBack).Get("code")
		if code == "" || p.asked.Load() != 1 {
			t.Errorf("code %q, asked %d times", code, p.asked.Load())
		}
		for range 3 {
			b.Get(byDocument()).Want(200).Says("Assistant")
		}
		if p.asked.Load() != 1 {
			t.Errorf("asked %d times", p.asked.Load())
		}
		p.set(func() { p.name, p.uris = "Assistant 2", []string{documentBack, elsewhere} })
		s.Pass(9*time.Minute + 59*time.Second)
		b.Get(byDocument()).Want(200)
		if p.asked.Load() != 1 {
			t.Errorf("asked a second too early")
		}
		s.Pass(time.Second)
		b.Get(byDocument()).Want(200).Says("Assistant 2")
		other := b.Get(byDocument("redirect_uri", elsewhere)).Want(200).Says("Assistant 2", documentHost, "other.example.org", "you, and the access, are sent to other.example.org")
		if p.asked.Load() != 2 {
			t.Errorf("asked %d times", p.asked.Load())
		}
		other.Approve().Sent(elsewhere)
		c, err := s.Store.Client(context.Background(), documentID)
		if err != nil || c.State() != "approved" || c.GoodUntil != s.Store.Now().Add(10*time.Minute).Unix() {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// Off, and for hosts that are not listed, nobody is asked.
func TestDocumentsThatAreNotTaken(t *testing.T) {
	s := newSite(t)
	p := withDocuments(t, s)
	var seen []attempt.Observation
	s.Seen = func(_ *http.Request, o attempt.Observation) { seen = append(seen, o) }
	b := s.SignedIn("ada")
	refused := func(what, at, says string, why attempt.Reason, host string) {
		t.Helper()
		seen = nil
		b.Get(at).Want(400).Says("This app cannot be connected.", says)
		if len(seen) != 1 || seen[0].Reason != why || seen[0].Host != host || p.asked.Load() != 0 {
			t.Errorf("%s: %+v, asked %d times", what, seen, p.asked.Load())
		}
	}
	refused("off", byDocument(), "does not know this app", attempt.DocumentHost, "")
	s.DocumentHosts = func() []string { return []string{"listed.example.com", "example.com"} }
	refused("another host", byDocument(), "could not read that description, or does not accept it", attempt.DocumentHost, documentHost)
	s.DocumentHosts = func() []string { return []string{client.AnyHost} }
	for _, id := range []string{"https://assistant.example.com/", "https://assistant.example.com:443/client.json", "https://Assistant.example.com/client.json", "https://127.0.0.1/client.json",
		"https://localhost/client.json", "https://app.svalinn.example/client.json", "https://assistant.example.com/../client.json", "https://assistant.example.com/client.json?x=1"} {
		refused(id, byDocument("client_id", id), "does not know this app", attempt.DocumentURL, "")
	}
	p.private = true
	refused("a host on loopback", byDocument(), "could not be read, or is not accepted", attempt.DocumentPrivate, documentHost)
	inside := b.Get(byDocument()).Text()
	p.private = false
	s.Pass(time.Minute)
	s.NewClients = func(netip.Addr, time.Time) (store.Origin, bool, time.Duration) {
		return store.Origin{}, false, time.Hour
	}
	if got := b.Get(byDocument()).Want(429).Header.Get("Retry-After"); got != "3600" || p.asked.Load() != 0 {
		t.Errorf("as many as may register have: Retry-After %s, asked %d times", got, p.asked.Load())
	}
	s.NewClients = nil
	p.set(func() { p.status = http.StatusNotFound })
	if outside := b.Get(byDocument()).Want(400).Text(); withoutReference(outside) != withoutReference(inside) {
		t.Errorf("a page tells names of the inside from others: %q, %q", inside, outside)
	}
}

// withoutReference leaves the number of its request out of a page.
func withoutReference(text string) string {
	said, _, _ := strings.Cut(text, "Whoever runs this service can see why.")
	return said
}

// A document that is gone, or not right any more, ends nothing, and lets nothing new
// begin; whose redirect URIs change, ends what was approved for those that are gone at the
// second look an hour later.
func TestDocumentThatChanges(t *testing.T) {
	engine := 0
	pagetest.OnBothEngines(t, func(t *testing.T, place func(*testing.T) store.Options) {
		s := openSite(t, place(t), nil)
		s.Furnish()
		p := withDocuments(t, s, client.AnyHost)
		p.uris = []string{documentBack, elsewhere}
		b := s.SignedIn("ada")
		connect := func(at, back string) approval.ID {
			t.Helper()
			code := b.Get(at).Want(200).Approve().Sent(back).Get("code")
			claim := s.Claim(code)
			_, v, err := s.Store.Apply(context.Background(), approval.ID(claim.Handle.ID()),
				approval.Exchange(documentID, pagetest.Base, back, pagetest.Verifier, claim.Time, 1, s.Store.Now()), store.Act{})
			if err != nil || v != approval.OK {
				t.Fatal(v, err)
			}
			return approval.ID(claim.Handle.ID())
		}
		kept, gone := connect(byDocument(), documentBack), connect(byDocument("redirect_uri", elsewhere), elsewhere)
		b.Get(revokePath("nordlys", documentID)).Want(200).Says("Assistant", documentHost)
		open := b.Get(byDocument("redirect_uri", elsewhere)).Want(200)
		for what, change := range map[string]func(){
			"404": func() { p.status = http.StatusNotFound }, "500": func() { p.status = http.StatusInternalServerError },
			"no redirect URI": func() { p.uris = []string{"http://localhost/cb"} }, "a private address": func() { p.private = true },
		} {
			s.Pass(11 * time.Minute)
			p.set(change)
			b.Get(byDocument()).Want(400).Says("could not read that description", "What you approved before stays as it is.")
			if !s.Lives(kept) || !s.Lives(gone) {
				t.Errorf("%s: something has ended", what)
			}
			p.set(func() { p.status, p.uris, p.private = http.StatusOK, []string{documentBack, elsewhere}, false })
			s.Pass(time.Minute)
			b.Get(byDocument()).Want(200)
		}
		s.Pass(11 * time.Minute)
		p.set(func() { p.uris, p.maxAge = []string{documentBack}, 24*3600 })
		b.Get(byDocument("redirect_uri", elsewhere)).Want(400).Says("not one that it has registered")
		if !s.Lives(kept) || !s.Lives(gone) {
			t.Errorf("at the first look kept lives %t, gone lives %t", s.Lives(kept), s.Lives(gone))
		}
		open.Approve().Want(400).Says("not one that it has registered")
		lookAgain := func() {
			ids, err := s.Store.LeavingClients(context.Background())
			s.Do(err)
			if !slices.Equal(ids, []string{documentID}) {
				t.Errorf("to be looked at again: %q", ids)
			}
			s.Do(s.LookAgain(context.Background(), documentID))
		}
		lookAgain() // too soon: an answer of long ago may still lie somewhere
		if !s.Lives(gone) {
			t.Error("ended at once")
		}
		p.set(func() { p.status = http.StatusNotFound })
		s.Pass(store.LeavingFor)
		if err := s.LookAgain(context.Background(), documentID); err == nil || !s.Lives(gone) {
			t.Errorf("a document that is gone: %v, and the approval lives %t", err, s.Lives(gone))
		}
		p.set(func() { p.status = http.StatusOK })
		s.Pass(time.Minute)
		if engine++; engine == 1 {
			lookAgain() // by itself
		} else {
			b = s.SignedIn("ada")
			b.Get(byDocument()).Want(200) // by the next who comes
		}
		if !s.Lives(kept) || s.Lives(gone) {
			t.Errorf("at the second look kept lives %t, gone lives %t", s.Lives(kept), s.Lives(gone))
		}
		if ids, err := s.Store.LeavingClients(context.Background()); err != nil || len(ids) != 0 {
			t.Errorf("still to be looked at again: %q, %v", ids, err)
		}
		b = s.SignedIn("ada")
		b.Get(pagetest.NordlysApps).Want(200).Says("the app gave up the address that this access went to")
	})
}

// Where too many documents are being fetched, what was approved before is asked for by the
// one that is kept, for a day; nobody begins with it.
func TestDocumentWhileOthersAreFetched(t *testing.T) {
	s := newSite(t)
	p := withDocuments(t, s, client.AnyHost)
	b := s.SignedIn("ada")
	b.Get(byDocument()).Want(200).Approve().Sent(documentBack)
	s.Pass(11 * time.Minute)
	var all sync.WaitGroup
	p.set(func() { p.gate = make(chan struct{}) })
	for n := range 8 {
		all.Go(func() {
			s.Documents.Fetch(context.Background(), document.Wanted{ID: fmt.Sprintf("https://%s/%d", documentHost, n), Host: documentHost, Used: n < 4},
				func(client.Metadata, time.Duration) error { return nil })
		})
	}
	for p.asked.Load() < 9 {
		time.Sleep(time.Millisecond)
	}
	b.Get(byDocument()).Want(200).Says("Assistant")
	other := "https://" + documentHost + "/other.json"
	b.Get(byDocument("client_id", other)).Want(503)
	s.Pass(24*time.Hour - time.Minute - time.Second)
	b = s.SignedIn("ada")
	b.Get(byDocument()).Want(200)
	s.Pass(time.Second)
	if got := b.Get(byDocument()).Want(503).Header.Get("Retry-After"); got == "" {
		t.Error("no Retry-After")
	}
	close(p.gate)
	all.Wait()
	b.Get(byDocument()).Want(200)
	if n := p.asked.Load(); n != 10 {
		t.Errorf("asked %d times", n)
	}
}

// Many who come at once ask once.
func TestADocumentWhileManyAskForIt(t *testing.T) {
	s := newSite(t)
	p := withDocuments(t, s, client.AnyHost)
	b := s.SignedIn("ada")
	var all sync.WaitGroup
	p.mu.Lock() // who is asked waits
	for range 10 {
		all.Go(func() {
			v := httptest.NewRecorder()
			r := httptest.NewRequest("GET", byDocument(), nil)
			for name, value := range b.Cookies {
				r.AddCookie(&http.Cookie{Name: name, Value: value})
			}
			s.Answers.ServeHTTP(v, r)
			if v.Code != http.StatusOK {
				t.Errorf("%d", v.Code)
			}
		})
	}
	for p.asked.Load() == 0 {
		p.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		p.mu.Lock()
	}
	p.mu.Unlock()
	all.Wait()
	if p.asked.Load() != 1 {
		t.Errorf("asked %d times", p.asked.Load())
	}
}

// Rules see both hosts, and a request for an app is for the document's.
func TestRulesForADocumentedClient(t *testing.T) {
	s := newSite(t)
	p := withDocuments(t, s, client.AnyHost)
	p.uris = []string{documentBack, elsewhere}
	b := s.SignedIn("ada")
	seen := int64(0)
	rule := func(r policy.Policy) {
		t.Helper()
		saved, _, err := s.Store.SetPolicy(context.Background(), store.Rules{Organization: "nordlys", Seen: seen, Policy: r}, store.Act{Actor: "operator"})
		if err != nil {
			t.Fatal(err)
		}
		seen = saved.Version
	}
	at := byDocument("redirect_uri", elsewhere)
	for _, host := range []string{documentHost, "example.com", "other.example.org", "example.org"} {
		rule(policy.Policy{Apps: []policy.App{{Host: host, Rule: policy.Block}}})
		form := b.Get(at)
		if form.Status == 200 && !strings.Contains(form.Text(), "block") {
			t.Errorf("%s is blocked, and the page is %s", host, form.Text())
		}
		if page := form.Text(); !strings.Contains(page, "block") {
			t.Errorf("%s is blocked: %s", host, page)
		}
	}
	rule(policy.Policy{Unknown: policy.Ask, Apps: []policy.App{{Host: documentHost, Name: "Assistant", Rule: policy.Allow}}})
	b.Get(at).Want(200).Approve().Sent(elsewhere)
}

// The page that stands before sign-in, and what is sealed for it, go by what is kept.
func TestDocumentBeforeSignIn(t *testing.T) {
	s := newSite(t)
	p := withDocuments(t, s, client.AnyHost)
	shown := s.Browser().Get(byDocument()).Want(303).Follow().Want(200).Says(documentHost)
	p.set(func() { p.status = http.StatusNotFound })
	s.Pass(11 * time.Minute)
	pagetest.SignIn(shown, "ada@nordlys.example", pagetest.Password).Want(303)
	if p.asked.Load() != 1 {
		t.Errorf("asked %d times", p.asked.Load())
	}
}

// documentPages are those of a client whose document is elsewhere than it, and of a document
// that is gone.
func (s *site) documentPages(ada *pagetest.Browser, visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	p := withDocuments(s.T, s, client.AnyHost)
	p.uris = []string{elsewhere}
	visit("consent by a document", true, ada.Get(byDocument("redirect_uri", elsewhere)).Want(200))
	p.set(func() { p.status = http.StatusNotFound })
	visit("no document", true, ada.Get(byDocument("client_id", "https://"+documentHost+"/gone.json")).Want(400))
	s.Documents, s.DocumentHosts = nil, nil
}

// A client that is known by its document costs what any other does.
func BenchmarkDocumentThatIsKept(b *testing.B) {
	s := openSite(b, pagetest.NewPlace(b), nil)
	s.Furnish()
	p := withDocuments(b, s, client.AnyHost)
	s.SignedIn("ada").Get(byDocument()).Want(200)
	r := httptest.NewRequest("GET", byDocument(), nil)
	v := s.Visit(httptest.NewRecorder(), r)
	for _, bench := range []struct{ name, id, back string }{{"documented", documentID, documentBack}, {"registered", "quill", pagetest.Callback}} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.clientOf(v, bench.id, bench.back, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	if p.asked.Load() != 1 {
		b.Errorf("asked %d times", p.asked.Load())
	}
}
