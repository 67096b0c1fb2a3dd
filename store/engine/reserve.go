package engine

import "github.com/grantkeeper/grantkeeper/facts"

// A Reserved is room for one client that is being registered, so that those that
// register at once cannot each find the same last one. The memory's lock guards it.
type Reserved struct {
	facts.Weight
	left bool
}

// Leave gives the place back, once: the client counts now, or was refused.
func (m *Memory) Leave(p *Reserved) {
	if !p.left {
		m.Arriving.Add(p.Weight, -1)
		p.left = true
	}
}

// Reserve takes room, unless a bound refuses by what all hold and what the client's
// network does, and says what all hold.
func (m *Memory) Reserve(w facts.Weight, refuses func(there, of facts.Held) (bound string)) (at *Reserved, there facts.Held, bound string) {
	m.Lock()
	defer m.Unlock()
	there = m.Waiting.Plus(m.Arriving.Clients, m.Arriving.Bytes)
	of, arriving := m.Waiting.Networks[w.Network], m.Arriving.Networks[w.Network]
	if bound = refuses(there, of.Plus(arriving.Clients, arriving.Bytes)); bound != "" {
		return nil, there, bound
	}
	m.Arriving.Add(w, 1)
	return &Reserved{Weight: w}, there, ""
}
