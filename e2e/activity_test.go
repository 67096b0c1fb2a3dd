package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

var activityChanges = flag.Int("activity", 300, "how many changes TestActivityThroughKills makes, at least")

// changing is a service that notes what it has changed, and says so.
type changing struct {
	*httptest.Server
	mu   sync.Mutex
	done map[string]time.Time // by path
	n    atomic.Int64
}

func changes(t *testing.T) *changing {
	c := &changing{done: map[string]time.Time{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		text, err := identity.ItemsText(identity.Item{ID: r.URL.Path, Title: "Thing", Kind: r.URL.Path, Did: identity.Changed}) // a kind is told to operators
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		if _, twice := c.done[r.URL.Path]; twice {
			t.Errorf("%s is sent twice", r.URL.Path)
		}
		c.done[r.URL.Path] = time.Now()
		c.mu.Unlock()
		c.n.Add(1)
		w.Header().Set(identity.HeaderItems, text)
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *changing) lines(t *testing.T) string {
	return fmt.Sprintf("[service]\nkey_file = %q\n[api]\nupstream = %q\n", secretFile(t, nginxKey), c.URL)
}

// Decision V71, in real processes that are killed at any moment: whatever the service did is recorded
// once, or lies in a gap; nothing else is recorded as done.
func TestActivityThroughKills(t *testing.T) {
	t.Parallel()
	t.Run("two nodes on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c := changes(t)
		_, all := nodes(t, 2, c.lines(t))
		c.through(t, all, false)
	})
	t.Run("one on SQLite", func(t *testing.T) {
		t.Parallel()
		c := changes(t)
		c.through(t, []*house{serve(t, served{apiLimit: c.lines(t)})}, true)
	})
}

// through makes changes at all nodes while these are killed and started again; some end in
// order, where that is asked for.
func (c *changing) through(t *testing.T, all []*house, orderly bool) {
	_, tokens := all[0].connected("", "organization", "nordlys", "grant", "everything")
	live := all[0].items("/v1/approvals?state=live")[0]
	approval, created := live["id"].(string), int64(live["created_at"].(float64))
	caller := all[0].caller()
	call := func(h *house, path string) bool {
		a, err := caller.try("PUT", h.base+path, "{}", header{"Authorization", "Bearer " + tokens.access, "Content-Type", "application/json", "Host", all[0].host()})
		if err == nil && a.status != 200 && a.status != 502 && a.status != 503 {
			t.Errorf("%s: %s", path, a)
		}
		return err == nil && a.status == 200
	}
	total := int64(*activityChanges)
	var next, acknowledged atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for c.n.Load() < total && !t.Failed() {
				n := next.Add(1)
				if call(all[n%int64(len(all))], fmt.Sprint("/api/v5/things/", n)) {
					acknowledged.Add(1)
				}
				time.Sleep(15 * time.Millisecond)
			}
		})
	}
	kills := min(max(total/250, 4), 40)
	for k := range kills {
		for c.n.Load() < total*(k+1)/(kills+1) && !t.Failed() {
			time.Sleep(5 * time.Millisecond)
		}
		h := all[rand.IntN(len(all))]
		if orderly && k%2 == 1 {
			h.stop()
		} else {
			h.kill()
		}
		time.Sleep(rand.N(300 * time.Millisecond))
		h.serve(0)
	}
	callers.Wait()
	end := time.Now().Unix()
	time.Sleep(1100 * time.Millisecond)
	for i, h := range all { // has each node say how far it has written
		if !call(h, fmt.Sprint("/api/v5/things/last-", i)) {
			t.Error("the last change fails")
		}
	}
	c.check(t, all[0], approval, created, end, fmt.Sprintf("%d kills, %d changes acknowledged", kills, acknowledged.Load()))
}

// recordedDeeds is a page of what the API says.
type recordedDeeds struct {
	Items []struct{ Kind, Outcome string }
	Gaps  []struct {
		From, To int64
		Why      string
	}
	Complete int64
	Next     string
}

func (h *house) deeds(approval string, more ...string) (p recordedDeeds) {
	h.t.Helper()
	a := h.operate("/v1/approvals/" + approval + "/activity?order=oldest&limit=1000&" + form(more...))
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 200 {
		h.t.Fatalf("%s: %v", a, err)
	}
	return p
}

// check compares what is recorded of an approval, made at a time by the nodes' clocks, with what was done.
func (c *changing) check(t *testing.T, h *house, approval string, created, end int64, says string) {
	t.Helper()
	first := h.deeds(approval)
	for until := time.Now().Add(90 * time.Second); first.Complete <= end && time.Now().Before(until); time.Sleep(time.Second) {
		first = h.deeds(approval) // a node that was killed is found out after a while
	}
	if first.Complete <= end {
		t.Errorf("complete to %d, the end is %d", first.Complete, end)
	}
	times := map[string]int{}
	unanswered := 0
	for page := first; ; page = h.deeds(approval, "after", page.Next) {
		for _, r := range page.Items {
			switch r.Outcome {
			case "done":
				times[r.Kind]++
			case "unanswered":
				unanswered++
			default:
				t.Errorf("%+v", r)
			}
		}
		if page.Next == "" {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := 0
	for path, done := range c.done {
		// The machine's clock may have been set back, and the nodes' never are (decision T12): what
		// was done of an approval was not done before it was made.
		at := max(done.Unix(), created)
		inGap := false
		for _, g := range first.Gaps {
			inGap = inGap || g.Why == "stopped" && g.From <= at && (g.To == 0 || at <= g.To)
		}
		switch n := times[path]; {
		case n > 1:
			t.Errorf("%s is recorded %d times", path, n)
		case n == 0 && at >= first.Complete:
			// Nothing is said of it yet: it may still be on its way to the database.
		case n == 0 && !inGap:
			t.Errorf("%s at %d is missing without a mark: %v", path, at, first.Gaps)
		case n == 0:
			lost++
		}
	}
	for path := range times {
		if _, did := c.done[path]; !did {
			t.Errorf("%s is invented", path)
		}
	}
	t.Logf("%s: the service did %d; recorded %d once, %d as not answered; %d missing, each in one of %d gaps", says, len(c.done), len(times), unanswered, lost, len(first.Gaps))
}
