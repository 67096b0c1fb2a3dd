// Package approval is the heart of the house: what one person approved for
// one client in one organization, and every move that approval can make.
//
// An approval is one row. Whatever happens to its codes and tokens is a Move:
// a pure function from where the approval is to where it goes, plus what the
// caller is told. The moves are section 3 of the contract; table_test.go says
// so row for row.
package approval

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// CodeLifetime is how long an authorization code may wait for its exchange.
// spec section 8; RFC 6749 section 4.1.2 allows at most 10 minutes.
const CodeLifetime = 5 * time.Minute

// AccessLifetime is how long an access token works. spec section 8.
const AccessLifetime = 30 * time.Minute

// ID names an approval in rows, logs, pages and URLs. It is the hash of the
// handle that its tokens carry, so knowing it gives nothing (decision T1).
type ID [16]byte

// String gives 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("an approval's ID has %d characters, not %d", 2*len(id), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil || id.String() != s {
		return ID{}, errors.New("an approval's ID is hexadecimal, in lower case")
	}
	return id, nil
}

// Phase is where an approval stands in its life. It only goes forward.
type Phase uint8

const (
	CodeIssued Phase = iota + 1 // approved; the code waits for its exchange
	Live                        // exchanged; tokens work
	Ended                       // for good (decision P10)
)

// Reason says why an approval ended (decision J2).
type Reason string

const (
	RevokedByPerson   Reason = "revoked_by_person"
	RevokedByAdmin    Reason = "revoked_by_admin"
	RevokedByOperator Reason = "revoked_by_operator"
	RevokedByClient   Reason = "revoked_by_client"
	Replaced          Reason = "replaced"
	RefreshReused     Reason = "refresh_reused"
	CodeReused        Reason = "code_reused"
	LeftOrganization  Reason = "left_organization"
	PersonDeactivated Reason = "person_deactivated"
	ClientDisabled    Reason = "client_disabled"
	IntegrationOff    Reason = "integration_off"
	NeverConnected    Reason = "never_connected"
	Unused            Reason = "unused"
	KeyRetired        Reason = "key_retired"
	Restored          Reason = "restored"
	StateLost         Reason = "state_lost"
	EndedOnDate       Reason = "ended_on_date"
	AppBlocked        Reason = "app_blocked"
	RedirectGone      Reason = "redirect_uri_gone"
)

// Reasons lists every reason, in the order of decision J2.
var Reasons = []Reason{
	RevokedByPerson, RevokedByAdmin, RevokedByOperator, RevokedByClient,
	Replaced, RefreshReused, CodeReused, LeftOrganization, PersonDeactivated,
	ClientDisabled, IntegrationOff, NeverConnected, Unused, KeyRetired,
	Restored, StateLost, EndedOnDate, AppBlocked, RedirectGone,
}

// Thumbprint names a client's key: its SHA-256 by RFC 7638. Zero is none.
type Thumbprint [sha256.Size]byte

// State is the part of an approval that moves. Phase and Generation never
// repeat as a pair, so together they are the row's version.
type State struct {
	Phase      Phase
	Generation int64 // of the current refresh token; 0 before the exchange
	Key        int   // number of the key that sealed the current refresh token
	// Network is a hash of where that token was given to (GivenTo): no move
	// asks for it. 0 is unknown.
	Network uint16
	// Bound is the client's key without which no refresh token works (decision T15).
	// Before the exchange it is the one that the code works with alone, if any.
	Bound   Thumbprint
	Reason  Reason
	EndedAt int64 // Unix seconds
}

// Refreshes reports whether the state came of one by a refresh, which is a use of
// the approval; the exchange of its code is none (decision P11).
func (s State) Refreshes(before State) bool {
	return before.Phase == Live && s.Generation > before.Generation
}

// Epochs count how often each fact that an approval stands on has ended
// (decision P12).
type Epochs struct {
	Membership, Person, Organization, Client int64
}

// Standing is the facts' epochs as they are now.
type Standing Epochs

// Approval is one person's consent, for one client, in one organization.
type Approval struct {
	ID           ID
	Client       string // client ID
	Person       string // ID
	Organization string // ID
	Grant        grantset.Set

	RedirectURI string
	Issuer      string // {base} on which the code was made (decision T8)
	Challenge   string // PKCE, S256
	IssuedAt    int64  // of the code, Unix seconds
	CreatedAt   int64  // Unix seconds
	EndsAt      int64  // Unix seconds; the first at which it has ended, 0 for none (decision P17)
	Replace     bool   // ends earlier approvals when exchanged (decision P1)
	Born        Epochs

	State
}

// Lost tells which fact has ended since the approval was born, or "" while
// all stand. What ended once and came back does not count as standing.
func (a Approval) Lost(s Standing) Reason {
	switch {
	case a.Born.Person != s.Person:
		return PersonDeactivated
	case a.Born.Membership != s.Membership:
		return LeftOrganization
	case a.Born.Organization != s.Organization:
		return IntegrationOff
	case a.Born.Client != s.Client:
		return ClientDisabled
	}
	return ""
}

// At is the state as it must be shown at a moment: what has ended by its date, by a
// lost fact or by an expired code counts as ended before any row says so.
func (a Approval) At(s Standing, now time.Time) State {
	switch {
	case a.Phase == Ended:
		return a.State
	case a.pastDate(now):
		return a.endedOnDate()
	case a.Lost(s) != "":
		return a.end(a.Lost(s), now)
	case a.codeExpired(now):
		return a.neverConnected()
	}
	return a.State
}

// Accepts answers whether an access token of this generation and expiry works
// now. It is a question, not a move: nothing is saved.
func (a Approval) Accepts(s Standing, generation, expires int64, now time.Time) bool {
	return a.Phase == Live && a.Lost(s) == "" && !a.pastDate(now) &&
		generation >= 1 && generation <= a.Generation &&
		now.Unix() < expires
}

// codeExpires is the first second, in Unix seconds, at which the code no
// longer works (spec section 8: the lifetime is 5 minutes and not one more
// second).
func (a Approval) codeExpires() int64 { return a.IssuedAt + int64(CodeLifetime/time.Second) }

func (a Approval) codeExpired(now time.Time) bool {
	return a.Phase == CodeIssued && now.Unix() >= a.codeExpires()
}

// pastDate reports whether the end date has come, while the code could still be
// exchanged: a code that expires first is never connected.
func (a Approval) pastDate(now time.Time) bool {
	return a.EndsAt != 0 && now.Unix() >= a.EndsAt && (a.Phase != CodeIssued || a.EndsAt < a.codeExpires())
}

// MayEndAt reports whether the approval may be given this end date: its own, or one that
// is nearer and has not come. 0 is none.
func (a Approval) MayEndAt(date int64, now time.Time) bool {
	return date == a.EndsAt || date > now.Unix() && (a.EndsAt == 0 || date < a.EndsAt)
}

// endedOnDate ends the approval at its end date, whenever that is noticed, and
// whatever has happened since: the row then says what At has shown before.
func (a Approval) endedOnDate() State { return a.end(EndedOnDate, time.Unix(a.EndsAt, 0)) }

// neverConnected ends the approval at the moment its code expired, whenever
// that is noticed: the row then says what At has shown before.
func (a Approval) neverConnected() State {
	return a.end(NeverConnected, time.Unix(a.codeExpires(), 0))
}

func (a Approval) end(why Reason, now time.Time) State {
	s := a.State
	s.Phase, s.Reason, s.EndedAt = Ended, why, now.Unix()
	return s
}

// proves reports whether the verifier is the one behind the challenge.
// RFC 7636 section 4.6; in constant time, as the challenge is not public.
func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	got := base64.RawURLEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(got), []byte(challenge)) == 1
}
