package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// Connection is what Effects asks of one approval that has not ended.
type Connection struct {
	App    client.Hosts
	Member org.Member
	Grant  grantset.Set
	EndsAt int64 // Unix seconds; 0 is never
}

// Effect is one thing that saving a policy does to connections, and to how many. One
// of Host, Ceiling and EndsAt says what.
type Effect struct {
	Host        string            // they end, because the host is blocked
	Ceiling     grantset.Withheld // they get less, by this ceiling
	EndsAt      int64             // they end then: until now later, or never
	Connections int               // never 0
}

// Effects says what it does to put one policy in the place of another; nil is none. A
// connection that ends is counted for that alone, and one that gets less for each
// ceiling that would do it by itself. Of personal items beside roles it tells nothing,
// for admins are shown the numbers. now is in Unix seconds.
func Effects(before, after *Policy, now int64, connections iter.Seq[Connection]) []Effect {
	count := map[Effect]int{}
	was, latest := before.Limit(), after.Latest(now)
	if was == nil {
		was = &grantset.Ceiling{}
	}
	alone := each(was, after.Limit())
	for c := range connections {
		if top, blocked := after.blocks(c.App); blocked {
			count[Effect{Host: top}]++
			continue
		}
		grant := c.Grant.WithoutPersonal()
		had := grant.Narrow(c.Member, was)
		for why, ceiling := range alone {
			if !had.Within(grant.Narrow(c.Member, &ceiling)) {
				count[Effect{Ceiling: why}]++
			}
		}
		if latest != 0 && (c.EndsAt == 0 || c.EndsAt > latest) {
			count[Effect{EndsAt: latest}]++
		}
	}
	var out []Effect
	for e, n := range count {
		e.Connections = n
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.EndsAt, b.EndsAt), cmp.Compare(a.Ceiling, b.Ceiling), cmp.Compare(a.Host, b.Host))
	})
	return out
}

// each gives, for each ceiling that another one is to have, the first with that alone.
func each(was, next *grantset.Ceiling) map[grantset.Withheld]grantset.Ceiling {
	out := map[grantset.Withheld]grantset.Ceiling{}
	if next == nil {
		return out
	}
	widest, readOnly, noPersonal, never := *was, *was, *was, *was
	widest.Widest, readOnly.ReadOnly, noPersonal.NoPersonal, never.Never = next.Widest, next.ReadOnly, next.NoPersonal, next.Never
	out[next.WithholdsKind(grantset.Organization)] = widest // "" where it takes from nobody
	out[grantset.ReadsOnly], out[grantset.KeepPersonal], out[grantset.NeverGiven] = readOnly, noPersonal, never
	return out
}
