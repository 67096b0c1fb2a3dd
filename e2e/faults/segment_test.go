package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// A segment is a network namespace of a node's own, with two cables: one to its
// clients and operators, and one to everything else. Pulling one loses packets, and
// tells nobody.
type segment struct {
	name            string
	clients, others cable
}

// A cable is a pair of virtual interfaces.
type cable struct {
	device string // our end
	here   string // our address
	there  string // the node's
}

var segments atomic.Int64

// newSegments gives so many of them, or says what the kernel refuses.
func newSegments(t testing.TB, n int) ([]*segment, error) {
	t.Helper()
	var all []*segment
	for range n {
		number := segments.Add(1)
		g := &segment{name: fmt.Sprintf("gk%x-%d", os.Getpid(), number)}
		if err := ip("netns", "add", g.name); err != nil {
			return nil, err
		}
		t.Cleanup(func() { ip("netns", "del", g.name) })
		for c, at := range []*cable{&g.clients, &g.others} {
			at.device = fmt.Sprintf("%s%c", g.name, 'a'+c)
			// The range for benchmarks (RFC 2544), which nobody else has here.
			at.here = fmt.Sprintf("198.18.%d.%d", number%256, 4*c+1)
			at.there = fmt.Sprintf("198.18.%d.%d", number%256, 4*c+2)
			inner := fmt.Sprintf("eth%d", c)
			err := errors.Join(
				ip("link", "add", at.device, "type", "veth", "peer", "name", inner, "netns", g.name),
				ip("addr", "add", at.here+"/30", "dev", at.device),
				ip("link", "set", at.device, "up"),
				ip("-n", g.name, "addr", "add", at.there+"/30", "dev", inner),
				ip("-n", g.name, "link", "set", inner, "up"))
			if err != nil {
				return nil, err
			}
		}
		if err := ip("-n", g.name, "link", "set", "lo", "up"); err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// ip runs the command that is called so.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (c cable) pull() error { return ip("link", "set", c.device, "down") }
func (c cable) plug() error { return ip("link", "set", c.device, "up") }

// cutOff separates a node from the database and the counter, while its clients reach
// it; or from those as well.
func (s *site) cutOff() []fault {
	if s.segments == nil {
		return nil
	}
	cut := func(m *maker, most int, cables ...cable) {
		for _, c := range cables {
			m.must(c.pull())
		}
		m.sleep(500, most)
		for _, c := range cables {
			m.must(c.plug())
		}
	}
	some := func(m *maker) *segment { return s.segments[m.random.IntN(len(s.segments))] }
	return []fault{
		{"node cut off from all but its clients", func(m *maker) { cut(m, 9000, some(m).others) }},
		{"node cut off from everything", func(m *maker) { g := some(m); cut(m, 6000, g.clients, g.others) }},
	}
}
