package identity

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"
)

// signedFor gives the headers of a call, as a request has them.
func signedFor(t testing.TB, key []byte, c Call, at time.Time) map[string][]string {
	t.Helper()
	headers, err := Identity{Person: "ada", Organization: "nordlys", Grant: "everything"}.Sign(key, at)
	if err == nil {
		err = SignCall(key, headers, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for name, value := range headers {
		all[name] = []string{value}
	}
	return all
}

// Headers that were signed for one call are good for no other, and for Verify as
// they always were.
func TestVerifyCall(t *testing.T) {
	key, other := bytes.Repeat([]byte("k"), 31), bytes.Repeat([]byte("o"), 32)
	key = append(key, '1')
	now := time.Unix(1_800_000_000, 0)
	post := Call{Method: "POST", Target: "/api/v5/notes?a=b", Body: []byte(`{"title":"x"}`)}
	unread := Call{Method: "POST", Target: "/api/v5/notes?a=b", Unread: true}
	get := Call{Method: "GET", Target: "/api/v5/notes"}
	with := func(c Call, change func(*Call)) Call { change(&c); return c }
	for _, tt := range []struct {
		name         string
		signed, came Call
		want         string // part of the error; "" is accepted
	}{
		{"the same call", post, post, ""},
		{"no body", get, get, ""},
		{"no body, as an empty one", get, with(get, func(c *Call) { c.Body = []byte{} }), ""},
		{"a signed body that is not asked for", post, unread, ""},
		{"an unsigned body that is not asked for", unread, unread, ""},
		{"another method", post, with(post, func(c *Call) { c.Method = "PUT" }), "not signed for this call"},
		{"the method in other letters", post, with(post, func(c *Call) { c.Method = "post" }), "not signed for this call"},
		{"another path", post, with(post, func(c *Call) { c.Target = "/api/v5/actions?a=b" }), "not signed for this call"},
		{"another query", post, with(post, func(c *Call) { c.Target = "/api/v5/notes?a=c" }), "not signed for this call"},
		{"no query", post, with(post, func(c *Call) { c.Target = "/api/v5/notes" }), "not signed for this call"},
		{"the path escaped", get, with(get, func(c *Call) { c.Target = "/api/v5/%6eotes" }), "not signed for this call"},
		{"another body", post, with(post, func(c *Call) { c.Body = []byte("{}") }), "another body"},
		{"a body where none was", get, with(get, func(c *Call) { c.Body = []byte("x") }), "another body"},
		{"no body where one was", post, with(post, func(c *Call) { c.Body = nil }), "another body"},
		{"a body that is not signed", unread, post, "the body is not signed"},
		{"another path, and the body not asked for", unread, with(unread, func(c *Call) { c.Target = "/" }), "not signed for this call"},
	} {
		header := signedFor(t, key, tt.signed, now)
		who, err := VerifyCall(header, tt.came, now, other, key)
		if tt.want == "" && (err != nil || who.Person != "ada") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || who.Person != "") {
			t.Errorf("%s: %+v, %v, want %q", tt.name, who, err, tt.want)
		}
		if _, err := Verify(header, now, key); err != nil {
			t.Errorf("%s: Verify: %v", tt.name, err)
		}
	}
	header := signedFor(t, key, post, now)
	change := func(name string, values ...string) map[string][]string {
		h := maps.Clone(header)
		if h[name] = values; values == nil {
			delete(h, name)
		}
		return h
	}
	said := header[HeaderCall][0]
	stranger := signedFor(t, other, post, now)
	for name, tt := range map[string]struct {
		header map[string][]string
		at     time.Time
	}{
		"none":                         {change(HeaderCall), now},
		"empty":                        {change(HeaderCall, ""), now},
		"twice":                        {change(HeaderCall, said, said), now},
		"in capitals":                  {change(HeaderCall, strings.ToUpper(said)), now},
		"with more behind":             {change(HeaderCall, said+",x=y"), now},
		"a body that is unsigned now":  {change(HeaderCall, "body=-,"+said[strings.Index(said, "v1="):]), now},
		"no identity's signature":      {change(HeaderSignature), now},
		"another identity's signature": {change(HeaderSignature, signedFor(t, key, post, now.Add(time.Second))[HeaderSignature][0]), now},
		"another person":               {change(HeaderPerson, "tor"), now},
		"a stranger's":                 {stranger, now},
		"a stranger's over ours":       {change(HeaderCall, stranger[HeaderCall][0]), now},
		"too late":                     {header, now.Add(Tolerance + time.Second)},
		"too early":                    {header, now.Add(-Tolerance - time.Second)},
	} {
		if who, err := VerifyCall(tt.header, post, tt.at, key); err == nil || who.Person != "" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if who, err := VerifyCall(tt.header, Call{Method: post.Method, Target: post.Target, Unread: true}, tt.at, key); err == nil || who.Person != "" {
			t.Errorf("%s, the body not asked for: %+v, %v", name, who, err)
		}
	}
	weak := key[:MinKey-1] // a short key signs nothing, also beside a good one
	byWeak := map[string]string{HeaderSignature: header[HeaderSignature][0]}
	if err := SignCall(weak, byWeak, post); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyCall(change(HeaderCall, byWeak[HeaderCall]), post, now, weak, key); err == nil {
		t.Error("a short key signs a call")
	}
	for _, bad := range []Call{{}, {Method: "GET"}, {Target: "/"}, {Method: "GET\n", Target: "/"}, {Method: "GET", Target: "/ x"}, {Method: "GET", Target: "/\n"}, {Method: "GÉT", Target: "/"}} {
		headers := map[string]string{}
		if err := SignCall(key, headers, bad); err == nil || len(headers) > 0 {
			t.Errorf("%+v is signed: %v", bad, headers)
		}
	}
}
