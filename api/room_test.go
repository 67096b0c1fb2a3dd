package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// slow is a connection that reads what was written after the handler has
// returned, as HTTP/2 may when a stream was reset beneath a large write.
type slow struct {
	*httptest.ResponseRecorder
	written [][]byte
}

func (s *slow) Write(p []byte) (int, error) {
	s.written = append(s.written, p)
	return len(p), nil
}

// A body that the connection may still read is never written over by the
// answer to somebody else.
func TestLargeBodiesAreNotReused(t *testing.T) {
	h := newHouse(t)
	d := store.Directory{}
	for i := range 100 {
		id := fmt.Sprintf("role-%03d", i)
		d.Roles = append(d.Roles, org.Role{ID: id, Organization: "nordlys", Circle: "general", Name: "Keeper of " + id})
		d.Fillers = append(d.Fillers, store.Filler{Role: id, Person: "ada"}, store.Filler{Role: id, Person: "tor"})
	}
	if err := h.store.AddDirectory(t.Context(), d, store.Act{}); err != nil {
		t.Fatal(err)
	}
	me := func(access string) *slow {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v5/me", nil)
		r.Header.Set("Authorization", "Bearer "+access)
		w := &slow{ResponseRecorder: httptest.NewRecorder()}
		h.handler.ServeHTTP(w, r)
		if len(w.written) != 1 || len(w.written[0]) < 5000 {
			t.Fatalf("%d: %d writes", w.Code, len(w.written))
		}
		return w
	}
	ada, tor := h.live("ada", "nordlys", everything), h.live("tor", "nordlys", everything)
	for range 20 { // a pool forgets now and then
		first := me(ada.access)
		before := string(first.written[0])
		me(tor.access)
		if after := string(first.written[0]); after != before || !strings.Contains(after, "Countess") {
			t.Fatal("the answer to Ada is the answer to Tor")
		}
	}
}
