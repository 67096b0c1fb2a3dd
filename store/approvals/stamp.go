package approvals

import (
	"context"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// A Stamp tells one state of an organization's facts from every other.
type Stamp = facts.Stamp

// Stamp gives the stamp of the facts in memory.
func (s *ApprovalStore) Stamp(organization string) Stamp {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	if o := s.db.Memory.Orgs[organization]; o != nil {
		return o.Stamp
	}
	return 0
}

// CheckAPIKey gives what an API key acts as (decision B6), as Check does for an
// approval: the grant set is all that its member may do. ErrNotFound: there is no
// such key, or it has ended.
func (s *ApprovalStore) CheckAPIKey(ctx context.Context, id engine.APIKeyID) (engine.Access, error) {
	if s.db.Engine.Recent() {
		if a, err := s.db.Memory.APIKey(id); err == nil {
			a.Remembered = true
			return a, nil
		}
	}
	if err := s.db.Fresh(ctx); err != nil {
		return engine.Access{}, err
	}
	return s.db.Memory.APIKey(id)
}

// CheckAPIKeyNow is to CheckAPIKey what CheckNow is to Check.
func (s *ApprovalStore) CheckAPIKeyNow(ctx context.Context, id engine.APIKeyID) (engine.Access, error) {
	if err := s.db.Engine.FreshNow(ctx); err != nil {
		return engine.Access{}, err
	}
	return s.db.Memory.APIKey(id)
}
