package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"github.com/grantkeeper/grantkeeper/facts"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
)

// ToldRetention is how long an event of a service's directory is known by its
// ID. Long before that its signature is too old to come once more.
const ToldRetention = 7 * 24 * time.Hour

// A Telling is one event of a service's own directory: one object as it is
// now, or that it is gone. Of the fields one is set, or Gone with the object's
// IDs.
type Telling struct {
	ID      string // of the event
	Digest  string // of all that it says
	Version int64  // of the object; it grows with each change of it

	Person       *DirectoryPerson
	Organization *org.Organization
	Member       *DirectoryMember
	Circle       *org.Circle
	Role         *org.Role
	Filler       *Filler
	Unsaid       bool // the flags of person, organization and member were not sent

	Gone bool

	// Like says whether a picture of the organization is the one that the sender
	// decided by; nil is no condition. With one, a Version of 0 is the next of
	// the object.
	Like func(Picture) bool
}

// What an event has come to.
const (
	ToldApplied   = "applied"
	ToldUnchanged = "unchanged" // it was so already
	ToldOld       = "old"       // a later one has told of the object: nothing is changed
)

// object names what the event is about, and what that stands on.
func (t Telling) object() (name string, on []string) {
	switch {
	case t.Person != nil:
		return "person:" + t.Person.ID, nil
	case t.Organization != nil:
		return "organization:" + t.Organization.ID, nil
	case t.Member != nil:
		return "membership:" + t.Member.Organization + "/" + t.Member.Person,
			[]string{"person:" + t.Member.Person, "organization:" + t.Member.Organization}
	case t.Circle != nil:
		return "circle:" + t.Circle.ID, []string{"organization:" + t.Circle.Organization}
	case t.Role != nil:
		return "role:" + t.Role.ID, []string{"organization:" + t.Role.Organization, "circle:" + t.Role.Circle}
	case t.Filler != nil:
		return "filler:" + t.Filler.Role + "/" + t.Filler.Person, []string{"role:" + t.Filler.Role, "person:" + t.Filler.Person}
	}
	return "", nil
}

// gonePrefix marks the version at which an object was removed: what is older
// than that and stands on the object is gone too.
const gonePrefix = "gone:"

// TellDirectory takes one event, and says what it came to. One that comes
// twice is one. ErrNotFound: it refers to what is not there; ErrConflict: it
// contradicts what is there, or its ID was another event's; ErrChanged: the
// sender decided by another picture. None is remembered: the event may come
// again.
func (s *Store) TellDirectory(ctx context.Context, t Telling, act Act) (result string, err error) {
	err = s.writer.changeFacts(func(tx *Tx) error {
		result, err = tx.toldBefore(t)
		if result != "" || err != nil {
			return err
		}
		if result, err = tx.tell(t, act); err != nil {
			return err
		}
		_, err = tx.exec(`INSERT INTO directory_event (id, at, digest, result) VALUES ($1, $2, $3, $4)`,
			t.ID, tx.store.Now().Unix(), t.Digest, result)
		return err
	})
	if err != nil {
		return "", err
	}
	if result == ToldApplied {
		s.markSoon(ctx)
	}
	return result, nil
}

// toldBefore gives what an event came to that was told already, or "".
func (tx *Tx) toldBefore(t Telling) (string, error) {
	var digest, result string
	err := tx.queryRow(`SELECT digest, result FROM directory_event WHERE id = $1`, t.ID).Scan(&digest, &result)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case digest != t.Digest:
		return "", fmt.Errorf("event %s: another one had this ID: %w", t.ID, ErrConflict)
	}
	return result, nil
}

func (tx *Tx) tell(t Telling, act Act) (string, error) {
	name, on := t.object()
	last, err := tx.toldVersion(name, on)
	if err != nil {
		return "", err
	}
	if err := tx.unlike(t); err != nil {
		return "", err
	}
	if t.Version == 0 && t.Like != nil {
		t.Version = last + 1
	}
	if t.Version <= last {
		return ToldOld, tx.journal(Event{Kind: "directory_refused", Detail: name + ", version " + fmt.Sprint(t.Version) + " after " + fmt.Sprint(last),
			Reason: "old_version", Person: t.person(), Organization: t.organization()}.by(act))
	}
	p, err := tx.planTelling(t)
	if err != nil {
		return "", err
	}
	p.told = &ending{t.person(), t.organization(), name}
	if err := tx.carryOut(p, act); err != nil {
		return "", err
	}
	names := []string{name}
	if t.Gone {
		names = append(names, gonePrefix+name)
	}
	for _, name := range names {
		if _, err := tx.exec(`
			INSERT INTO directory_version (object, version) VALUES ($1, $2)
			ON CONFLICT (object) DO UPDATE SET version = excluded.version`, name, t.Version); err != nil {
			return "", err
		}
	}
	if len(p.out.Lists) == 0 {
		return ToldUnchanged, nil
	}
	return ToldApplied, nil
}

func (t Telling) person() string {
	switch {
	case t.Person != nil:
		return t.Person.ID
	case t.Member != nil:
		return t.Member.Person
	case t.Filler != nil:
		return t.Filler.Person
	}
	return ""
}

func (t Telling) organization() string {
	switch {
	case t.Organization != nil:
		return t.Organization.ID
	case t.Member != nil:
		return t.Member.Organization
	case t.Circle != nil:
		return t.Circle.Organization
	case t.Role != nil:
		return t.Role.Organization
	}
	return ""
}

// toldVersion is the version from which on an event about the object is not
// old: that of its last event, of the removal of what it stands on, or of the
// last picture of all.
func (tx *Tx) toldVersion(name string, on []string) (int64, error) {
	last, err := tx.asOf()
	if err != nil {
		return 0, err
	}
	names := []any{name}
	for _, one := range on {
		names = append(names, gonePrefix+one)
	}
	for _, one := range names {
		var version int64
		err := tx.queryRow(`SELECT version FROM directory_version WHERE object = $1`, one).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		last = max(last, version)
	}
	return last, nil
}

// planTelling plans what one event changes.
func (tx *Tx) planTelling(t Telling) (*plan, error) {
	if t.Gone {
		p, err := tx.plan(Import{})
		if err != nil {
			return nil, err
		}
		return p, p.removeTold(t)
	}
	var d Directory
	switch {
	case t.Person != nil:
		d.People = []DirectoryPerson{*t.Person}
		d.Unsaid.Active, d.Unsaid.Support = map[string]bool{t.Person.ID: t.Unsaid}, map[string]bool{t.Person.ID: true}
	case t.Organization != nil:
		d.Organizations = []org.Organization{*t.Organization}
		d.Unsaid.AIIntegration = map[string]bool{t.Organization.ID: t.Unsaid}
	case t.Member != nil:
		d.Members = []DirectoryMember{*t.Member}
		d.Unsaid.Admin = map[MembershipID]bool{{t.Member.Person, t.Member.Organization}: t.Unsaid}
	case t.Circle != nil:
		d.Circles = []org.Circle{*t.Circle}
	case t.Role != nil:
		d.Roles = []org.Role{*t.Role}
	case t.Filler != nil:
		d.Fillers = []Filler{*t.Filler}
	}
	return tx.plan(Import{Directory: d})
}

// removeTold plans the removal of one object. One that is not there is gone
// already.
func (p *plan) removeTold(t Telling) error {
	switch {
	case t.Person != nil:
		if at := p.m.People.Get(t.Person.ID); at != nil && !at.Removed() {
			p.removePerson(at)
		}
	case t.Organization != nil:
		if at := p.m.Orgs[t.Organization.ID]; at != nil && !at.Empty() {
			p.removeOrganization(at)
		}
	case t.Member != nil:
		if at := p.m.Members.Get(facts.MemberKey{Person: t.Member.Person, Organization: t.Member.Organization}); at != nil && at.Present {
			p.removeMember(at)
		}
	case t.Circle != nil:
		return p.removeEmptyCircle(t.Circle.ID)
	case t.Role != nil:
		if at := p.m.Roles.Get(t.Role.ID); at != nil {
			p.removeRole(at)
		}
	case t.Filler != nil:
		if p.fills(*t.Filler) {
			p.removed.fillers = append(p.removed.fillers, *t.Filler)
			p.out.add("removed", ListFillers, t.Filler.Role+"/"+t.Filler.Person)
		}
	}
	return nil
}

func (p *plan) removeEmptyCircle(id string) error {
	for _, o := range p.m.Orgs {
		at, ok := o.Circles[id]
		if !ok {
			continue
		}
		if in := o.Inside(id); in != "" {
			return misplaced(ListCircles, -1, ErrConflict, "%s is in it", in)
		}
		p.removeCircle(at)
	}
	return nil
}

// sweepTold forgets the events of a service's directory that cannot come again.
func (tx *Tx) sweepTold(now time.Time) (int, error) {
	n, err := tx.exec(`
		DELETE FROM directory_event WHERE id IN (
			SELECT id FROM directory_event WHERE at <= $1 ORDER BY at LIMIT 500)`, now.Add(-ToldRetention).Unix())
	return int(n), err
}
