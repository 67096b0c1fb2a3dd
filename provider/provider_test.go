package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// far is the other end: it answers after a while, or not at all.
type far struct {
	after time.Duration
	asked atomic.Int32
	code  int
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked.Add(1)
	select {
	case <-time.After(f.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.code)
	w.WriteString(`{"issuer":"https://login.example.com","authorization_endpoint":"https://login.example.com/a",
		"token_endpoint":"https://login.example.com/t","jwks_uri":"https://login.example.com/k"}`)
	return w.Result(), nil
}

func (f *far) provider() *Provider {
	p := New(Config{ID: "corp", Issuer: "https://login.example.com", ClientID: "x", Scopes: []string{"openid"}}, time.Now)
	p.client.Transport = f
	return p
}

// Of what a provider answers nothing is left that two readers could read
// differently, wherever it hides; what is no JSON object is the library's to refuse.
func TestAnswersReadTwoWays(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for text, kept := range map[string]bool{
		`{"issuer":"a","keys":[{"kid":"1"}]}`: true, `eyJhbGciOi`: true, `[1]`: true, ``: true,
		`{"issuer":"a","issuer":"b"}`: false, `{"issuer":"a","Issuer":"b"}`: false, `{"keys":[{"kid":"1","\u212aid":"2"}]}`: false, `[{"a":1,"a":2}]`: false,
		`{"x":` + deep + `,"issuer":"a","issuer":"b"}`: false, `{"x":` + deep + `}`: false, "{\"issuer\":\"a\xff\"}": false,
	} {
		r, err := http.NewRequest("GET", "https://login.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := bounded{says(text)}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(a.Body); err != nil || (string(got) == text) != kept {
			t.Errorf("%.60s: got %.60q, %v", text, got, err)
		}
	}
}

// says answers everything with a text.
type says string

func (s says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

// A provider has 10 seconds. Whoever comes just after it did not answer is told
// so at once, and a little later it is asked again.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{after: time.Hour, code: 200}
		p := f.provider()
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				began := time.Now()
				if _, err := p.Begin(t.Context(), Ask{}); !errors.Is(err, ErrDown) {
					t.Errorf("got %v, want that it is down", err)
				}
				if took := time.Since(began); took > Timeout {
					t.Errorf("it took %v", took)
				}
			})
		}
		wait.Wait()
		if n := f.asked.Load(); n != 1 {
			t.Errorf("asked %d times for five people, want once", n)
		}
		f.after = time.Second
		if _, err := p.Begin(t.Context(), Ask{}); !errors.Is(err, ErrDown) {
			t.Errorf("a moment later: got %v, want that it is down", err)
		}
		time.Sleep(downFor)
		if to, err := p.Begin(t.Context(), Ask{State: "s"}); err != nil || !strings.HasPrefix(to, "https://login.example.com/a?") {
			t.Errorf("later: %q, %v", to, err)
		}
	})
}

// What a provider said of itself serves while it is down, and is asked again
// after an hour.
func TestMetadataAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{code: 200}
		p := f.provider()
		for i, want := range []int32{1, 1, 2, 3} {
			if i == 3 {
				f.code = 500
			}
			if i >= 2 {
				time.Sleep(metadataAge)
			}
			if _, err := p.Begin(t.Context(), Ask{}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if n := f.asked.Load(); n != want {
				t.Errorf("%d: asked %d times, want %d", i, n, want)
			}
		}
	})
}

// answersAt is a provider whose endpoints answer, each unless it hangs or is down.
type answersAt struct {
	hangs, down string // ends of paths
	moved       string // where its keys are
	keys        string // JSON Web Key Set
	codes       int
}

func (a *answersAt) RoundTrip(r *http.Request) (*http.Response, error) {
	switch path := r.URL.Path; {
	case a.hangs != "" && strings.HasSuffix(path, a.hangs):
		<-r.Context().Done()
	case a.down != "" && strings.HasSuffix(path, a.down):
		return nil, errors.New("connection refused")
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPost:
		a.codes++
		w.WriteHeader(http.StatusBadRequest)
		w.WriteString(`{"error":"invalid_grant"}`)
	case strings.HasSuffix(r.URL.Path, "/k"):
		w.WriteString(a.keys)
	default:
		w.WriteString(`{"issuer":"https://login.example.com","authorization_endpoint":"https://login.example.com/a",
			"token_endpoint":"https://login.example.com/t","jwks_uri":"https://login.example.com` + a.moved + `/k"}`)
	}
	return w.Result(), nil
}

func (a *answersAt) provider() *Provider {
	p := New(Config{ID: "corp", Issuer: "https://login.example.com", ClientID: "x", Scopes: []string{"openid"}}, time.Now)
	p.client.Transport = a
	return p
}

// Metadata that are known serve also while newer ones hang: the code reaches the provider.
func TestMetadataThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answersAt{}
		p := a.provider()
		for i := range 4 {
			if _, err := p.Finish(t.Context(), Ask{}, Answer{Code: "c"}); err == nil || errors.Is(err, ErrDown) || a.codes != i+1 {
				t.Errorf("%d: %v, %d codes came", i, err, a.codes)
			}
			a.hangs = "/openid-configuration"
			time.Sleep(metadataAge)
		}
	})
}

// Whoever goes away while the provider is asked for the first time says nothing of it.
func TestAskedByOneWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{code: 200, after: 100 * time.Millisecond}
		p := f.provider()
		ctx, leave := context.WithCancel(t.Context())
		go p.Begin(ctx, Ask{})
		synctest.Wait()
		leave()
		if _, err := p.Begin(t.Context(), Ask{}); err != nil || f.asked.Load() != 1 {
			t.Errorf("%v, asked %d times", err, f.asked.Load())
		}
	})
}

// Keys that were known serve while newer ones cannot be had, however often the metadata
// are read meanwhile; and are forgotten when the provider has others.
func TestKeysAreKept(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwks := func(id string) string {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := &answersAt{keys: jwks("1")}
		p := a.provider()
		verified := func(what string, want bool) {
			t.Helper()
			m, err := p.discover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.keys.VerifySignature(t.Context(), token); (err == nil) != want {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
			time.Sleep(metadataAge)
		}
		verified("at first", true)
		a.down = "/k"
		for range 3 {
			verified("the keys are down", true)
		}
		a.moved = "/elsewhere"
		verified("they are elsewhere, and down", false)
		a.down, a.keys = "", jwks("2")
		verified("it has others", false)
		a.down = "/k"
		verified("and is down again", false)
	})
}

// A provider that ends the connections it kept loses nobody's code.
func TestKeptConnectionsEnd(t *testing.T) {
	used := map[string]bool{} // by the other end; one asks after the other
	var base string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if used[r.RemoteAddr] {
			panic(http.ErrAbortHandler)
		}
		used[r.RemoteAddr] = true
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		io.WriteString(w, `{"issuer":"`+base+`","authorization_endpoint":"`+base+`/a","token_endpoint":"`+base+`/t","jwks_uri":"`+base+`/k"}`)
	}))
	t.Cleanup(server.Close)
	base = server.URL
	p := New(Config{ID: "corp", Issuer: base, ClientID: "x", Scopes: []string{"openid"}}, time.Now)
	if _, err := p.Begin(t.Context(), Ask{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context(), Ask{}, Answer{Code: "c"}); err == nil || !strings.Contains(err.Error(), "refuses the code: status 400") {
		t.Errorf("got %v, want the provider's own answer", err)
	}
}
