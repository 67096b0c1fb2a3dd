package oauth

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// seen is what an endpoint knows of the attempt that a call belongs to, by the time
// that it answers.
type seen struct {
	attempt.Keys
	step  attempt.Step
	what  attempt.What
	n     int
	later bool // a refresh that is not the first: nothing new
}

// know adds the client, once it is known to be one, and the approval.
func (k *seen) know(client string, of approval.ID) {
	if client != "" {
		k.Client = client
	}
	if of != (approval.ID{}) {
		k.Approval = of.String()
	}
}

// tellOf tells whose a token request is that is refused before its client is looked for:
// the client that it names, and the approval that its code or refresh token is of, where
// that is not another client's. Nothing moves by it, and what cannot be read is not told.
func (s *Server) tellOf(c call, f *form) {
	kind, text := token.Code, f.values[code]
	if f.values[grantType] == "refresh_token" {
		c.seen.step, kind, text = attempt.Refresh, token.Refresh, f.values[refreshToken]
	}
	id := f.values[clientID]
	if user, _, ok := c.BasicAuth(); id == "" && ok {
		id, _ = unescape(user) // RFC 6749 section 2.3.1
	}
	if id != "" {
		if state, err := s.clientState(c, id); err != nil || state == store.ClientUnknown {
			return
		}
		s.tell(c, id, approval.ID{}, "")
	}
	if text == "" || s.Seen == nil {
		return
	}
	what, of := s.grantOf(c, kind, text, id)
	if s.tell(c, "", of, ""); id != "" {
		c.seen.what = what
	}
}

// grantOf gives what a code or a refresh token is to a client, "" where that cannot be
// told now, and its approval where it is the client's own, or none is named.
func (s *Server) grantOf(c call, kind token.Kind, text, id string) (attempt.What, approval.ID) {
	claim, ok := s.Ring.Read(kind, text)
	if !ok {
		if s.unread(kind, text, nil) != nil {
			return "", approval.ID{}
		}
		return attempt.NoGrant, approval.ID{}
	}
	of := approval.ID(claim.Handle.ID())
	switch row, err := s.Store.Approval(c.Context(), of); {
	case err != nil:
		return "", approval.ID{}
	case id != "" && row.Client != id:
		return attempt.OtherGrant, approval.ID{}
	}
	return attempt.OwnGrant, of
}

// saw tells Seen how a call went; e is nil where it went well.
func (s *Server) saw(c call, e *Error) {
	if s.Seen == nil || c.seen.step == 0 || c.seen.later && e == nil {
		return
	}
	if e != nil && e.Code == useNonce && c.seen.step == attempt.Refresh {
		return // most refreshes begin so: it says nothing of the attempt
	}
	o := attempt.Observation{Step: c.seen.step, Outcome: attempt.Done, What: c.seen.what, N: c.seen.n, Status: http.StatusOK, Keys: c.seen.Keys}
	if o.Step == attempt.Registration {
		o.Status = http.StatusCreated
	}
	if e != nil {
		o.Outcome, o.Reason, o.Status = attempt.Failed, reasonOf(c.seen.step, e), e.Status
		if o.Reason == attempt.RateLimited {
			o.N, _ = strconv.Atoi(e.value)
		}
	}
	s.Seen(c.Request, o)
}

// reasonOf finds the reason of a refusal.
func reasonOf(step attempt.Step, e *Error) attempt.Reason {
	switch {
	case e.reason == "limited":
		return attempt.RateLimited
	case e == unavailable, e.Status == http.StatusServiceUnavailable:
		return attempt.ServerUnavailable
	case e.Status >= http.StatusInternalServerError:
		return attempt.ServerFault
	case step == attempt.Registration && e.Status == http.StatusMethodNotAllowed:
		return attempt.RegistrationBody
	case step == attempt.Registration:
		return attempt.RegistrationReason(e.Code, e.Description)
	case e.Status == http.StatusMethodNotAllowed:
		return attempt.TokenMethod
	case e.Code == "invalid_request":
		return unreadable(e.Description)
	case e.Code == "invalid_grant":
		return refusedGrant(step, e.reason)
	case e.Code == "invalid_client" && strings.HasPrefix(e.Description, "clients are public"):
		return attempt.ClientCredentials
	}
	if r, ok := byCode[e.Code]; ok {
		return r
	}
	return attempt.ServerFault
}

var byCode = map[string]attempt.Reason{
	"invalid_client": attempt.ClientUnknown, "unsupported_grant_type": attempt.GrantType,
	"invalid_scope": attempt.ScopeUnknown, "invalid_target": attempt.ResourceUnknown,
	invalidProof: attempt.DPoPProof, useNonce: attempt.DPoPNonce,
}

func unreadable(description string) attempt.Reason {
	switch {
	case strings.HasPrefix(description, "code_verifier must be"):
		return attempt.PKCEVerifier
	case strings.HasPrefix(description, "missing parameter"), strings.HasPrefix(description, "a parameter was sent twice"):
		return attempt.TokenParameter
	}
	return attempt.TokenBody
}

// refusedGrant finds the reason of a code or a refresh token that was refused.
func refusedGrant(step attempt.Step, verdict string) attempt.Reason {
	refresh := step == attempt.Refresh
	switch verdict {
	case disabled.reason:
		return attempt.ClientDisabled
	case approval.WrongKey.String():
		return attempt.DPoPKey
	case approval.WrongVerifier.String():
		return attempt.PKCEMismatch
	case approval.WrongRedirect.String():
		return attempt.RedirectAtToken
	case approval.WrongIssuer.String():
		return attempt.CodeOtherIssuer
	case approval.Expired.String():
		return attempt.CodeExpired
	case approval.Reused.String():
		if refresh {
			return attempt.RefreshReused
		}
		return attempt.CodeReused
	case approval.WrongClient.String():
		if refresh {
			return attempt.RefreshUnknown
		}
		return attempt.CodeOtherClient
	case "unknown":
		if refresh {
			return attempt.RefreshUnknown
		}
		return attempt.CodeUnknown
	}
	return attempt.ApprovalEnded
}

// sawRegistration tells what a registration asks for that is not refused.
func (k *seen) sawRegistration(m client.Metadata) {
	k.Name, k.Host, k.n = m.Name, client.HostOf(m.RedirectURIs[0]), len(m.RedirectURIs)
}

// sawVerifier tells how a code_verifier is none.
func (k *seen) sawVerifier(text string) { k.what, k.n = attempt.VerifierWrong(text) }

// sawMetadata tells that a document was read, or asked for where there is none.
func (s *Server) sawMetadata(r *http.Request, what attempt.What, found bool) {
	if s.Seen == nil || r.Method == http.MethodOptions {
		return
	}
	o := attempt.Observation{Step: attempt.Metadata, Outcome: attempt.Done, What: what, Status: http.StatusOK}
	if !found {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/oauth-") && !strings.HasPrefix(r.URL.Path, "/.well-known/openid-configuration") {
			return // of no client
		}
		o.Outcome, o.Reason, o.Status = attempt.Failed, attempt.MetadataPath, http.StatusNotFound
	}
	s.Seen(r, o)
}

// sawPreflight tells of a script that may not send what it wants to.
func (s *Server) sawPreflight(r *http.Request, step attempt.Step) {
	asked := strings.Join(r.Header["Access-Control-Request-Headers"], ",")
	if s.Seen == nil || step == 0 || attempt.HeadersAllowed(asked, allowedAt(r.URL.Path)[0]) {
		return
	}
	s.Seen(r, attempt.Observation{Step: step, Outcome: attempt.Failed, Reason: attempt.CORSHeader, What: attempt.Preflight, Status: http.StatusNoContent})
}

// stepAt is the step that a call to an endpoint is of; 0 is none.
func stepAt(path string) attempt.Step {
	switch path {
	case "/oauth/register":
		return attempt.Registration
	case tokenPath:
		return attempt.Token
	}
	return 0
}
