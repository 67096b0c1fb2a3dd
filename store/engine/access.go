package engine

import (
	"crypto/sha256"
	"fmt"
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

	Used uint32 // Unix seconds, true to the hour; 0 is never

	// Stamp is of the facts that the authority is made of.
	Stamp facts.Stamp

	// Remembered says that it is as it was some time ago, within
	// database.max_staleness. Whoever would refuse by that asks CheckNow, or
	// CheckAPIKeyNow.
	Remembered bool
}

// Idle reports whether the last use that is known is an hour old: a use of it is
// to be told to Used (decision P11).
func (a *Access) Idle(now time.Time) bool { return Idle(a.Used, uint32(now.Unix())) }

// Asked is one question to CheckAllNow, and its answer: of an approval, or of an
// API key.
type Asked struct {
	Approval approval.ID
	Key      APIKeyID
	ByKey    bool

	Access Access
	Err    error // ErrNotFound: it has ended
}

// Under is what stands under an approval, after so many changes of memory.
type Under struct {
	Changes              int64
	standing             approval.Standing
	authority            grantset.Authority
	person, organization string // their names
	stamp                facts.Stamp
}

// Under gathers what stands under an approval.
func (m *Memory) Under(a *approval.Approval) *Under {
	at := m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
	u := &Under{Changes: m.Changes, standing: m.StandingOn(at, a), authority: a.Grant.Narrow(at.AsMember(), at.Limit())}
	if at != nil {
		u.person, u.organization, u.stamp = at.Person.Name, at.Org.Name, at.Org.Stamp
	}
	return u
}

// Access puts an approval on it, which was used last at a time; 0 is never.
func (u *Under) Access(a approval.Approval, used uint32) Access {
	return Access{Approval: a, Standing: u.standing, Authority: u.authority, PersonName: u.person, OrganizationName: u.organization, Stamp: u.stamp, Used: used}
}

// An APIKeyID names an API key without being it.
type APIKeyID [sha256.Size]byte

// IdentifyAPIKey names an API key, whether or not there is one.
func IdentifyAPIKey(key string) APIKeyID { return sha256.Sum256([]byte(key)) }

// APIKey gives what an API key acts as. ErrNotFound: it is not there, or has ended.
func (m *Memory) APIKey(id APIKeyID) (Access, error) {
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

// UseGrain is how true the last use is (decision P11). A refresh saves its own; so
// of calls, which come within 30 minutes of the refresh or the exchange that gave
// their token, at most the first is to be noted.
const UseGrain = time.Hour

// Idle reports whether a use is to be noted after an earlier one, both in Unix seconds.
func Idle(used, now uint32) bool { return now-used >= uint32(UseGrain/time.Second) }
