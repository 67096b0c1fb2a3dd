package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// CachedApproval is what memory keeps of an approval that has not ended: about 120 bytes
// with its share of the index. Epochs of 32 bits are enough: a fact that ends
// once a second lasts 136 years.
type CachedApproval struct {
	generation int64
	Member     *facts.Member
	Client     *facts.Client
	bound      *approval.Thumbprint // nil is none
	picks      string               // four bytes each: role index and one bit for change
	born       [4]uint32
	Used       uint32 // Unix seconds, true to the hour; 0 never
	IssuedAt   uint32 // of the code, while it waits
	endsAt     uint32 // Unix seconds; 0 is never
	key        uint16
	age        uint16 // seconds from being made to issuedAt: a page that is answered again gets a later code
	Phase      approval.Phase
	kind       byte // index into grantset.Kinds, and personalToo
	network    uint16
}

// personalToo marks the kind of a grant set that includes personal items.
const personalToo = 1 << 7

// CreatedAt is in Unix seconds.
func (h *CachedApproval) CreatedAt() int64 { return int64(h.IssuedAt) - int64(h.age) }

// GrantKind is that of the grant set.
func (h *CachedApproval) GrantKind() grantset.Kind { return grantset.Kinds[h.kind&^personalToo] }

func (h *CachedApproval) epochs() approval.Epochs {
	return approval.Epochs{
		Membership: int64(h.born[0]), Person: int64(h.born[1]), Organization: int64(h.born[2]), Client: int64(h.born[3]),
	}
}

// Standing is that of the facts under it now.
func (h *CachedApproval) Standing() approval.Standing {
	return approval.Standing{
		Membership: h.Member.Epoch, Person: h.Member.Person.Epoch,
		Organization: h.Member.Org.Epoch, Client: h.Client.Epoch,
	}
}

// Over reports whether the date has come on which an approval that lives ends.
func (h *CachedApproval) Over(now time.Time) bool {
	return h.Phase == approval.Live && h.endsAt > 0 && int64(h.endsAt) <= now.Unix()
}

const chunkLen = 1024

// ApprovalCache is a table of approvals in chunks, which keeps a million of them
// cheap for the garbage collector.
type ApprovalCache struct {
	Elsewhere bool // on PostgreSQL the rows alone have them: nothing is kept here
	Index     map[approval.ID]uint32
	chunks    []*[chunkLen]CachedApproval
	ids       []*[chunkLen]approval.ID
	newest    []int64 // of each chunk, or newer: when an approval in it was made
	free      []uint32
	Next      uint32
}

// At gives an approval, or nil.
func (t *ApprovalCache) At(id approval.ID) *CachedApproval {
	i, ok := t.Index[id]
	if !ok {
		return nil
	}
	return &t.chunks[i/chunkLen][i%chunkLen]
}

// Put adds or replaces one.
func (t *ApprovalCache) Put(id approval.ID, h CachedApproval) {
	if t.Elsewhere {
		return
	}
	i, ok := t.Index[id]
	if !ok {
		if n := len(t.free); n > 0 {
			i, t.free = t.free[n-1], t.free[:n-1]
		} else {
			i = t.Next
			t.Next++
			if int(i/chunkLen) == len(t.chunks) {
				t.chunks = append(t.chunks, new([chunkLen]CachedApproval))
				t.ids = append(t.ids, new([chunkLen]approval.ID))
				t.newest = append(t.newest, 0)
			}
		}
		t.Index[id] = i
	}
	t.chunks[i/chunkLen][i%chunkLen] = h
	t.ids[i/chunkLen][i%chunkLen] = id
	t.newest[i/chunkLen] = max(t.newest[i/chunkLen], h.CreatedAt())
}

// EachCached shows every approval in memory, those of a chunk together under the
// lock: with a million of them nobody waits for all.
func (m *Memory) EachCached(see func(approval.ID, *CachedApproval)) {
	for chunk := 0; ; chunk++ {
		m.RLock()
		if chunk >= len(m.Approvals.chunks) {
			m.RUnlock()
			return
		}
		m.Approvals.showChunk(chunk, see)
		m.RUnlock()
	}
}

// NewestChunks shows approvals as eachCached does, those that were made last first, by
// and large: of a chunk, if it may hold what is looked for by when the newest in it was
// made, all of them, and then its end, which is without the lock.
func (m *Memory) NewestChunks(may func(newest int64) bool, see func(approval.ID, *CachedApproval), end func()) {
	m.RLock()
	chunk := len(m.Approvals.chunks)
	m.RUnlock()
	for ; chunk > 0; chunk-- {
		m.RLock()
		if chunk <= len(m.Approvals.chunks) && may(m.Approvals.newest[chunk-1]) {
			m.Approvals.showChunk(chunk-1, see)
		}
		m.RUnlock()
		end()
	}
}

// showChunk shows the approvals of a chunk.
func (t *ApprovalCache) showChunk(chunk int, see func(approval.ID, *CachedApproval)) {
	for i := range t.chunks[chunk] {
		if h := &t.chunks[chunk][i]; h.Phase != 0 {
			see(t.ids[chunk][i], h)
		}
	}
}

// Lost reports whether a fact under the approval has ended.
func (h *CachedApproval) Lost() bool { return approval.Standing(h.epochs()) != h.Standing() }

func (t *ApprovalCache) drop(id approval.ID) {
	if i, ok := t.Index[id]; ok {
		t.chunks[i/chunkLen][i%chunkLen] = CachedApproval{}
		t.ids[i/chunkLen][i%chunkLen] = approval.ID{}
		delete(t.Index, id)
		t.free = append(t.free, i)
	}
}

// cached gives what memory keeps of an approval; nil facts are unknown ones, and the
// approval is left to its row.
func (m *Memory) cached(a approval.Approval) (CachedApproval, error) {
	return m.CachedOn(m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization}), m.Clients[a.Client], a)
}

// CachedOn is cached on facts that were found.
func (m *Memory) CachedOn(mem *facts.Member, c *facts.Client, a approval.Approval) (CachedApproval, error) {
	if mem == nil || c == nil {
		return CachedApproval{}, fmt.Errorf("approval %s stands on facts that are not there", a.ID)
	}
	h := CachedApproval{
		generation: a.Generation, Member: mem, Client: c, Phase: a.Phase, key: uint16(a.Key), network: a.Network,
		born:     [4]uint32{uint32(a.Born.Membership), uint32(a.Born.Person), uint32(a.Born.Organization), uint32(a.Born.Client)},
		IssuedAt: uint32(a.IssuedAt), endsAt: uint32(a.EndsAt), age: uint16(min(max(a.IssuedAt-a.CreatedAt, 0), math.MaxUint16)),
	}
	for i, k := range grantset.Kinds {
		if k == a.Grant.Kind {
			h.kind = byte(i)
		}
	}
	h.bind(a.Bound)
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

// bind notes the key that the approval is bound to.
func (h *CachedApproval) bind(key approval.Thumbprint) {
	switch {
	case key == approval.Thumbprint{}:
		h.bound = nil
	case h.bound == nil || *h.bound != key:
		h.bound = &key
	}
}

// Uncached gives the approval behind an entry, without the code's fields.
func (m *Memory) Uncached(id approval.ID, h *CachedApproval) approval.Approval {
	a := approval.Approval{
		ID: id, Client: h.Client.ID, Person: h.Member.Person.ID, Organization: h.Member.Org.ID,
		IssuedAt: int64(h.IssuedAt), EndsAt: int64(h.endsAt), Born: h.epochs(),
		State: approval.State{Phase: h.Phase, Generation: h.generation, Key: int(h.key), Network: h.network},
	}
	if h.bound != nil {
		a.Bound = *h.bound
	}
	return a
}

// Living gives an approval that lives, as Uncached does, if it is here.
func (m *Memory) Living(id approval.ID) (a approval.Approval, there bool) {
	m.RLock()
	defer m.RUnlock()
	h := m.Approvals.At(id)
	if h == nil || h.Phase != approval.Live {
		return a, false
	}
	return m.Uncached(id, h), true
}

// GrantSet rebuilds the grant set; picks are in order of role ID, as they were
// put there.
func (m *Memory) GrantSet(h *CachedApproval) grantset.Set {
	s := grantset.Set{Kind: h.GrantKind(), Personal: h.kind&personalToo != 0}
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

// LastUse is when a live approval was last used or its code issued; else 0.
func (m *Memory) LastUse(id approval.ID) int64 {
	if h := m.Approvals.At(id); h != nil && h.Phase == approval.Live {
		return h.LastUse()
	}
	return 0
}

// LastUse is its last use, or when its code was issued, in Unix seconds.
func (h *CachedApproval) LastUse() int64 { return int64(max(atomic.LoadUint32(&h.Used), h.IssuedAt)) }
