package mcp

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/token"
)

func ringOf(t testing.TB, sealing int, keys ...*token.Key) *token.Ring {
	t.Helper()
	r, err := token.NewRing("sv", sealing, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An ID comes back to whom it was given, and is nothing to anybody else, in another
// session or for another service (decisions V5 and V6).
func TestBind(t *testing.T) {
	one, two := token.NewKey(1, [32]byte{1}), token.NewKey(2, [32]byte{2})
	b := binder{ringOf(t, 1, one), "approval a", "http://a/mcp"}
	others := map[string]binder{
		"another approval": {b.ring, "approval b", b.upstream}, "nobody": {b.ring, "", b.upstream}, "another service": {b.ring, b.who, "http://b/mcp"}, "another path": {b.ring, b.who, "/reports/mcp" + b.upstream},
		"parts moved": {b.ring, b.who + b.upstream, ""}, "another key": {ringOf(t, 1, token.NewKey(1, [32]byte{9})), b.who, b.upstream},
	}
	for _, id := range []string{"s", "0", "a.b", "a.", ".", strings.Repeat("x", 22), "ID." + strings.Repeat("y", 22)} {
		s, e := b.session(id), b.event("s1", id)
		if got, ok := b.unbindSession(s); !ok || got != id {
			t.Errorf("%q: session %q, %t", s, got, ok)
		}
		if got, ok := b.unbindEvent("s1", e); !ok || got != id {
			t.Errorf("%q: event %q, %t", e, got, ok)
		}
		for name, o := range others {
			if _, ok := o.unbindSession(s); ok {
				t.Errorf("%s has the session %q", name, s)
			}
			if _, ok := o.unbindEvent("s1", e); ok {
				t.Errorf("%s has the event %q", name, e)
			}
		}
		for _, in := range []string{"", "s2", "s1."} {
			if _, ok := b.unbindEvent(in, e); ok {
				t.Errorf("%q is of the session %q too", e, in)
			}
		}
		_, asEvent := b.unbindEvent("s1", s)
		if _, asSession := b.unbindSession(e); asEvent || asSession {
			t.Errorf("%q and %q are each other", s, e)
		}
		for _, bad := range []string{id, id + ".", s + "x", s[:len(s)-1], "x" + s, s[len(id):], "", strings.ToUpper(s)} {
			if got, ok := b.unbindSession(bad); ok && bad != s {
				t.Errorf("%q is the session %q", bad, got)
			}
		}
		rotated := binder{ringOf(t, 2, one, two), b.who, b.upstream}
		if got, ok := rotated.unbindSession(s); !ok || got != id || rotated.session(id) == s {
			t.Errorf("after a rotation %q is %q, %t", s, got, ok)
		}
	}
}

// What is bound comes back unchanged, and no change of it does.
func FuzzBind(f *testing.F) {
	f.Add("who", "id", "session", "id.tag")
	f.Add("", ".", "", "")
	b := binder{ring: ringOf(f, 1, token.NewKey(1, [32]byte{1})), upstream: "http://a"}
	f.Fuzz(func(t *testing.T, who, id, session, other string) {
		b := b
		b.who = who
		if id == "" {
			return
		}
		bound := b.event(session, id)
		if got, ok := b.unbindEvent(session, bound); !ok || got != id {
			t.Errorf("%q: %q, %t", bound, got, ok)
		}
		if got, ok := b.unbindEvent(session, other); ok && other != bound {
			t.Errorf("%q is %q", other, got)
		}
	})
}
