package faults

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// registrations sends n from one address to each of the nodes in turn, and counts
// those that were let through.
func registrations(nodes []*node, address string, n int) (passed int) {
	for i := range n {
		if a := nodes[i%len(nodes)].ask("POST", "/oauth/register", "{}", "X-Forwarded-For", address); a.status != http.StatusTooManyRequests {
			passed++
		}
	}
	return passed
}

// eventually waits for something that nodes notice by themselves.
func eventually(t *testing.T, what string, is func(try int) bool) {
	t.Helper()
	within(t, 90*time.Second, what, is)
}

func within(t *testing.T, most time.Duration, what string, is func(try int) bool) {
	t.Helper()
	end := time.Now().Add(most)
	for try := 0; !is(try); try++ {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// I-12, I-13: three nodes hold a limit in their sum, and while the shared counter is
// away each lets a third of it through.
func TestI13_SharesOfLiveNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got := registrations(s.nodes, "203.0.113.1", 60); got != 20 {
		t.Errorf("three nodes let %d registrations through, want 20 in the sum", got)
	}
	s.counter.kill()
	eventually(t, "each of three nodes lets 6 of 20 through", func(try int) bool {
		for i := range s.nodes {
			if registrations(s.nodes[i:i+1], fmt.Sprintf("198.51.%d.%d", try, i), 8) != 6 {
				return false
			}
		}
		return true
	})
	if got := registrations(s.nodes, "203.0.113.2", 60); got != 18 {
		t.Errorf("three nodes let %d registrations through while the counter is away, want 3 times 6", got)
	}
	s.counter.start()
	eventually(t, "the counter is back at all nodes", func(int) bool {
		for _, n := range s.nodes {
			if !strings.Contains(string(n.operate("GET", "/metrics", "").body), "\ngrantkeeper_rate_limiter_away 0\n") {
				return false
			}
		}
		return true
	})
	if got := registrations(s.nodes, "203.0.113.3", 60); got != 18 {
		t.Errorf("after its return three nodes let %d through, want the shares for another window: 18", got)
	}
}

// Several nodes without a shared counter: a loud warning, and doctor fails.
func TestSeveralNodesWithoutACounter(t *testing.T) {
	t.Parallel()
	database := startPostgres(t)
	name, err := database.Database()
	if err != nil {
		t.Fatal(err)
	}
	at := database.URL(name)
	c := newCluster(t, nil, place{binary: binaries[0], database: at}, place{binary: binaries[0], database: at})
	eventually(t, "each node warns", func(int) bool {
		for _, n := range c.nodes {
			if log, _ := os.ReadFile(n.log.Name()); !strings.Contains(string(log), `"level":"WARN","msg":"several nodes count rate limits each for itself`) {
				return false
			}
		}
		return true
	})
	out, err := c.nodes[0].place.command(binaries[0], "doctor", "--config", c.nodes[0].config, "--only", "limits").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fail  limits") || !strings.Contains(string(out), "2 nodes count rate limits each for itself") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}
