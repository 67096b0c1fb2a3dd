// Command signin measures what signing in at an OpenID provider on the same
// machine costs beside what the provider itself takes: the redirects of this
// server, and its own time in them.
//
//	go run ./bench/signin -n 1000
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

func main() {
	n := flag.Int("n", 1000, "sign-ins, one after the other")
	folder := flag.String("dir", os.TempDir(), "folder for the database: on a disk, not in memory")
	flag.Parse()
	if err := run(*n, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "signin:", err)
		os.Exit(1)
	}
}

func run(n int, folder string) error {
	folder, err := os.MkdirTemp(folder, "grantkeeper-signin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	far, err := newFar()
	if err != nil {
		return err
	}
	defer far.server.Close()
	near, stop, err := newNear(folder, far)
	if err != nil {
		return err
	}
	defer stop()

	var own, whole []time.Duration
	for range n {
		all, theirs, redirects, err := signIn(near, far)
		if err != nil {
			return err
		}
		if redirects > 2 {
			return fmt.Errorf("%d redirects of this server, want 2 at most", redirects)
		}
		own, whole = append(own, all-theirs), append(whole, all)
	}
	fmt.Printf("%d sign-ins at a provider on this machine, 2 redirects of this server each\n", n)
	fmt.Printf("its own time: p50 %v, p95 %v, p99 %v; with the provider's: p95 %v\n", at(own, .5), at(own, .95), at(own, .99), at(whole, .95))
	return nil
}

func at(d []time.Duration, part float64) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[int(float64(len(d)-1)*part)].Round(10 * time.Microsecond)
}

// signIn is one, by a browser of its own: from pressing the button to being
// sent to what was asked for. theirs is what the provider has taken of it.
func signIn(near string, far *far) (all, theirs time.Duration, redirects int, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return 0, 0, 0, err
	}
	c := http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	before := far.took.Load()
	began := time.Now()
	for to := near + "/signin/with/corp"; ; {
		a, err := c.Get(to)
		if err != nil {
			return 0, 0, 0, err
		}
		a.Body.Close()
		next := a.Header.Get("Location")
		if a.StatusCode != http.StatusSeeOther && a.StatusCode != http.StatusFound {
			return 0, 0, 0, fmt.Errorf("GET %.80s: %s", to, a.Status)
		}
		if strings.HasPrefix(to, near) {
			redirects++
		}
		if next == "/" {
			return time.Since(began), time.Duration(far.took.Load() - before), redirects, nil
		}
		to = next
	}
}

// newNear is this server's door for people, with a database on a disk.
func newNear(folder string, far *far) (base string, stop func(), err error) {
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		return "", nil, err
	}
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(folder, "grantkeeper.db"), Ring: ring})
	if err != nil {
		return "", nil, err
	}
	d := store.Directory{People: []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}}}
	if err := db.AddDirectory(context.Background(), d, store.Act{Actor: "system"}); err != nil {
		return "", nil, errors.Join(err, db.Close())
	}
	site := &page.Site{Store: db, Ring: ring, Log: slog.New(slog.DiscardHandler), Service: "Svalinn", NoPasswords: true,
		Base:    func(*http.Request) string { return base },
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("127.0.0.1") }}
	door := &signin.Server{Site: site, Providers: []*provider.Provider{provider.New(provider.Config{ID: "corp", Name: "Corp",
		Issuer: far.server.URL, ClientID: "grantkeeper", Scopes: []string{"openid", "email"}}, db.Now)}}
	server := httptest.NewServer(site.Serve(door.Pages()))
	base = server.URL
	return base, func() { server.Close(); db.Close() }, nil
}

// A far is an OpenID provider where Ada is signed in.
type far struct {
	server *httptest.Server
	signer jose.Signer
	public jose.JSONWebKey
	nonces map[string]string // by code
	took   atomic.Int64      // nanoseconds in all answers
}

func newFar() (*far, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	f := &far{public: jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}, nonces: map[string]string{}}
	f.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		f.answer(w, r)
		f.took.Add(int64(time.Since(began)))
	}))
	return f, err
}

// answer is asked one thing at a time.
func (f *far) answer(w http.ResponseWriter, r *http.Request) {
	at := f.server.URL
	w.Header().Set("Content-Type", "application/json")
	var v any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		v = map[string]any{"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
			"jwks_uri": at + "/keys", "userinfo_endpoint": at + "/me"}
	case "/keys":
		v = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{f.public}}
	case "/authorize":
		q := r.URL.Query()
		code := rand.Text()
		f.nonces[code] = q.Get("nonce")
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
		return
	case "/token":
		now := time.Now().Unix()
		claims, err := json.Marshal(map[string]any{"iss": at, "aud": "grantkeeper", "sub": "1", "nonce": f.nonces[r.FormValue("code")],
			"iat": now, "auth_time": now, "exp": now + 60})
		if err != nil {
			panic(err) // strings and numbers
		}
		jws, err := f.signer.Sign(claims)
		if err != nil {
			panic(err) // an RSA key signs
		}
		signed, err := jws.CompactSerialize()
		if err != nil {
			panic(err)
		}
		v = map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": signed}
	case "/me":
		v = map[string]any{"sub": "1", "email": "ada@nordlys.example", "email_verified": true}
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		io.WriteString(w, "null")
	}
}
