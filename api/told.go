package api

import (
	"context"
	"errors"
	"net"
	"reflect"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
)

// Identity says who an actor is to a service behind.
func (r Rights) Identity() identity.Identity {
	i := IdentityOf(r.Authority)
	i.Person, i.Organization = r.Person, r.Organization
	if r.Client != "" {
		i.Client, i.Approval = r.Client, r.Approval.String()
	}
	return i
}

// IdentityOf is [Rights.Identity] of what a choice would give. The roles are named
// where the person chose them: otherwise they may be hundreds, and the service knows
// them.
func IdentityOf(a grantset.Authority) identity.Identity {
	m := a.Member()
	own := org.Item{Organization: m.Organization, Person: m.Person}
	i := identity.Identity{
		Person: m.Person, Organization: m.Organization, Grant: string(a.Kind()),
		Admin:    a.MayAdminister(),
		Personal: a.MayChange(own),
	}
	if a.Kind() != grantset.Roles && m.Admin {
		i.Never = a.Never()
		i.ReadOnly = a.ReadOnly()
	}
	if a.ReadOnly() && a.MayRead(own) {
		i.ReadOnly, i.PersonalReads = true, true // else it is said by the roles
	}
	if i.ReadOnly || len(i.Never) > 0 {
		i.Admin, i.AdminWithin = false, a.ActsAsAdmin()
	}
	if a.Kind() == grantset.Roles {
		for r, access := range a.Filled {
			if access != "none" {
				i.Roles = append(i.Roles, identity.Role{ID: r.ID, Change: access == "change"})
			}
		}
	}
	return i
}

// Credential names what an actor was let in by, an approval or an API key, for as
// long as that lasts, and nobody else so.
func (a Actor) Credential() string {
	if a.Client != "" {
		return "approval " + a.Approval.String()
	}
	return "key " + a.Person + " " + a.Organization + " " + string(a.key[:])
}

// outlasts is for how long a call that began in time goes on after its access token
// (decision V15).
const outlasts = time.Hour

// Outlasting gives the rights to what began in time, and may go on when the access token has
// expired.
func (r Rights) Outlasting() Rights {
	r.token.expires += int64(outlasts / time.Second)
	return r
}

// ErrChanged is a right that is another one than a service was told of.
var ErrChanged = &Fault{Status: 503, Code: "temporarily_unavailable", Description: "What this credential may do has changed while the request was answered. Try again."}

// errUntold is an answer that nobody can find the right to, of a service that may have done
// what was asked: a client that is told 503 would ask for it again.
var errUntold = &Fault{Status: 502, Code: "bad_gateway", Description: "The service has answered, and the answer cannot be given now. What was asked may have been done."}

// NoAnswer is what is told of a service that fails. done says that it may have done what was
// asked, which is no question alone.
func NoAnswer(err error, done bool) *Fault {
	f := &Fault{Status: 502, Code: "bad_gateway", Description: "The service does not answer now. Try again."}
	if done {
		f.Description = "The service does not answer now. What was asked may have been done."
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		f.Status, f.Code = 504, "gateway_timeout"
	}
	return f
}

// Ended is what is told instead of [ErrEnded] where a service may have done what was asked,
// which is no question alone; any other error is as it is.
func Ended(err error, done bool) error {
	if done && err == ErrEnded {
		return errEndedUnder
	}
	return err
}

// Still asks whether the right of which a service was told still stands (decision
// B7) and, where it has to be the same, is what the service was told: it need not be for
// what a service has changed. The error is what [Told] knows.
func (s *Server) Still(ctx context.Context, told Rights, same bool) error {
	now, err := s.stand(ctx, told.Actor)
	switch {
	case err != nil && err != ErrEnded && !same:
		return errUntold
	case err == nil && same:
		return s.unchanged(told, now)
	}
	return err
}

func (s *Server) unchanged(told Rights, now standing) error {
	if !now.same(&told.standing) && !reflect.DeepEqual(s.rights(told.Actor, now).Identity(), told.Identity()) {
		return ErrChanged
	}
	return nil
}
