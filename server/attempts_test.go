package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// A flood of strangers takes their share of memory and rows, what has no room is counted,
// and a person's attempt in the midst of it stays (decision O9).
func TestFloodOfStrangers(t *testing.T) {
	const strangers, most, share = 40_000, 500, 100
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "grantkeeper.db"), Ring: ring, AttemptsMax: most})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &Server{store: db, metrics: metrics.New(metrics.Build{}, time.Now)}
	s.Attempts = config.Attempts{Max: most}
	var from netip.Addr
	see := s.observe(func(*http.Request) netip.Addr { return from })
	r := &http.Request{Header: http.Header{"User-Agent": {"<b>" + string(make([]byte, 64<<10))}}}
	flood := func(first, n int) {
		for i := range n {
			from = netip.AddrFrom4([4]byte{10, byte((first + i) >> 16), byte((first + i) >> 8), byte(first + i)})
			switch i % 3 {
			case 0:
				see(r, attempt.Observation{Step: attempt.Challenge, Outcome: attempt.Done})
			case 1:
				see(r, attempt.Observation{Step: attempt.Registration, Outcome: attempt.Failed, Reason: attempt.RedirectScheme})
			default:
				see(r, attempt.Observation{Step: attempt.Authorize, Outcome: attempt.Failed, Reason: attempt.ClientUnknown, Keys: attempt.Keys{Host: fmt.Sprint(first+i, ".example")}})
			}
			if i%4000 == 3999 {
				s.flushAttempts(t.Context())
			}
		}
	}
	flood(0, strangers/10)
	before := heap()
	see(r, attempt.Observation{Step: attempt.Consent, Outcome: attempt.Failed, Reason: attempt.Cancelled, Keys: attempt.Keys{Client: "c", Walk: "w", Person: "ada"}})
	flood(strangers/10, strangers-strangers/10)
	s.flushAttempts(t.Context())
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d bytes of memory are left of %d attempts", grown, strangers)
	}
	rows, _, err := db.Attempts(t.Context(), store.AttemptFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	persons, agents := 0, map[attempt.Agent]bool{}
	for _, one := range rows {
		if agents[one.Seen[0].Agent] = true; one.Person == "ada" {
			persons++
		}
	}
	if len(rows) > share+1 || persons != 1 || len(agents) != 1 || !agents[attempt.OtherAgent] {
		t.Errorf("%d rows, %d of the person, agents %v", len(rows), persons, agents)
	}
	counts, err := db.AttemptReasons(t.Context(), time.Now().Add(-time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, c := range counts {
		counted += c.Counted
	}
	if counted < strangers*9/10 || counted > strangers {
		t.Errorf("%d of %d are counted", counted, strangers)
	}
}

// heap is what is reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
