package httpidentity_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/identity/httpidentity"
)

var key = []byte("a-key-of-thirty-two-bytes-or-more")

// call is a request that is signed for somebody, and what of it comes then.
type call struct {
	method, target, body string
	unread               bool // whoever signed did not see the body
}

func (c call) signed(t *testing.T, key []byte) http.Header {
	t.Helper()
	headers, err := identity.Identity{Person: "ada", Organization: "nordlys", Grant: "everything"}.Sign(key, time.Now())
	if err == nil {
		err = identity.SignCall(key, headers, identity.Call{Method: c.method, Target: c.target, Body: []byte(c.body), Unread: c.unread})
	}
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for name, value := range headers {
		h.Set(name, value)
	}
	return h
}

// ask sends a request through the middleware, and gives its answer, who it was for
// and the body that arrived.
func ask(v httpidentity.Verifier, c call, h http.Header) (w *httptest.ResponseRecorder, who identity.Identity, body string) {
	r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
	r.Header = h
	w = httptest.NewRecorder()
	v.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		who = httpidentity.From(r.Context())
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	})).ServeHTTP(w, r)
	return w, who, body
}

func TestHandler(t *testing.T) {
	post := call{"POST", "/api/v5/notes?a=%2F+b;c&d=%C3%A9", `{"title":"x"}`, false}
	long := call{"POST", "/api/v5/notes", strings.Repeat("x", httpidentity.MaxBody+1), true}
	full := call{"POST", "/api/v5/notes", strings.Repeat("x", httpidentity.MaxBody), false}
	proxied := call{"POST", "/api/v5/notes", "{}", true}
	with := func(c call, change func(*call)) call { change(&c); return c }
	whole, part, any := httpidentity.Verifier{}, httpidentity.Verifier{Unsigned: true}, httpidentity.Verifier{AnyCall: true}
	other := with(post, func(c *call) { c.body = "{}" })
	elsewhere := with(post, func(c *call) { c.target = "/api/v5/actions" })
	for _, tt := range []struct {
		name         string
		v            httpidentity.Verifier
		signed, came call
		taken        bool
	}{
		{"what was signed", whole, post, post, true},
		{"the longest body that is signed", whole, full, full, true},
		{"a longer one, signed all the same", whole, with(long, func(c *call) { c.unread = false }), long, false},
		{"no body", whole, call{"HEAD", "/api/v5/notes", "", false}, call{"HEAD", "/api/v5/notes", "", false}, true},
		{"another body", whole, post, other, false},
		{"another path", whole, post, elsewhere, false},
		{"another method", whole, post, with(post, func(c *call) { c.method = "PUT" }), false},
		{"the query written otherwise", whole, post, with(post, func(c *call) { c.target = strings.Replace(c.target, "%2F", "/", 1) }), false},
		{"a body that is too long", whole, long, long, false},
		{"a body that forward-auth did not see", whole, proxied, proxied, false},
		{"the same, where that is taken", part, proxied, proxied, true},
		{"a body that is too long, where that is taken", part, long, long, true},
		{"a signed body, where it need not be", part, post, post, true},
		{"another body, where it need not be", part, post, other, false},
		{"another path, the body not signed", part, proxied, with(proxied, func(c *call) { c.target = "/api/v5/actions" }), false},
		{"another path and body, and nothing asked", any, post, with(elsewhere, func(c *call) { c.body = "{}" }), true},
	} {
		tt.v.Keys = [][]byte{[]byte("another-key-of-thirty-two-bytes!!"), key}
		w, who, body := ask(tt.v, tt.came, tt.signed.signed(t, key))
		if tt.taken && (w.Code != 200 || who.Person != "ada" || body != tt.came.body) {
			t.Errorf("%s: %d %+v %.40q: %s", tt.name, w.Code, who, body, w.Body)
		}
		if !tt.taken && (w.Code != 401 || who.Person != "" || body != "" || w.Header().Get("WWW-Authenticate") != "" || w.Body.Len() == 0) {
			t.Errorf("%s: %d %+v %.40q: %s", tt.name, w.Code, who, body, w.Body)
		}
		if w, who, _ := ask(httpidentity.Verifier{Unsigned: tt.v.Unsigned, AnyCall: tt.v.AnyCall, Keys: [][]byte{key}}, tt.came, tt.signed.signed(t, tt.v.Keys[0])); w.Code != 401 || who.Person != "" {
			t.Errorf("%s, signed by a stranger: %d", tt.name, w.Code)
		}
	}
	if who := httpidentity.From(context.Background()); who.Person != "" || who.Acts("any") != "none" {
		t.Errorf("outside of a call it is for %+v", who)
	}
}

// Nothing is read of a stranger's body, and what takes too long to come is for nobody.
func TestBodiesAreReadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := call{"POST", "/api/v5/notes", "{}", false}
		for name, tt := range map[string]struct {
			header http.Header
			read   bool
		}{"a stranger": {http.Header{}, false}, "a slow body": {c.signed(t, key), true}} {
			read := false
			r := httptest.NewRequest(c.method, c.target, slow{strings.NewReader(c.body), &read})
			r.Header = tt.header
			w := httptest.NewRecorder()
			httpidentity.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error(name + " passes") }), key).ServeHTTP(w, r)
			if w.Code != 401 || read != tt.read {
				t.Errorf("%s: %d, read: %v", name, w.Code, read)
			}
		}
	})
}

type slow struct {
	io.Reader
	read *bool
}

func (s slow) Read(p []byte) (int, error) {
	*s.read = true
	time.Sleep(identity.Tolerance)
	return s.Reader.Read(p)
}

type vector struct {
	Name    string
	Keys    []string
	Now     int64 // Unix seconds
	Headers [][2]string
	Call    *struct {
		Method, Target string
		Body           *string // nil is not asked for
	}
	Accepted bool
	Identity struct{ Person string }
	Acts     map[string]string
}

// The middleware takes and refuses what the vectors do that other languages are held to.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../contrib/verify/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 80 {
		t.Errorf("only %d vectors", len(file.Vectors))
	}
	slices.SortStableFunc(file.Vectors, func(a, b vector) int { return int(a.Now - b.Now) })
	synctest.Test(t, func(t *testing.T) {
		for _, v := range file.Vectors {
			time.Sleep(time.Until(time.Unix(v.Now, 0)))
			h := http.Header{}
			for _, pair := range v.Headers {
				h.Add(pair[0], pair[1])
			}
			of, c := httpidentity.Verifier{AnyCall: v.Call == nil}, call{method: "GET", target: "/"}
			for _, k := range v.Keys {
				of.Keys = append(of.Keys, []byte(k))
			}
			if v.Call != nil {
				c.method, c.target, c.body = v.Call.Method, v.Call.Target, `{"title":"Frühling"}`
				of.Unsigned = v.Call.Body == nil
			}
			if v.Call != nil && v.Call.Body != nil {
				c.body = *v.Call.Body
			}
			w, who, _ := ask(of, c, h)
			if (w.Code == 200) != v.Accepted || who.Person != v.Identity.Person {
				t.Errorf("%s: %d %+v %s", v.Name, w.Code, who, w.Body)
			}
			for role, want := range v.Acts {
				if v.Accepted && who.Acts(role) != want {
					t.Errorf("%s: through %s: %s", v.Name, role, who.Acts(role))
				}
			}
		}
	})
}

func TestKeyFile(t *testing.T) {
	for text, want := range map[string]string{
		string(key):                         string(key),
		string(key) + "\n":                  string(key),
		string(key) + "\r\n":                string(key),
		string(key) + "\n\n":                "",
		" " + string(key):                   "",
		string(key[:31]) + "\n":             "",
		"a key of thirty-two bytes or more": "",
		"":                                  "",
	} {
		name := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := httpidentity.KeyFile(name)
		if string(got) != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), string(key[:16])) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := httpidentity.KeyFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file is a key")
	}
}
