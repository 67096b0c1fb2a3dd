package operator

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// maxPolicy is the most bytes of a body with the rules of an organization: of a
// thousand apps, with their reasons.
const maxPolicy = 4 << 20

// policyObject is the rules of an organization for apps.
type policyObject struct {
	ID      string          `json:"id"`     // of the organization
	Policy  json.RawMessage `json:"policy"` // as policy.Policy writes itself
	Effects []effectObject  `json:"effects,omitempty"`
	DryRun  bool            `json:"dry_run,omitempty"`
}

// effectObject is one thing that rules do to connections when they are saved: one of
// Host, Ceiling and EndsAt says what.
type effectObject struct {
	Host        string `json:"host,omitempty"`    // they end, because it is blocked
	Ceiling     string `json:"ceiling,omitempty"` // they get less, by this one
	EndsAt      int64  `json:"ends_at,omitempty"` // they end then
	Connections int    `json:"connections"`
}

func newPolicy(organization string, p *policy.Policy, effects []policy.Effect, dry bool) policyObject {
	out := policyObject{ID: organization, Policy: policyJSON(p), DryRun: dry}
	for _, e := range effects {
		out.Effects = append(out.Effects, effectObject{e.Host, string(e.Ceiling), e.EndsAt, e.Connections})
	}
	return out
}

// policyJSON writes rules; nil is none.
func policyJSON(p *policy.Policy) json.RawMessage {
	if p == nil {
		p = new(policy.Policy)
	}
	return p.JSON()
}

func (s *Server) policy(c Call) (any, error) {
	id := c.PathValue("id")
	p, err := s.Store.Policy(c.Context(), id)
	return newPolicy(id, p, nil, false), err
}

// policyBody is the body of PUT /v1/organizations/{id}/policy. The version in the
// policy is the one that was seen.
type policyBody struct {
	reasonBody
	Policy json.RawMessage `json:"policy"`
}

// setPolicy saves the rules of an organization, or with dry_run says what saving
// them would do.
func (s *Server) setPolicy(c Call) (any, error) {
	dry, err := c.dryRun()
	if err != nil {
		return nil, err
	}
	var body policyBody
	text, err := c.readBody(maxPolicy)
	if err != nil {
		return nil, err
	}
	if err := strict(text, &body); err != nil {
		return nil, BadRequest(err.Error())
	}
	if err := CheckReason(body.Reason); err != nil {
		return nil, err
	}
	if body.Policy == nil {
		return nil, BadRequest("policy: it is missing")
	}
	p, err := policy.Read(body.Policy)
	if err != nil {
		return nil, BadRequest("policy: " + err.Error())
	}
	return s.savePolicy(c, store.Rules{Organization: c.PathValue("id"), Seen: p.Version, Policy: p}, dry, body.Reason)
}

// dryRun reads the only option of a change that says what it would do.
func (c Call) dryRun() (dry bool, err error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	for name, v := range values {
		if name != "dry_run" || len(v) != 1 {
			return false, BadRequest("unknown option; known is dry_run, once")
		}
		dry, err = strconv.ParseBool(v[0])
	}
	if err != nil {
		return false, BadRequest("dry_run: true or false")
	}
	return dry, nil
}

func (s *Server) savePolicy(c Call, r store.Rules, dry bool, reason string) (any, error) {
	var effects []policy.Effect
	var err error
	saved := &r.Policy
	if dry {
		effects, err = s.Store.PolicyEffects(c.Context(), r)
	} else {
		saved, effects, err = s.Store.SetPolicy(c.Context(), r, c.Act(reason))
	}
	var wrong store.PolicyError
	switch {
	case errors.As(err, &wrong):
		return nil, BadRequest("policy: " + wrong.Error())
	case errors.Is(err, store.ErrChanged):
		return s.changedPolicy(c, r, dry)
	case err != nil:
		return nil, err
	}
	return newPolicy(r.Organization, saved, effects, dry), nil
}

// changedPolicy answers whoever has seen another version of the rules than there is:
// with that, or, to one who repeats the last change, as then.
func (s *Server) changedPolicy(c Call, r store.Rules, dry bool) (any, error) {
	now, err := s.Store.Policy(c.Context(), r.Organization)
	if err != nil {
		return nil, err
	}
	if !dry && now != nil && now.Version == r.Seen+1 && now.ChangedBy == c.Actor && policy.Same(now, &r.Policy) {
		return newPolicy(r.Organization, now, nil, false), nil
	}
	return withStatus{http.StatusConflict, policyChanged{
		errorBody{"conflict", "the rules are not, or not any more, the version that the policy names", c.Reference}, policyJSON(now),
	}}, nil
}

// policyChanged is the refusal of rules that somebody wrote over others than there are.
type policyChanged struct {
	errorBody
	Policy json.RawMessage `json:"policy"` // as it stands
}

// clearPolicy takes all rules of an organization away, whatever they are. End dates
// stay.
func (s *Server) clearPolicy(c Call, body reasonBody) (any, error) {
	id := c.PathValue("id")
	p, err := s.Store.Policy(c.Context(), id)
	if err != nil || policy.Same(p, nil) {
		return newPolicy(id, p, nil, false), err
	}
	return s.savePolicy(c, store.Rules{Organization: id, Seen: p.Version}, false, body.Reason)
}
