package api

import (
	"net/http"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
)

// sawFirst tells of the first call of an approval. why is "" where it is answered.
func (s *Server) sawFirst(r *http.Request, a Actor, why attempt.Reason) {
	if s.Seen == nil || !a.unused || a.Client == "" {
		return
	}
	o := attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Done, Status: http.StatusOK, Keys: keysOf(a)}
	if why != "" {
		o.Outcome, o.Reason, o.Status = attempt.Failed, why, http.StatusTooManyRequests
	}
	s.Seen(r, o)
}

func keysOf(a Actor) attempt.Keys {
	if a.Client == "" {
		return attempt.Keys{}
	}
	return attempt.Keys{Client: a.Client, Approval: a.Approval.String()}
}

// refused is whose token it was that was refused.
type refused struct {
	client     string // "" where the approval has ended
	approval   approval.ID
	generation int64
}

// sawRefused tells of a call that is answered 401. An access token that has expired is
// told of until its approval has been refreshed once: what comes then is the daily round.
func (s *Server) sawRefused(r *http.Request, a Actor, why Result, legacy bool) {
	if s.Seen == nil || why == Expired && a.refused != nil && a.refused.generation > 1 {
		return
	}
	o := attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Status: http.StatusUnauthorized}
	if a.refused != nil {
		o.Keys = attempt.Keys{Client: a.refused.client, Approval: a.refused.approval.String()}
	}
	switch {
	case why == Missing && strings.Contains(r.URL.RawQuery, "access_token="): // it is there: it is not read
		o.Reason = attempt.TokenInQuery
	case why == Missing && legacy:
		return
	case why == Missing:
		o.Step, o.Outcome, o.What = attempt.Challenge, attempt.Done, attempt.AtAPI
		if r.Header.Get("Authorization") != "" {
			o.What = attempt.OtherScheme
		} else if s.MCP[r.URL.Path] != nil || r.URL.Path == client.MCPPath {
			o.What = attempt.AtMCP
		}
	case why == WrongHeader && legacy:
		o.Reason = attempt.TokenLegacy
	default:
		o.Reason = refusals[why]
	}
	s.Seen(r, o)
}

var refusals = map[Result]attempt.Reason{
	WrongHeader: attempt.TokenInHeader, WrongKind: attempt.TokenWrongKind, Unknown: attempt.TokenUnknown,
	Expired: attempt.AccessExpired, Revoked: attempt.ApprovalEnded,
}

// sawPreflight tells of a script that may not send what it wants to.
func (s *Server) sawPreflight(r *http.Request) {
	if s.Seen == nil || attempt.HeadersAllowed(strings.Join(r.Header["Access-Control-Request-Headers"], ","), allowedHeaders(r)) {
		return
	}
	s.Seen(r, attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.CORSHeader, What: attempt.Preflight, Status: http.StatusNoContent})
}

// SawVersion tells that an MCP endpoint refused the version of the protocol that a
// request names.
func (s *Server) SawVersion(r *http.Request, a Actor) {
	if s.Seen != nil && a.Client != "" && a.unused {
		s.Seen(r, attempt.Observation{Step: attempt.FirstCall, Outcome: attempt.Failed, Reason: attempt.MCPVersion, Status: http.StatusBadRequest, Keys: keysOf(a)})
	}
}
