package store

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// A Stamp tells one state of an organization's facts from every other.
type Stamp = facts.Stamp

// Stamp gives the stamp of the facts in memory.
func (s *Store) Stamp(organization string) Stamp {
	s.memory.RLock()
	defer s.memory.RUnlock()
	if o := s.memory.Orgs[organization]; o != nil {
		return o.Stamp
	}
	return 0
}

// awaitCommit waits, on the embedded engine, for the commit that is under way: its
// rows can be seen before its facts can.
func (m *memory) awaitCommit() {
	m.settling.RLock()
	defer m.settling.RUnlock()
}

// An APIKeyID names an API key without being it.
type APIKeyID [sha256.Size]byte

// IdentifyAPIKey names an API key, whether or not there is one.
func IdentifyAPIKey(key string) APIKeyID { return sha256.Sum256([]byte(key)) }

// CheckAPIKey gives what an API key acts as (decision B6), as Check does for an
// approval: the grant set is all that its member may do. ErrNotFound: there is no
// such key, or it has ended.
func (s *Store) CheckAPIKey(ctx context.Context, id APIKeyID) (Access, error) {
	if s.engine.Recent() {
		if a, err := s.memory.apiKey(id); err == nil {
			a.Remembered = true
			return a, nil
		}
	}
	if err := s.fresh(ctx); err != nil {
		return Access{}, err
	}
	return s.memory.apiKey(id)
}

// CheckAPIKeyNow is to CheckAPIKey what CheckNow is to Check.
func (s *Store) CheckAPIKeyNow(ctx context.Context, id APIKeyID) (Access, error) {
	if err := s.engine.FreshNow(ctx); err != nil {
		return Access{}, err
	}
	return s.memory.apiKey(id)
}

func (m *memory) apiKey(id APIKeyID) (Access, error) {
	m.RLock()
	defer m.RUnlock()
	k, ok := m.APIKeys[id]
	if !ok {
		return Access{}, fmt.Errorf("API key: %w", ErrNotFound)
	}
	at := m.Members.Get(k.MemberKey)
	member := at.AsMember()
	if !member.Exists() || !k.Stands(at) {
		return Access{}, fmt.Errorf("API key: %w", ErrNotFound)
	}
	a := Access{PersonName: at.Person.Name, OrganizationName: at.Org.Name, Stamp: at.Org.Stamp}
	a.Approval.Person, a.Approval.Organization = k.Person, k.Organization
	a.Approval.Grant = grantset.Set{Kind: grantset.Everything}
	a.Authority = a.Approval.Grant.Narrow(member, nil)
	return a, nil
}
