package operator

import (
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// tokenBody is the body of POST /v1/tokens/inspect. No answer, log or event repeats
// the token.
type tokenBody struct {
	reasonBody
	Token string `json:"token"`
}

// Inspected says what a token is and whether it works.
type Inspected struct {
	ID           string `json:"id"`    // always "token"
	Kind         string `json:"kind"`  // access_token, refresh_token, authorization_code, api_key or unknown
	State        string `json:"state"` // valid, expired, used, ended or unknown
	Why          string `json:"why"`   // in a sentence
	Approval     string `json:"approval"`
	ClientID     string `json:"client_id"`
	ClientName   string `json:"client_name"`
	Person       string `json:"person"`       // ID
	Organization string `json:"organization"` // ID
	Reason       string `json:"reason"`       // of the approval's end
	EndedAt      int64  `json:"ended_at"`     // of the approval; 0 is not
	ExpiresAt    int64  `json:"expires_at"`   // of an access token or code; 0 is never
	Generation   int64  `json:"generation"`   // of the refresh token, or of the one that it came with
	Current      int64  `json:"current"`      // generation of the current refresh token
}

// inspect says what a token is and whether it works, to find out why a client is
// refused.
func (s *Server) inspect(c Call, body tokenBody) (any, error) {
	return s.Inspect(c, body.Token)
}

// Inspect says that of a text. It keeps nothing of it, and repeats nothing.
func (s *Server) Inspect(c Call, text string) (Inspected, error) {
	if text == "" {
		return Inspected{}, BadRequest("token: it is missing")
	}
	claim, kind, ok := s.claim(text)
	if !ok {
		return s.inspectKey(c, text)
	}
	o := Inspected{ID: "token", Kind: kind, Generation: claim.Generation, Approval: approval.ID(claim.Handle.ID()).String()}
	row, err := s.Store.Approval(c.Context(), claim.Handle.ID())
	if errors.Is(err, store.ErrNotFound) {
		o.State, o.Why = "unknown", "This server sealed it, and its approval is no longer stored: it ended long ago, or the database went back in time."
		return o, nil
	} else if err != nil {
		return Inspected{}, err
	}
	o.ClientID, o.ClientName, o.Person, o.Organization = row.Client, row.ClientName, row.Person, row.Organization
	o.Reason, o.EndedAt, o.Current = string(row.Reason), row.EndedAt, row.Generation
	o.setState(claim, row, s.Store.Now())
	return o, nil
}

// claim opens a token of any kind, and names the kind.
func (s *Server) claim(text string) (token.Claim, string, bool) {
	if s.Ring == nil {
		return token.Claim{}, "", false
	}
	if kind := s.Ring.KindOf(text); kind != 0 {
		claim, ok := s.Ring.Read(kind, text)
		return claim, kind.Name(), ok
	}
	return token.Claim{}, "", false
}

// setState says whether the token works now, as its endpoint would decide.
func (o *Inspected) setState(claim token.Claim, row store.ApprovalRow, now time.Time) {
	code := claim.Kind == token.Code
	switch {
	case code:
		o.ExpiresAt = claim.Time + int64(approval.CodeLifetime/time.Second)
	case claim.Kind == token.Access:
		o.ExpiresAt = claim.Time
	}
	switch {
	case row.Phase == approval.Ended:
		o.State, o.Why = "ended", "Its approval has ended: the person has to approve again."
	case claim.Generation > row.Generation, code && claim.Time > row.IssuedAt:
		o.State, o.Why = "unknown", "It is ahead of its approval: the database went back in time."
	case code && row.Phase == approval.Live:
		o.State, o.Why = "used", "The code was exchanged."
	case claim.Kind == token.Refresh && claim.Generation < row.Generation:
		o.State, o.Why = "used", "It was used before; presented once more, it ends the approval."
	case o.ExpiresAt > 0 && now.Unix() >= o.ExpiresAt, code && claim.Time < row.IssuedAt:
		o.State, o.Why = "expired", "Its time is over; the approval lives."
	default:
		o.State, o.Why = "valid", "It works."
	}
}

// inspectKey is inspect for an API key, or for a text that is neither.
func (s *Server) inspectKey(c Call, text string) (Inspected, error) {
	m, err := s.Store.APIKey(c.Context(), text)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Inspected{ID: "token", Kind: "unknown", State: "unknown",
			Why: "It is neither a token that this server's keys have sealed nor an API key that works."}, nil
	case err != nil:
		return Inspected{}, err
	}
	return Inspected{ID: "token", Kind: "api_key", State: "valid", Why: "It works.", Person: m.Person, Organization: m.Organization}, nil
}
