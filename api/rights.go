package api

import (
	"context"
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
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

	token   lifetime       // of the access token
	key     store.APIKeyID // of the API key
	idle    bool           // its use is to be noted
	refused *refused       // of whose token was refused; nil for one that was not
	unused  bool           // it is the first that is known
	first   standing       // as it was found last
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

// Rights is what an actor may do by one state of the facts.
type Rights struct {
	Actor
	standing
}

func (s *Server) rights(a Actor, x standing) Rights { return Rights{a, x} }

// asks bounds how often a request is answered anew because its facts change
// while it is. Then it is 503.
const asks = 10

// Ask gives what read gives for the rights of an actor, if those are still the
// same after it was read (decision B7): the credential is good, the person's
// choice is the same, and no fact of the organization has changed. If one has,
// it is read again by the rights of then.
func Ask[T any](ctx context.Context, s *Server, a Actor, read func(context.Context, Rights) (T, error)) (T, error) {
	return ask(ctx, s, a, true, read)
}

// ask is Ask. What reads nothing but the rights is as of the check.
func ask[T any](ctx context.Context, s *Server, a Actor, reads bool, read func(context.Context, Rights) (T, error)) (T, error) {
	var none T
	now := a.first
	within := s.Store.Checked(ctx)
	for range asks {
		out, err := read(within, s.rights(a, now))
		if !reads && (err == nil || !now.remembered) {
			return out, err
		}
		next, ended := s.stand(ctx, a)
		switch {
		case ended != nil:
			return none, ended
		case next.same(&now):
			return out, err
		}
		now = next
	}
	return none, errUnavailable
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
