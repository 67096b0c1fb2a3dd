package faults

import (
	"testing"
	"time"
)

// With the bounded cache a node that is cut off from all but its clients accepts what has
// ended elsewhere for no longer than the bound, then answers 503, and 401 once it is back.
func TestCutOffNodeIsBounded(t *testing.T) {
	const bound = 3 * time.Second
	s := newSite(t, "GRANTKEEPER_DATABASE_MAX_STALENESS="+bound.String())
	s.furnish(1)
	l := newLoad(s.cluster)
	x := &life{load: l, person: <-l.people, client: l.register(), verifier: random()}
	if x.code = x.approve(); x.code == "" || x.exchange(0) != yes {
		t.Fatal("no approval")
	}
	alone := s.nodes[2]
	ask := func() int {
		return alone.ask("GET", "/api/v5/me", "", "Authorization", "Bearer "+x.access[0].token).status
	}
	if status := ask(); status != 200 {
		t.Fatalf("before anything: %d", status)
	}
	back := s.separate(t, 2)
	s.moves(t, x.person.id, "remove")
	ended := time.Now()
	accepted, refused := 0, 0
	for refused < 3 || time.Since(ended) < bound+2*time.Second {
		asked := time.Now()
		switch status := ask(); {
		case status == 200 && asked.Sub(ended) > bound:
			t.Fatalf("accepted %v after its end was acknowledged", asked.Sub(ended))
		case status == 200:
			accepted++
		case status == 503, status == 0: // or none within the client's patience
			refused++
		default:
			t.Fatalf("cut off, it answers %d", status)
		}
	}
	back()
	eventually(t, "the node that is back answers 401", func(int) bool {
		status := ask()
		if status == 200 {
			t.Fatal("accepted after the node was back")
		}
		return status == 401
	})
	t.Logf("cut off, it accepted %d times and refused %d", accepted, refused)
}

// separate cuts a node off from all but its clients, until back is called.
func (s *site) separate(t *testing.T, n int) (back func()) {
	t.Helper()
	if s.segments == nil {
		s.links[n].sever(true)
		s.counters[n].sever(true)
		return func() { s.links[n].mend(); s.counters[n].mend() }
	}
	if err := s.segments[n].others.pull(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := s.segments[n].others.plug(); err != nil {
			t.Error(err)
		}
	}
}
