package consent

import (
	"errors"
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page"
)

// keys name the walk of a request of a client that is known.
func (a authorization) keys(v *page.Visit, c client.Client) attempt.Keys {
	k := attempt.Keys{Client: c.ID, Name: c.Name, Host: client.HostsOf(c.ID, a.RedirectURI, c.Preregistered).App, Walk: attempt.WalkOf(c.ID, a.Challenge)}
	if v.SignedIn() && !v.Acting() {
		k.Person = v.Person.ID
	}
	return k
}

// saw tells of one step of a walk.
func (s *Server) saw(v *page.Visit, k attempt.Keys, step attempt.Step, how attempt.Outcome, why attempt.Reason) {
	if s.Seen != nil {
		s.Seen(v.R, attempt.Observation{Step: step, Outcome: how, Reason: why, Keys: k})
	}
}

// sawRequest tells of a request that is in order.
func (s *Server) sawRequest(v *page.Visit, c client.Client, a authorization, p parameters) {
	if s.Seen == nil {
		return
	}
	o := attempt.Observation{Step: attempt.Authorize, Outcome: attempt.Done, Keys: a.keys(v, c)}
	if prompt, _ := p.one("prompt"); prompt == "none" {
		o.What = attempt.PromptNone
	}
	s.Seen(v.R, o)
	how := attempt.Waiting
	if v.SignedIn() {
		how = attempt.Done
	}
	s.saw(v, a.keys(v, c), attempt.SignIn, how, "")
}

// sawNoClient tells of a request without a client, or with another redirect URI. Of
// a client that is not known, the host alone is told that it names.
func (s *Server) sawNoClient(v *page.Visit, id, redirectURI string, p parameters, err error) {
	if s.Seen == nil {
		return
	}
	o := attempt.Observation{Step: attempt.Authorize, Outcome: attempt.Failed, Status: http.StatusBadRequest, Reason: attempt.ClientUnknown}
	var refused page.Refusal
	if undocumented, ok := errors.AsType[noDocument](err); ok {
		o.Reason, o.Host, o.Status = undocumented.reason, undocumented.host, undocumented.Status
		if c, err := s.Store.Client(v.R.Context(), id); err == nil {
			o.Client, o.Name = c.ID, c.Name
		}
		s.Seen(v.R, o)
		return
	}
	switch c, known := s.Store.Client(v.R.Context(), id); {
	case !errors.As(err, &refused):
		return
	case known != nil:
		if client.CheckRedirectURI(redirectURI, nil) == nil {
			o.Host = client.HostOf(redirectURI)
		}
	case c.Disabled:
		o.Reason, o.Client, o.Name, o.Host = attempt.ClientDisabled, c.ID, c.Name, hostOfFirst(c)
	default:
		o.Reason, o.Client, o.Name, o.Host = attempt.RedirectMismatch, c.ID, c.Name, hostOfFirst(c)
		o.What, o.N = attempt.Differs(p["redirect_uri"].first(), c.RedirectURIs)
	}
	s.Seen(v.R, o)
}

func hostOfFirst(c client.Client) string {
	if len(c.RedirectURIs) == 0 {
		return ""
	}
	return client.HostsOf(c.ID, c.RedirectURIs[0], c.Preregistered).App
}

// sawFault tells of a request that is not in order.
func (s *Server) sawFault(v *page.Visit, c client.Client, a authorization, p parameters, f fault) {
	if s.Seen == nil {
		return
	}
	o := attempt.Observation{Step: attempt.Authorize, Outcome: attempt.Failed, Status: http.StatusBadRequest, Keys: a.keys(v, c)}
	about := func(what string) bool { return strings.HasPrefix(f.description, what) }
	challenge, method := p["code_challenge"].first(), p["code_challenge_method"].first()
	switch {
	case f.code == "unsupported_response_type", about("response_type is missing"):
		o.Reason = attempt.ResponseType
	case f.code == "invalid_scope":
		o.Reason = attempt.ScopeUnknown
	case f.code == "invalid_target":
		other, _ := p["resource"].otherResource(v.Base, s.Resources)
		o.Reason, o.What = attempt.ResourceUnknown, attempt.ResourceDiffers(other, v.Base+client.MCPPath)
	case about("code_challenge is missing"):
		o.Reason = attempt.PKCEMissing
	case about("code_challenge must") && method != "" && method != "S256":
		o.Reason = attempt.PKCEMethod
	case about("code_challenge must"):
		o.Reason = attempt.PKCEChallenge
		o.What, o.N = attempt.ChallengeWrong(challenge)
	case about("code_challenge_method is missing"), about("the only code_challenge_method"):
		o.Reason = attempt.PKCEMethod
	default:
		o.Reason = attempt.RequestMalformed
	}
	s.Seen(v.R, o)
}

// sawApproval tells that the person approved, and that the browser goes back.
func (s *Server) sawApproval(v *page.Visit, c client.Client, p question, organization string, id approval.ID) {
	if s.Seen == nil {
		return
	}
	k := p.keys(v, c)
	k.Organization, k.Approval = organization, id.String()
	s.saw(v, k, attempt.Consent, attempt.Done, "")
	s.saw(v, k, attempt.Code, attempt.Done, "")
}

// sawAt tells of the consent page in an organization; "" where none is chosen.
func (s *Server) sawAt(v *page.Visit, c client.Client, p question, organization string, why attempt.Reason) {
	k, how := p.keys(v, c), attempt.Failed
	if k.Organization = organization; why == "" {
		how = attempt.Waiting
	}
	s.saw(v, k, attempt.Consent, how, why)
}

// sawSignIn tells what came of signing in for the request at a path of this server.
func (s *Server) sawSignIn(v *page.Visit, path string, what attempt.What) {
	query, ok := strings.CutPrefix(path, "/oauth/authorize?")
	if !ok || s.Seen == nil {
		return
	}
	p := parseParameters(query)
	id := p.client()
	redirectURI, _ := p.one("redirect_uri")
	c, err := s.client(v, id, redirectURI)
	if err != nil {
		return
	}
	a, _ := p.authorization(id, redirectURI, v.Base, s.Resources)
	s.Seen(v.R, attempt.Observation{Step: attempt.SignIn, Outcome: attempt.Waiting, What: what, Keys: a.keys(v, c)})
}
