package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// One /48 with many /64s takes a fiftieth of the room for clients that nobody has
// approved, and from then on 20 in an hour, as one address does. Others register.
func TestOneNetworkDoesNotFillRegistration(t *testing.T) {
	d := open(t)
	d.RegisterLimit, d.NetworkLimit = nil, nil
	d.handler = d.Handler()
	register := func(address string, uri string) (status int, retry string) {
		r := request("POST", "/oauth/register", fmt.Sprintf(`{"redirect_uris":[%q]}`, uri), "Content-Type", "application/json")
		r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 1).String()
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Retry-After")
	}
	flood := store.Origin{Network: limit.Block(netip.MustParseAddr("2001:db8:2::1"))}
	var all sync.WaitGroup
	for n := range 64 { // as that network could, in some minutes
		all.Go(func() {
			for i := n; i < store.UnapprovedPressure; i += 64 {
				c := client.Client{ID: fmt.Sprint("flood", i), RedirectURIs: []string{redirect}, IssuedAt: d.Store.Now().Unix()}
				if err := d.Store.AddClient(context.Background(), c, flood, store.Act{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if !d.Store.Pressed() {
		t.Fatal("no pressure")
	}
	const shared = "https://client.example/cb"
	for _, c := range []struct {
		name, address string // with one %d, of 300
		want          int
	}{
		{"the /48 that flooded, whose share is used up", "2001:db8:2:%x::1", 0},
		{"another /48", "2001:db8:3:%x::1", 20},
		{"a /24", "192.0.2.%d", 20},
		{"a /24 as IPv4-mapped", "::ffff:198.51.100.%d", 20},
		{"300 networks", "2001:db8:1%03x::1", 300},
	} {
		statuses := map[int]int{}
		for n := range 300 {
			status, retry := register(fmt.Sprintf(strings.Replace(c.address, "%d", "%[1]d", 1), n%250), shared)
			if statuses[status]++; status != 201 && retry == "" {
				t.Fatalf("%s: %d without Retry-After", c.name, status)
			}
			if c.want == 300 && n == 249 {
				break
			}
		}
		if want := min(c.want, 250); statuses[201] != want || statuses[500] > 0 {
			t.Errorf("%s: %v, want %d times 201", c.name, statuses, want)
		}
	}
	events, _, err := d.Store.Events(context.Background(), store.EventFilter{Kinds: []journal.Kind{journal.RateLimited}, Limit: 1000})
	if err != nil || len(events) != 4 {
		text, _ := json.Marshal(events)
		t.Errorf("%d entries say that a network was limited, want one for each, %v: %.500s", len(events), err, text)
	}
}
