package identity

import "time"

// A Proof is what a session has proved of who somebody is. It is written at the
// moment of proving, by whatever has checked it, and is never derived from
// anything else, such as when the session began. The zero Proof has proved
// nothing: so a session of a release that wrote none is asked again.
type Proof struct {
	ProvedAt int64 // when the person last proved who they are, in Unix seconds; 0 is never
	FactorAt int64 // when with a second factor; 0 is never

	// Who vouched for the person; all empty where a password did.
	Issuer, Subject, SID string
}

// Proved reports whether the person proved who they are within a time.
func (p Proof) Proved(within time.Duration, now time.Time) bool {
	return recent(p.ProvedAt, within, now) || p.Factor(within, now)
}

// Factor reports whether the person did so with a second factor.
func (p Proof) Factor(within time.Duration, now time.Time) bool {
	return recent(p.FactorAt, within, now)
}

// Demand is what a change asks for before it is made.
type Demand int

const (
	DemandNothing Demand = iota
	DemandAgain          // to sign in again
	DemandFactor         // a second factor, which the person does not have
)

// Strong is what an approval of everything asks for, beyond this proof, where
// strong_approvals asks for a fresh sign-in or, with factor, for a second factor.
func (p Proof) Strong(factor, hasFactor bool, within time.Duration, now time.Time) Demand {
	switch {
	case p.Factor(within, now), !factor && p.Proved(within, now):
		return DemandNothing
	case !factor:
		return DemandAgain
	case p.Issuer != "" && p.Proved(within, now): // it has been asked, and did not say so
		return DemandFactor
	case p.Issuer != "" || hasFactor:
		return DemandAgain
	}
	return DemandFactor
}

func recent(at int64, within time.Duration, now time.Time) bool {
	return at > 0 && now.Sub(time.Unix(at, 0)) < within
}
