package oauth

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// token is POST /oauth/token (spec 4.3). The checks stand in the order of
// decision T14: nothing is touched before everything that a client can get
// wrong by itself was looked at.
func (s *Server) token(c call) (answer, error) {
	if _, sent := c.Header["Dpop"]; sent { // whatever else is answered (RFC 9449 section 8.2)
		c.w.Header().Set("DPoP-Nonce", s.Ring.Nonce(s.Store.Now()))
	}
	f, err := readForm(c.Request)
	if err != nil {
		return answer{}, err
	}
	if err := s.public(c, f); err != nil {
		s.tellOf(c, f)
		return answer{}, err
	}
	switch f.values[grantType] {
	case "authorization_code":
		return s.exchange(c, f)
	case "refresh_token":
		return s.refresh(c, f)
	}
	s.tellOf(c, f)
	if f.values[grantType] == "" {
		return answer{}, missing("grant_type")
	}
	return answer{}, refuse(http.StatusBadRequest, "unsupported_grant_type",
		"grant_type must be authorization_code or refresh_token")
}

// public refuses credentials of a client, because there are none: whoever
// sends one believes in a protection that does not exist (decision T3).
func (s *Server) public(c call, f *form) error {
	const description = "clients are public here: send client_id in the body, and neither a secret nor an Authorization header"
	if _, sent := c.Header["Authorization"]; sent {
		e := refuse(http.StatusUnauthorized, "invalid_client", description)
		e.header, e.value = "WWW-Authenticate", challenge(s.Service)
		return e
	}
	if f.values[clientSecret] != "" {
		return refuse(http.StatusUnauthorized, "invalid_client", description)
	}
	return nil
}

// exchange trades an authorization code for the first tokens.
func (s *Server) exchange(c call, f *form) (answer, error) {
	base := s.Base(c.Request)
	state, err := s.clientOf(c, f)
	if err != nil {
		return answer{}, err
	}
	if err := checkScope(f); err != nil {
		return answer{}, err
	}
	for _, r := range f.resources {
		if !s.Resources.ServedAt(base, r) {
			return answer{}, refuse(http.StatusBadRequest, "invalid_target", "resource is not one of this server")
		}
	}
	for _, p := range []param{code, redirectURI, codeVerifier} {
		if f.values[p] == "" {
			return answer{}, missing(paramNames[p])
		}
	}
	if !isVerifier(f.values[codeVerifier]) {
		c.seen.sawVerifier(f.values[codeVerifier])
		return answer{}, invalidRequest("code_verifier must be 43 to 128 letters, digits and - . _ ~")
	}
	if state == store.ClientDisabled {
		return answer{}, disabled
	}
	claim, ok := s.Ring.Read(token.Code, f.values[code])
	if !ok {
		return answer{}, s.unread(token.Code, f.values[code], invalidGrant("unknown", "this is not an authorization code of this server"))
	}
	now := s.Store.Now()
	move := approval.Exchange(f.values[clientID], base, f.values[redirectURI], f.values[codeVerifier],
		claim.Time, s.Ring.Sealing(), now)
	id := approval.ID(claim.Handle.ID())
	s.tell(c, "", id, "")
	act := c.act(f.values[clientID])
	if act.Proof, err = s.proofOf(c); err != nil {
		return answer{}, err
	}
	a, verdict, err := s.Store.Apply(c.Context(), id, move, act)
	if err := refusal(verdict, err); err != nil {
		return answer{}, err
	}
	return s.tokens(claim.Handle, a.Generation, now, "authorization_code"), nil
}

// refresh trades the current refresh token for the next one. A resource is not
// looked at: it narrows nothing, and clients get stuck when it is refused here
// (decision A7).
func (s *Server) refresh(c call, f *form) (answer, error) {
	c.seen.step = attempt.Refresh
	state, err := s.clientOf(c, f)
	if err != nil {
		return answer{}, err
	}
	if err := checkScope(f); err != nil {
		return answer{}, err
	}
	if f.values[refreshToken] == "" {
		return answer{}, missing("refresh_token")
	}
	if state == store.ClientDisabled {
		return answer{}, disabled
	}
	claim, ok := s.Ring.Read(token.Refresh, f.values[refreshToken])
	if !ok {
		return answer{}, s.unread(token.Refresh, f.values[refreshToken], invalidGrant("unknown", "this is not a refresh token of this server"))
	}
	now := s.Store.Now()
	id := approval.ID(claim.Handle.ID())
	s.tell(c, "", id, "")
	act := c.act(f.values[clientID])
	if act.Proof, err = s.proofOf(c); err != nil {
		return answer{}, err
	}
	generation, verdict, err := s.Store.Refresh(c.Context(), id, f.values[clientID], claim.Generation, s.Ring.Sealing(), act)
	if err := refusal(verdict, err); err != nil {
		return answer{}, err
	}
	c.seen.later = claim.Generation > 1
	return s.tokens(claim.Handle, generation, now, "refresh_token"), nil
}

// unread is what is told of a token that does not open here: none, or that
// another node may know better.
func (s *Server) unread(kind token.Kind, text string, none error) error {
	opens := s.Store.Opens
	if s.opens != nil {
		opens = s.opens
	}
	if err := opens(); err != nil && s.Ring.KindOf(text) == kind {
		return err
	}
	return none
}

// clientOf finds the client that the form names.
func (s *Server) clientOf(c call, f *form) (store.ClientState, error) {
	id := f.values[clientID]
	if id == "" {
		return 0, missing("client_id")
	}
	state, err := s.clientState(c, id)
	if err == nil && state != store.ClientUnknown {
		s.tell(c, id, approval.ID{}, "")
	} else if err == nil {
		err = refuse(http.StatusUnauthorized, "invalid_client", "this client_id is not known here, or no longer: register again")
	}
	return state, err
}

// clientState asks the store only for what can be an ID at all.
func (s *Server) clientState(c call, id string) (store.ClientState, error) {
	if len(id) > client.MaxID {
		return store.ClientUnknown, nil
	}
	return s.Store.ClientState(c.Context(), id)
}

// checkScope takes the one scope that there is (spec section 5 item 6).
func checkScope(f *form) error {
	if v := f.values[scope]; v != "" && v != "api" {
		return refuse(http.StatusBadRequest, "invalid_scope", "the only scope is api, and it may be left out")
	}
	return nil
}

// isVerifier checks the form of a code_verifier before anything is hashed.
// RFC 7636 section 4.1; decision A8.
func isVerifier(s string) bool {
	if len(s) < 43 || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-', c == '.', c == '_', c == '~':
		default:
			return false
		}
	}
	return true
}

func invalidGrant(reason, description string) *Error {
	e := refuse(http.StatusBadRequest, "invalid_grant", description)
	e.reason = reason
	return e
}

// disabled is said of a client that is known, but that the service disabled
// (decision T2).
var disabled = invalidGrant("client_disabled", "this client is disabled")

// refusals are what a client is told of each verdict but OK.
var refusals = map[approval.Verdict]string{
	approval.WrongClient:   "the code or token was issued to another client",
	approval.WrongIssuer:   "the code was issued at another base URL, which the parameter iss of the redirect names",
	approval.WrongRedirect: "redirect_uri is not the one of the authorization request",
	approval.WrongVerifier: "code_verifier does not match the code_challenge",
	approval.Expired:       "the code has expired",
	approval.Over:          "the approval has ended, the person has to approve again",
	approval.Reused:        "the code or token was used before: the approval has ended, the person has to approve again",
	approval.Lost:          "the server has lost this approval, the person has to approve again",
	approval.WrongKey:      "the code or token is bound to a key: send a DPoP proof of that key",
}

// refusal gives the error that a client is told of what the store said; nil
// when the move went well.
func refusal(v approval.Verdict, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return invalidGrant("not_found", "the approval is no longer known, the person has to approve again")
	case err != nil:
		return err
	case v == approval.Replayed:
		return refuse(http.StatusBadRequest, invalidProof, "the proof was used before: sign one with another jti")
	case v != approval.OK:
		return invalidGrant(v.String(), refusals[v])
	}
	return nil
}

// tokens seals the tokens of a generation into the answer of spec 2.3. It is
// written by hand because it is the one answer that is asked for all the time;
// tokens are letters, digits and _, so nothing needs escaping.
func (s *Server) tokens(h token.Handle, generation int64, now time.Time, grant string) answer {
	const lifetime = int64(approval.AccessLifetime / time.Second)
	b := make([]byte, 0, 320)
	b = append(b, `{"access_token":"`...)
	b = append(b, s.Ring.Access(h, generation, now.Unix()+lifetime)...)
	b = append(b, `","token_type":"Bearer","expires_in":`...)
	b = strconv.AppendInt(b, lifetime, 10)
	b = append(b, `,"refresh_token":"`...)
	b = append(b, s.Ring.Refresh(h, generation)...)
	b = append(b, `","scope":"api","created_at":`...)
	b = strconv.AppendInt(b, now.Unix(), 10)
	b = append(b, '}')
	return answer{http.StatusOK, b, grant}
}
