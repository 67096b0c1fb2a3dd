package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// Access is what a bearer check needs: an approval without the code's fields,
// the facts under it, and what they leave of its grant set.
type Access struct {
	Approval approval.Approval
	Standing approval.Standing
	grantset.Authority

	// What a person reads of them: names at the same moment.
	PersonName, OrganizationName string

	used uint32 // Unix seconds, true to the hour; 0 is never

	// Stamp is of the facts that the authority is made of.
	Stamp facts.Stamp

	// Remembered says that it is as it was some time ago, within
	// database.max_staleness. Whoever would refuse by that asks CheckNow, or
	// CheckAPIKeyNow.
	Remembered bool
}

// Idle reports whether the last use that is known is an hour old: a use of it is
// to be told to Used (decision P11).
func (a *Access) Idle(now time.Time) bool { return idle(a.used, uint32(now.Unix())) }

// CheckNow is Check that answers from nothing that is remembered: a token may be
// younger than that. What has rows that can be read by then is in the answer, so
// that a Check before a read and a CheckNow after it, with one Stamp, have seen the
// facts that belong to what was read.
func (s *Store) CheckNow(ctx context.Context, id approval.ID) (Access, error) {
	return s.engine.CheckNow(ctx, id)
}

// Asked is one question to CheckAllNow, and its answer: of an approval, or of an
// API key.
type Asked struct {
	Approval approval.ID
	Key      APIKeyID
	ByKey    bool

	Access Access
	Err    error // ErrNotFound: it has ended
}

// CheckAllNow answers many as CheckNow and CheckAPIKeyNow do. On PostgreSQL the
// questions go to the database together, up to 512 in one statement; the embedded
// engine has the answers in memory.
func (s *Store) CheckAllNow(ctx context.Context, all []Asked) {
	s.engine.CheckAllNow(ctx, all)
}

// Check gives an approval that has not ended, exactly as it stands.
// ErrNotFound means that there is none.
func (s *Store) Check(ctx context.Context, id approval.ID) (Access, error) {
	return s.engine.Check(ctx, id)
}

// Under gives what Check would find under an approval, whatever has become of
// it: for those who ask why it is refused.
func (s *Store) Under(row ApprovalRow) Access {
	s.memory.RLock()
	defer s.memory.RUnlock()
	return s.memory.under(&row.Approval).access(row.Approval, 0)
}

// under is what stands under an approval, after so many changes of memory.
type under struct {
	changes              int64
	standing             approval.Standing
	authority            grantset.Authority
	person, organization string // their names
	stamp                facts.Stamp
}

// under gathers what stands under an approval.
func (m *memory) under(a *approval.Approval) *under {
	at := m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
	u := &under{changes: m.changes, standing: m.StandingOn(at, a), authority: a.Grant.Narrow(at.AsMember(), nil)}
	if at != nil {
		u.person, u.organization, u.stamp = at.Person.Name, at.Org.Name, at.Org.Stamp
	}
	return u
}

func (u *under) access(a approval.Approval, used uint32) Access {
	return Access{Approval: a, Standing: u.standing, Authority: u.authority, PersonName: u.person, OrganizationName: u.organization, Stamp: u.stamp, used: used}
}
