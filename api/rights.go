package api

import (
	"context"
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// Actor is who a request acts for. What it may do is not part of it, because
// that can end while the request is under way: see [Ask]. The zero Actor is
// nobody and may do nothing.
type Actor struct {
	Person       string      // ID
	Organization string      // ID: the only one that the request can touch
	Client       string      // client ID; empty when an API key was sent
	Approval     approval.ID // zero when an API key was sent

	address, reference string // of the request, for the journal

	token lifetime       // of the access token
	key   store.APIKeyID // of the API key
	idle  bool           // its use is to be noted
	first standing       // as it was found last
}

// lifetime is what of an access token says for how long it is good.
type lifetime struct{ generation, expires int64 }

// standing is what one state of the facts leaves to an actor.
type standing struct {
	Grant grantset.Set // as the person chose it; of an API key Everything

	// What the grant set leaves of the person's rights (decision P6). Ask it
	// before touching anything.
	grantset.Authority

	personName, organizationName string

	stamp      store.Stamp // of the facts
	remembered bool        // it is as it was some time ago: good enough to allow, not to refuse
	at         time.Time   // by the store's clock
}

// same reports whether two standings are of one state.
func (x *standing) same(y *standing) bool { return x.stamp == y.stamp && x.Grant.Equal(y.Grant) }

// Rights is what an actor may do by one state of the facts, and the way to what
// is stored: a handler gets neither but through [Ask] and its like.
type Rights struct {
	Actor
	standing
	seen *seen
}

// seen is what was read by some rights.
type seen struct {
	store *store.Store
	facts bool // that are in memory
	rows  bool // that the database has: they may be newer than the facts
}

func (s *Server) rights(a Actor, x standing) Rights { return Rights{a, x, &seen{store: s.Store}} }

// asks bounds how often a request is answered anew because its facts change
// while it is. Then it is 503.
const asks = 10

// Ask gives what read gives for the rights of an actor, if those are still the
// same after it was read (decision B7): the credential is good, the person's
// choice is the same, and no fact of the organization has changed. If one has,
// it is read again by the rights of then.
func Ask[T any](ctx context.Context, s *Server, a Actor, read func(context.Context, Rights) (T, error)) (T, error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (T, error) {
		now.seen.rows = true // whatever it is
		return read(ctx, now)
	})
}

func ask[T any](ctx context.Context, s *Server, a Actor, read func(context.Context, Rights) (T, error)) (T, error) {
	var none T
	now := a.first
	within := s.Store.Checked(ctx)
	for range asks {
		rights := s.rights(a, now)
		out, err := read(within, rights)
		next, ended := s.after(ctx, rights, err)
		switch {
		case ended != nil:
			return none, ended
		case next == nil:
			return out, err
		}
		now = *next
	}
	return none, errUnavailable
}

// after gives what an actor may do now that something was read by its rights;
// nil when these are still the same. What was read of memory alone is as of the
// check, if it is of one state.
func (s *Server) after(ctx context.Context, was Rights, refused error) (*standing, error) {
	switch {
	case was.seen.rows, refused != nil && was.remembered:
	case !was.seen.facts, s.Store.Stamp(was.Organization) == was.stamp:
		return nil, nil
	}
	now, err := s.stand(ctx, was.Actor)
	if err != nil {
		return nil, err
	}
	if now.same(&was.standing) {
		return nil, nil
	}
	return &now, nil
}

// changing gives what do gives, which asks again in the writer before it changes
// anything. A refusal is given only to an actor that still stands, and by its
// rights of then: to others it is the end of the credential.
func changing[T any](ctx context.Context, s *Server, a Actor, do func(Rights) (T, error)) (T, error) {
	var none T
	now := a.first
	for once := true; ; once = false {
		out, err := do(s.rights(a, now))
		if !refuses(err) {
			return out, err
		}
		next, ended := s.stand(ctx, a)
		if ended != nil {
			return none, ended
		}
		if !once || next.same(&now) {
			return out, err
		}
		now = next
	}
}

// changingOnly is changing of what leaves nothing to show.
func changingOnly(ctx context.Context, s *Server, a Actor, do func(Rights) error) error {
	_, err := changing(ctx, s, a, func(now Rights) (struct{}, error) { return struct{}{}, do(now) })
	return err
}

// refuses reports whether an error is a refusal that another moment could have
// spared the caller.
func refuses(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Status < 500 && f != ErrEnded ||
		errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)
}

// Now asks what an actor may do at this moment. The error is what [Told] knows:
// a credential that has ended is 401.
func (s *Server) Now(ctx context.Context, a Actor) (Rights, error) {
	now, err := s.stand(ctx, a)
	if err != nil {
		return Rights{}, err
	}
	a.first = now
	return s.rights(a, now), nil
}

// stand asks what an actor may do, of the database and of nothing that is
// remembered. ErrEnded: the credential has ended or expired.
func (s *Server) stand(ctx context.Context, a Actor) (standing, error) {
	var now Actor
	var err error
	if a.Client == "" {
		access, found := s.Store.CheckAPIKeyNow(ctx, a.key)
		now, _, err = s.acceptKey(a.key, &access, found)
	} else {
		access, found := s.accessNow(ctx, a.Approval)
		now, _, err = s.accept(a.token, &access, found)
	}
	if errors.Is(err, errRefused) {
		return standing{}, ErrEnded
	}
	return now.first, err
}

// current is stand inside the writer, so that no right can be lost between the
// question and the change: facts and grant set there are those that the change
// commits upon.
func (s *Server) current(ctx context.Context, a Actor) (Rights, error) {
	now, err := s.stand(ctx, a)
	return s.rights(a, now), err
}

// StillAll is Still for many, each with its own answer. On PostgreSQL they are
// asked together.
func (s *Server) StillAll(ctx context.Context, told []Rights, same []bool) []error {
	asked := make([]store.Asked, len(told))
	for i := range told {
		asked[i] = store.Asked{Approval: told[i].Approval, Key: told[i].key, ByKey: told[i].Client == ""}
	}
	s.Store.CheckAllNow(ctx, asked)
	errs := make([]error, len(told))
	for i := range asked {
		q := &asked[i]
		var now Actor
		if q.ByKey {
			now, _, errs[i] = s.acceptKey(q.Key, &q.Access, q.Err)
		} else {
			now, _, errs[i] = s.accept(told[i].token, &q.Access, q.Err)
		}
		switch {
		case errors.Is(errs[i], errRefused):
			errs[i] = ErrEnded
		case errs[i] == nil && same[i]:
			errs[i] = s.unchanged(told[i], now.first)
		}
	}
	return errs
}

// --- what is stored, of the actor's organization alone

func (r Rights) organization(ctx context.Context) (org.Organization, error) {
	r.seen.facts = true
	return r.seen.store.Organization(ctx, r.Organization)
}

func (r Rights) circles(ctx context.Context) ([]org.Circle, error) {
	r.seen.facts = true
	return r.seen.store.Circles(ctx, r.Organization)
}

func (r Rights) circle(ctx context.Context, id string) (org.Circle, error) {
	r.seen.facts = true
	return r.seen.store.Circle(ctx, r.Organization, id)
}

func (r Rights) roles(ctx context.Context) ([]store.RoleRow, error) {
	r.seen.facts = true
	return r.seen.store.Roles(ctx, r.Organization)
}

func (r Rights) role(ctx context.Context, id string) (store.RoleRow, error) {
	r.seen.facts = true
	return r.seen.store.Role(ctx, r.Organization, id)
}

func (r Rights) member(ctx context.Context, person string) (org.Member, error) {
	r.seen.facts = true
	return r.seen.store.Member(ctx, person, r.Organization)
}

func (r Rights) admins(ctx context.Context, limit int) ([]org.Person, error) {
	r.seen.facts = true
	return r.seen.store.Admins(ctx, r.Organization, limit)
}

// person gives an account, of whoever is a member.
func (r Rights) person(ctx context.Context, m org.Member) (Person, error) {
	r.seen.rows = true
	p, err := r.seen.store.Person(ctx, m.Person)
	return Person{p.ID, p.Name, m.Admin}, err
}

func (r Rights) people(ctx context.Context, after string, limit int) ([]org.Person, string, error) {
	r.seen.rows = true
	return r.seen.store.People(ctx, store.PeopleFilter{Organization: r.Organization, After: after, Limit: limit})
}

func (r Rights) stored(ctx context.Context, kind, id string) (store.Item, error) {
	r.seen.rows = true
	return r.seen.store.Item(ctx, r.Organization, kind, id)
}

func (r Rights) storedItems(ctx context.Context, f store.ItemFilter, may func(org.Item) bool) ([]store.Item, string, error) {
	r.seen.rows = true
	f.Organization = r.Organization
	return r.seen.store.Items(ctx, f, may)
}
