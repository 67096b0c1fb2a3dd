package operator

import (
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// revokeManyBody is the body of POST /v1/approvals/revoke: which ones.
type revokeManyBody struct {
	reasonBody
	Client       string `json:"client"`
	Person       string `json:"person"` // ID or email
	Organization string `json:"organization"`
	UnusedFor    string `json:"unused_for"` // such as 90d
	DryRun       bool   `json:"dry_run"`
}

// approvalsRevoked says how many approvals a change has ended, or would.
type approvalsRevoked struct {
	ID     string `json:"id"` // always "approvals"
	DryRun bool   `json:"dry_run"`
	Ended  int    `json:"ended"`
}

// revokeMany ends every approval that matches.
func (s *Server) revokeMany(c Call, body revokeManyBody) (any, error) {
	f := store.ApprovalFilter{Client: body.Client, Organization: body.Organization}
	var err error
	if f.Person, err = s.knownPerson(c, body.Person); err != nil {
		return nil, err
	}
	if err := s.knownOrganization(c, body.Organization); err != nil {
		return nil, err
	}
	if body.Client != "" {
		if _, err := s.Store.Client(c.Context(), body.Client); err != nil {
			return nil, err
		}
	}
	if body.UnusedFor != "" {
		if f.UnusedSince, err = s.unusedSince("unused_for", body.UnusedFor); err != nil {
			return nil, err
		}
	}
	if f == (store.ApprovalFilter{}) {
		return nil, BadRequest("say which: client, person, organization or unused_for")
	}
	n, err := s.Store.EndMatching(c.Context(), f, approval.RevokedByOperator, body.DryRun, c.Act(body.Reason))
	return approvalsRevoked{"approvals", body.DryRun, n}, err
}

// unusedSince gives the time, in Unix seconds, that so long a time without use
// began at.
func (s *Server) unusedSince(name, value string) (int64, error) {
	unused, ok := duration(value)
	if !ok || unused < time.Second && value != "0s" {
		return 0, BadRequest(name + ": how long, such as 2160h or 90d")
	}
	return max(s.Store.Now().Add(-unused).Unix(), 1), nil
}
