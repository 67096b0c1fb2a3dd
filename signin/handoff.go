package signin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// HandOff is signing in at the service itself, for one without OpenID Connect:
// it answers with an identity.Assertion.
type HandOff struct {
	Name string // as people know the place; empty is the service's name
	URL  string
	Keys []identity.AssertionKey
}

const handOffID = "handoff"

// address is where the browser goes.
func (h *HandOff) address(challenge, base string, fresh, another bool) string {
	mark := map[bool]string{true: "1"}
	return page.WithQuery(h.URL, "challenge", challenge, "audience", base, "fresh", mark[fresh], "switch", mark[another])
}

// assertedBack is GET /signin/callback/handoff: the service says who is signed
// in there.
func (s *Server) assertedBack(v *page.Visit, assertion string) error {
	said, err := identity.ReadAssertion(assertion, v.Base, v.Now, s.HandOff.Keys...)
	if err != nil {
		return notSignedIn{why: "untrusted", way: handOffID, path: "/", detail: err.Error()}
	}
	a, ok := s.openAttempt(said.Challenge)
	if open, err := s.checkAttempt(v, a, ok, handOffID); !open {
		return err
	}
	return s.attempted(v, func() error { return s.enterAsserted(v, said, a) })
}

// enterAsserted begins the session of whom the service names.
func (s *Server) enterAsserted(v *page.Visit, said identity.Assertion, a attempt) error {
	fault := notSignedIn{way: handOffID, path: a.Return, detail: "asserted by the service"}
	person, err := s.asserted(v, said.Person)
	switch {
	case errors.Is(err, store.ErrNotFound):
		fault.why = "unknown"
		return fault
	case err != nil:
		return page.Wrap("person", err)
	case !person.Active:
		fault.why = "inactive"
		return fault
	case said.ImpersonatedBy != "" && person.Support: // decision P9
		fault.why = "acting"
		return fault
	}
	return s.enter(v, store.Entry{Person: person.ID, Method: handOffID, By: actorName(said.ImpersonatedBy), Proof: identity.Proof{ProvedAt: provedAt(said.AuthTime), Issuer: handOffID},
		Once: "handoff " + said.Challenge, OnceUntil: time.Unix(a.Began, 0).Add(2 * attemptLifetime)}, a, fault)
}

func (s *Server) asserted(v *page.Visit, idOrEmail string) (org.Person, error) {
	if len(idOrEmail) > 254 {
		return org.Person{}, fmt.Errorf("person: %w", store.ErrNotFound)
	}
	if strings.Contains(idOrEmail, "@") { // which no ID has
		return s.Store.Vouched(v.R.Context(), idOrEmail)
	}
	return s.Store.Person(v.R.Context(), idOrEmail)
}
