package devserver

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

func TestDevBannerByDefault(t *testing.T) {
	var b strings.Builder
	Options{}.banner(&b, Ready{Server: "http://127.0.0.1:8080", Operator: "http://127.0.0.1:8081"}, 0)
	for _, line := range []string{
		"  Operator     http://127.0.0.1:8081            (user operator, password as below)\n",
		"    in a terminal   grantkeeper demo\n", "Ready in 0 ms. Stop with Ctrl-C.\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("without %q:\n%s", line, b.String())
		}
	}
}

// The demo data are what dev says of them.
func TestDemoData(t *testing.T) {
	d := demoDirectory("hash")
	fills, circles, depth := map[string]int{}, map[string]int{}, map[string]int{}
	in := map[string]string{} // organization by role
	for _, r := range d.Roles {
		in[r.ID] = r.Organization
	}
	for _, f := range d.Fillers {
		fills[f.Person+" "+in[f.Role]]++
	}
	parents := map[string]string{}
	for _, c := range d.Circles {
		circles[c.Organization]++
		parents[c.ID] = c.Parent
		n := 1
		for p := c.Parent; p != ""; p = parents[p] {
			n++
		}
		depth[c.Organization] = max(depth[c.Organization], n)
	}
	for key, want := range map[string]int{"ada nordlys": 9, "ada fjell": 2, "tor nordlys": 3, "mei storhavn": 300, "ola havn": 2} {
		if fills[key] != want {
			t.Errorf("%s: %d roles, want %d", key, fills[key], want)
		}
	}
	if len(fills) != 5 || circles["storhavn"] != 25 || depth["nordlys"] < 4 || depth["storhavn"] < 3 {
		t.Errorf("fillers %v, circles %v, depth %v", fills, circles, depth)
	}
	id := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	var ids []string
	for _, p := range d.People {
		ids = append(ids, p.ID)
		if !p.Active || p.PasswordHash != "hash" || p.Support != (p.ID == "support") {
			t.Errorf("person %+v", p)
		}
	}
	for _, r := range d.Roles {
		ids = append(ids, r.ID)
	}
	for _, c := range d.Circles {
		ids = append(ids, c.ID)
	}
	for _, one := range ids {
		if !id.MatchString(one) {
			t.Errorf("ID %q", one)
		}
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(d.People)+len(d.Roles)+len(d.Circles) {
		t.Error("an ID comes twice")
	}
	if !slices.Contains(d.Members, store.DirectoryMember{Person: "ada", Organization: "nordlys", Admin: true}) {
		t.Error("Ada is no admin of Nordlys")
	}
	for _, o := range d.Organizations {
		if o.AIIntegration == (o.ID == "havn") {
			t.Errorf("AI integration of %s: %v", o.ID, o.AIIntegration)
		}
	}
}

// A stopped clock stands still to the second, moves when it is told, and goes
// on from where it stood.
func TestDevClockStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newDevClock()
		yes, no := true, false
		start := c.now()
		at := func(name string, want time.Duration) {
			t.Helper()
			if got := c.now().Sub(start); got != want {
				t.Errorf("%s: %v after the start, want %v", name, got, want)
			}
		}
		time.Sleep(time.Minute)
		at("going", time.Minute)
		if state, ok := c.move(operator.ClockMove{By: time.Hour, Stop: &yes}); !ok || !state.Stopped || state.Ahead != time.Hour {
			t.Errorf("stopped: %+v %v", state, ok)
		}
		time.Sleep(time.Minute)
		at("stopped", time.Hour+time.Minute)
		c.move(operator.ClockMove{By: time.Second, Stop: &yes})
		at("moved while stopped", time.Hour+time.Minute+time.Second)
		if state, ok := c.move(operator.ClockMove{Stop: &no}); !ok || state.Stopped {
			t.Errorf("going again: %+v %v", state, ok)
		}
		at("going again", time.Hour+time.Minute+time.Second)
		time.Sleep(time.Minute)
		at("going on", time.Hour+2*time.Minute+time.Second)
		if _, ok := c.move(operator.ClockMove{By: operator.MaxAhead, Stop: &yes}); ok {
			t.Error("it was moved too far")
		}
		time.Sleep(time.Minute)
		at("after a refusal", time.Hour+3*time.Minute+time.Second)
	})
}

func TestDevClientRemembersFewWalks(t *testing.T) {
	d := newDevClient("127.0.0.1:1", nil)
	first := d.begin("http://127.0.0.1:1")
	for range maxFlows {
		d.begin("http://127.0.0.1:1")
	}
	if len(d.flows) != maxFlows || d.find(func(f *flow) bool { return f == first }) != nil {
		t.Errorf("%d walks are remembered", len(d.flows))
	}
}
