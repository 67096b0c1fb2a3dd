package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// cachedApproval is what memory keeps of an approval that has not ended: about 120 bytes
// with its share of the index. Epochs of 32 bits are enough: a fact that ends
// once a second lasts 136 years.
type cachedApproval struct {
	generation int64
	member     *facts.Member
	client     *facts.Client
	picks      string // four bytes each: role index and one bit for change
	born       [4]uint32
	used       uint32 // Unix seconds, true to the hour; 0 never
	issuedAt   uint32 // of the code, while it waits
	key        uint16
	age        uint16 // seconds from being made to issuedAt: a page that is answered again gets a later code
	phase      approval.Phase
	kind       byte // index into grantset.Kinds, and personalToo
	network    uint16
}

// personalToo marks the kind of a grant set that includes personal items.
const personalToo = 1 << 7

// createdAt is in Unix seconds.
func (h *cachedApproval) createdAt() int64 { return int64(h.issuedAt) - int64(h.age) }

func (h *cachedApproval) grantKind() grantset.Kind { return grantset.Kinds[h.kind&^personalToo] }

func (h *cachedApproval) epochs() approval.Epochs {
	return approval.Epochs{
		Membership: int64(h.born[0]), Person: int64(h.born[1]), Organization: int64(h.born[2]), Client: int64(h.born[3]),
	}
}

func (h *cachedApproval) standing() approval.Standing {
	return approval.Standing{
		Membership: h.member.Epoch, Person: h.member.Person.Epoch,
		Organization: h.member.Org.Epoch, Client: h.client.Epoch,
	}
}

const chunkLen = 1024

// approvalCache is a table of approvals in chunks, which keeps a million of them
// cheap for the garbage collector.
type approvalCache struct {
	elsewhere bool // on PostgreSQL the rows alone have them: nothing is kept here
	index     map[approval.ID]uint32
	chunks    []*[chunkLen]cachedApproval
	ids       []*[chunkLen]approval.ID
	newest    []int64 // of each chunk, or newer: when an approval in it was made
	free      []uint32
	next      uint32
}

func (t *approvalCache) at(id approval.ID) *cachedApproval {
	i, ok := t.index[id]
	if !ok {
		return nil
	}
	return &t.chunks[i/chunkLen][i%chunkLen]
}

func (t *approvalCache) put(id approval.ID, h cachedApproval) {
	if t.elsewhere {
		return
	}
	i, ok := t.index[id]
	if !ok {
		if n := len(t.free); n > 0 {
			i, t.free = t.free[n-1], t.free[:n-1]
		} else {
			i = t.next
			t.next++
			if int(i/chunkLen) == len(t.chunks) {
				t.chunks = append(t.chunks, new([chunkLen]cachedApproval))
				t.ids = append(t.ids, new([chunkLen]approval.ID))
				t.newest = append(t.newest, 0)
			}
		}
		t.index[id] = i
	}
	t.chunks[i/chunkLen][i%chunkLen] = h
	t.ids[i/chunkLen][i%chunkLen] = id
	t.newest[i/chunkLen] = max(t.newest[i/chunkLen], h.createdAt())
}

// eachCached shows every approval in memory, those of a chunk together under the
// lock: with a million of them nobody waits for all.
func (m *memory) eachCached(see func(approval.ID, *cachedApproval)) {
	for chunk := 0; ; chunk++ {
		m.RLock()
		if chunk >= len(m.approvals.chunks) {
			m.RUnlock()
			return
		}
		for i := range m.approvals.chunks[chunk] {
			if h := &m.approvals.chunks[chunk][i]; h.phase != 0 {
				see(m.approvals.ids[chunk][i], h)
			}
		}
		m.RUnlock()
	}
}

// lost reports whether a fact under the approval has ended.
func (h *cachedApproval) lost() bool { return approval.Standing(h.epochs()) != h.standing() }

func (t *approvalCache) drop(id approval.ID) {
	if i, ok := t.index[id]; ok {
		t.chunks[i/chunkLen][i%chunkLen] = cachedApproval{}
		t.ids[i/chunkLen][i%chunkLen] = approval.ID{}
		delete(t.index, id)
		t.free = append(t.free, i)
	}
}

// cached gives what memory keeps of an approval; nil facts are unknown ones, and the
// approval is left to its row.
func (m *memory) cached(a approval.Approval) (cachedApproval, error) {
	return m.cachedOn(m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization}), m.Clients[a.Client], a)
}

// cachedOn is cached on facts that were found.
func (m *memory) cachedOn(mem *facts.Member, c *facts.Client, a approval.Approval) (cachedApproval, error) {
	if mem == nil || c == nil {
		return cachedApproval{}, fmt.Errorf("approval %s stands on facts that are not there", a.ID)
	}
	h := cachedApproval{
		generation: a.Generation, member: mem, client: c, phase: a.Phase, key: uint16(a.Key), network: a.Network,
		born:     [4]uint32{uint32(a.Born.Membership), uint32(a.Born.Person), uint32(a.Born.Organization), uint32(a.Born.Client)},
		issuedAt: uint32(a.IssuedAt), age: uint16(min(max(a.IssuedAt-a.CreatedAt, 0), math.MaxUint16)),
	}
	for i, k := range grantset.Kinds {
		if k == a.Grant.Kind {
			h.kind = byte(i)
		}
	}
	if a.Grant.Personal {
		h.kind |= personalToo
	}
	if n := len(a.Grant.Picks); n > 0 {
		b := make([]byte, 0, 4*n)
		for _, p := range a.Grant.Picks {
			r := m.Roles.Get(p.Role)
			if r == nil {
				r = m.Gone[p.Role]
			}
			if r == nil {
				continue // remember was not asked
			}
			v := r.Index << 1
			if p.Change {
				v |= 1
			}
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		h.picks = string(b)
	}
	return h, nil
}

// uncached gives the approval behind an entry, without the code's fields.
func (m *memory) uncached(id approval.ID, h *cachedApproval) approval.Approval {
	return approval.Approval{
		ID: id, Client: h.client.ID, Person: h.member.Person.ID, Organization: h.member.Org.ID,
		IssuedAt: int64(h.issuedAt), Born: h.epochs(),
		State: approval.State{Phase: h.phase, Generation: h.generation, Key: int(h.key), Network: h.network},
	}
}

// grantSet rebuilds the grant set; picks are in order of role ID, as they were
// put there.
func (m *memory) grantSet(h *cachedApproval) grantset.Set {
	s := grantset.Set{Kind: h.grantKind(), Personal: h.kind&personalToo != 0}
	if n := len(h.picks) / 4; n > 0 {
		s.Picks = make([]grantset.Pick, n)
		for i := range s.Picks {
			b := h.picks[4*i:]
			v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
			s.Picks[i] = grantset.Pick{Role: m.RoleList[v>>1].ID, Change: v&1 == 1}
		}
	}
	return s
}
