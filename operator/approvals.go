package operator

import (
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

func (s *Server) approvals(c Call) (any, error) {
	f, err := c.Filter("client", "person", "organization", "grant", "state", "unused-for")
	if err != nil {
		return nil, err
	}
	rows, next, err := s.FindApprovals(c, f)
	return newListPage(rows, next, func(r store.ApprovalRow) approvalObject { return s.approvalObject(c.Context(), r) }), err
}

// FindApprovals gives the approvals that match the filter, newest first, and the
// cursor of the next ones. The error is store.ErrNotFound where the filter names
// a person or an organization that does not exist.
func (s *Server) FindApprovals(c Call, f Filter) ([]store.ApprovalRow, string, error) {
	of, err := s.approvalFilter(c, f)
	if err != nil {
		return nil, "", err
	}
	rows, next, err := s.Store.Approvals(c.Context(), of)
	return rows, next, f.CursorError(err)
}

// approvalFilter reads the parameters of a list of approvals.
func (s *Server) approvalFilter(c Call, f Filter) (store.ApprovalFilter, error) {
	grant, err := f.OneOf("grant", "roles", "everything", "organization")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	state, err := f.OneOf("state", "code_issued", "live", "ended")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	person, err := s.knownPerson(c, f.Get("person"))
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	if err := s.knownOrganization(c, f.Get("organization")); err != nil {
		return store.ApprovalFilter{}, err
	}
	of := store.ApprovalFilter{
		Client: f.Get("client"), Person: person, Organization: f.Get("organization"),
		Grant: grantset.Kind(grant), State: state, After: f.After, Limit: f.Limit,
	}
	if v := f.Get("unused-for"); v != "" {
		if state != "" && state != "live" {
			return of, BadRequest("unused-for: it is asked of live ones alone")
		}
		if of.UnusedSince, err = s.unusedSince("unused-for", v); err != nil {
			return of, err
		}
	}
	return of, nil
}

// unusedSince reads a duration without use and returns when it began, in Unix
// seconds. name is the member or parameter for the error.
func (s *Server) unusedSince(name, value string) (int64, error) {
	unused, ok := duration(value)
	if !ok || unused < time.Second && value != "0s" {
		return 0, BadRequest(name + ": how long, such as 2160h or 90d")
	}
	return max(s.Store.Now().Add(-unused).Unix(), 1), nil
}

func (s *Server) approval(c Call) (any, error) {
	id, err := c.ApprovalID()
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if err != nil {
		return nil, err
	}
	return s.approvalObject(c.Context(), row), nil
}

// ApprovalID parses the {id} of the path. A text that is no ID is an unknown
// approval.
func (c Call) ApprovalID() (approval.ID, error) {
	id, err := approval.ParseID(c.PathValue("id"))
	if err != nil {
		return approval.ID{}, NotFound("approval")
	}
	return id, nil
}

func (s *Server) revoke(c Call, body reasonBody) (any, error) {
	id, err := c.ApprovalID()
	if err != nil {
		return nil, err
	}
	if err := s.Revoke(c, id, body.Reason); err != nil {
		return nil, err
	}
	return s.approval(c)
}

// Revoke ends an approval. An approval that has ended already stays as it is.
func (s *Server) Revoke(c Call, id approval.ID, reason string) error {
	return s.Store.EndApproval(c.Context(), id, approval.RevokedByOperator, c.Act(reason))
}

// revokeManyBody is the body of POST /v1/approvals/revoke: which approvals to end.
type revokeManyBody struct {
	reasonBody
	Client       string `json:"client"`
	Person       string `json:"person"` // ID or email
	Organization string `json:"organization"`
	UnusedFor    string `json:"unused_for"` // such as 90d
	DryRun       bool   `json:"dry_run"`
}

// approvalsRevoked says how many approvals a change has ended, or would end in a
// dry run.
type approvalsRevoked struct {
	ID     string `json:"id"` // always "approvals"
	DryRun bool   `json:"dry_run"`
	Ended  int    `json:"ended"`
}

// revokeMany ends every approval that matches the body.
func (s *Server) revokeMany(c Call, body revokeManyBody) (any, error) {
	n, err := s.RevokeMany(c, Many{body.Client, body.Person, body.Organization, body.UnusedFor}, body.DryRun, body.Reason)
	return approvalsRevoked{"approvals", body.DryRun, n}, err
}

// Many says which approvals are meant: all that match what is given.
type Many struct {
	Client       string
	Person       string // ID or email
	Organization string
	UnusedFor    string // such as 90d
}

// RevokeMany ends all approvals that match, or in a dry run counts them.
func (s *Server) RevokeMany(c Call, body Many, dry bool, reason string) (int, error) {
	f := store.ApprovalFilter{Client: body.Client, Organization: body.Organization}
	var err error
	if f.Person, err = s.knownPerson(c, body.Person); err != nil {
		return 0, err
	}
	if err := s.knownOrganization(c, body.Organization); err != nil {
		return 0, err
	}
	if body.Client != "" {
		if _, err := s.Store.Client(c.Context(), body.Client); err != nil {
			return 0, err
		}
	}
	if body.UnusedFor != "" {
		if f.UnusedSince, err = s.unusedSince("unused_for", body.UnusedFor); err != nil {
			return 0, err
		}
	}
	if f == (store.ApprovalFilter{}) {
		return 0, BadRequest("say which: client, person, organization or unused_for")
	}
	return s.Store.EndMatching(c.Context(), f, approval.RevokedByOperator, dry, c.Act(reason))
}

// countEnding counts the approvals that a change ends. It returns nil where on says
// that the change ends none.
func (s *Server) countEnding(c Call, f store.ApprovalFilter, on bool) (*approvalsEnded, error) {
	if on {
		return nil, nil
	}
	n, err := s.Store.Unended(c.Context(), f)
	return &approvalsEnded{n}, err
}
