package approval

import "time"

// Verdict is what the caller of a move is told.
type Verdict uint8

const (
	OK            Verdict = iota + 1
	WrongClient           // the code or token belongs to another client
	WrongIssuer           // the code was made on another base URL
	WrongRedirect         // not the redirect URI of the authorization request
	WrongVerifier         // does not prove the challenge
	Expired               // the code has waited too long
	Over                  // the approval has ended
	Reused                // a used code or refresh token came back: ended now
	Lost                  // the token is ahead of its row (decision T13): ended now
	WrongKey              // bound to a key that was not proved, or to another
	Replayed              // the proof of the key was used before
)

var verdicts = [...]string{
	OK: "ok", WrongClient: "wrong_client", WrongIssuer: "wrong_issuer", WrongRedirect: "wrong_redirect",
	WrongVerifier: "wrong_verifier", Expired: "expired", Over: "over", Reused: "reused", Lost: "lost",
	WrongKey: "wrong_key", Replayed: "replayed",
}

func (v Verdict) String() string {
	if int(v) >= len(verdicts) || v == 0 {
		return "unknown"
	}
	return verdicts[v]
}

// A Move is one row of the contract's table (spec 3). The next state is always
// saved, whatever the verdict: theft must be refused and remembered, and
// nobody can forget the second half. A move cannot change what the person
// approved, because it does not return it.
type Move func(Approval, Standing) (State, Verdict)

// Exchange trades an authorization code for the first tokens. issued is the
// code's own issue time, Unix seconds; key is the number of the key that will
// seal the refresh token. The punishing case stands behind every proof, so a
// code read in a log is no way to end an approval (decisions T4, T5).
func Exchange(client, issuer, redirectURI, verifier string, issued int64, key int, now time.Time) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		switch {
		case a.Client != client:
			return a.State, WrongClient
		case a.Issuer != issuer:
			return a.State, WrongIssuer
		case a.RedirectURI != redirectURI:
			return a.State, WrongRedirect
		case !proves(verifier, a.Challenge):
			return a.State, WrongVerifier
		case a.Phase == CodeIssued && a.Bound != Thumbprint{}:
			return a.State, WrongKey
		case a.Phase == Ended:
			return a.State, Over
		case a.pastDate(now):
			return a.endedOnDate(), Over
		case a.Lost(s) != "":
			return a.end(a.Lost(s), now), Over
		case issued > a.IssuedAt:
			return a.end(StateLost, now), Lost
		case issued < a.IssuedAt: // the page was answered again since (decision A12)
			return a.State, Expired
		case a.Phase == Live: // proven, and used before
			return a.end(CodeReused, now), Reused
		case a.codeExpired(now):
			return a.State, Expired
		}
		return State{Phase: Live, Generation: 1, Key: key}, OK
	}
}

// Refresh trades the current refresh token for the next one. generation is
// the presented token's. Any older one is theft: the approval ends, without a
// grace period (decision T6).
//
// It asks of an approval what its token tells (Expected), which facts stand, and its
// end date, and nothing else: the store may save what it gives for an expected
// approval before it reads the row, and only where the row is that one and ends later.
func Refresh(client string, generation int64, key int, now time.Time) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		switch {
		case a.Client != client:
			return a.State, WrongClient
		case a.Bound != Thumbprint{}: // without its key a token moves nothing, whatever it is
			return a.State, WrongKey
		case a.Phase == Ended:
			return a.State, Over
		case a.pastDate(now):
			return a.endedOnDate(), Over
		case a.Lost(s) != "":
			return a.end(a.Lost(s), now), Over
		case generation > a.Generation:
			return a.end(StateLost, now), Lost
		case a.Phase == CodeIssued: // no refresh token exists yet
			return a.State, Over
		case generation < a.Generation:
			return a.end(RefreshReused, now), Reused
		}
		return State{Phase: Live, Generation: a.Generation + 1, Key: key}, OK
	}
}

// Expected is an approval as its current refresh token tells of it: what the
// token does not tell is zero, and all facts stand.
func Expected(id ID, client string, generation int64) Approval {
	return Approval{ID: id, Client: client, State: State{Phase: Live, Generation: generation}}
}

// HeldBy is a move of a client that has proved to hold a key; zero is none. Where the
// approval is bound to that key, the move is what it is without any; and an exchange
// binds to it (decision T15). A later move binds nothing: a thief could bind what was
// stolen, and its owner, who is refused from then on, would not end it any more.
func HeldBy(key Thumbprint, m Move) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		bound, phase := a.Bound, a.Phase
		if bound == key {
			a.Bound = Thumbprint{}
		}
		next, v := m(a, s)
		next.Bound = bound
		if phase == CodeIssued && next.Phase == Live {
			next.Bound = key
		}
		return next, v
	}
}

// Proven reports whether a verdict is for whoever has proved all that is asked for: it
// uses the proof of a key up. All others leave it as it is.
func (v Verdict) Proven() bool { return v == OK || v == Reused || v == Lost }

// GivenTo is a move whose new refresh token is given to a network, 0 where that
// is unknown.
func GivenTo(network uint16, m Move) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		next, v := m(a, s)
		if next.Phase == Live && next.Generation != a.Generation {
			next.Network = network
		}
		return next, v
	}
}

// Revoke is the client ending its own approval with any of its tokens, used
// and expired ones too. Another client's token is refused, dead or alive
// (decision T9).
func Revoke(client string, now time.Time) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		if a.Client != client {
			return a.State, WrongClient
		}
		return End(RevokedByClient, now)(a, s)
	}
}

// End ends the approval for a reason; one that has ended stays as it ended.
// An end date that has come, and a fact that was lost before, are truer reasons.
func End(why Reason, now time.Time) Move {
	return func(a Approval, s Standing) (State, Verdict) {
		switch {
		case a.Phase == Ended:
			return a.State, Over
		case a.pastDate(now):
			return a.endedOnDate(), Over
		case a.Lost(s) != "":
			return a.end(a.Lost(s), now), Over
		case a.codeExpired(now):
			return a.neverConnected(), Over
		}
		return a.end(why, now), OK
	}
}
