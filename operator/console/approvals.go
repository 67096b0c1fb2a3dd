package console

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

// An approvalRow is an approval in the list. Others wrote all names.
type approvalRow struct {
	Client                   clientRow
	Person, Organization     string
	Access                   string // in words
	WholeOrganization        bool   // the widest grant set
	State, Reason            string
	Created, LastUsed, Ended moment
	Living                   bool
	MayRevoke                bool // who sees it may
	RevokePath, ExplainPath  string
	ActivityPath             string
}

// An approvalsPage lists approvals.
type approvalsPage struct {
	frame
	Client, Person, Organization, State, Grant string // of the filter, as sent
	Rows                                       []approvalRow
	Next                                       string
	More                                       bool
	Unknown                                    string // why nothing is listed: a person or organization of the filter does not exist
	Done                                       bool
	Ended                                      int // a moment ago, as the address says it
}

func (s *Server) approvalsPage(v *visit) error {
	f, err := v.Filter("client", "person", "organization", "state", "grant", "done", "ended")
	if err != nil {
		return err
	}
	p := approvalsPage{
		frame: s.frame(v, "approvals", "Approvals"), Client: f.Get("client"), Person: f.Get("person"), Organization: f.Get("organization"),
		State: f.Get("state"), Grant: f.Get("grant"), More: f.After != "", Done: f.Get("done") != "", Ended: countIn(f.Get("ended")),
	}
	rows, next, err := s.API.FindApprovals(v.Call, f)
	if errors.Is(err, store.ErrNotFound) {
		p.Unknown = "No person, or no organization, has this name. Search for a person by email or ID, and for an organization by its ID."
		return s.render(v.w, 200, approvalsTemplate, &p)
	} else if err != nil {
		return err
	}
	names := s.newNameCache(v)
	for _, r := range rows {
		p.Rows = append(p.Rows, names.approval(r))
	}
	p.Next = v.link("/approvals", next)
	return s.render(v.w, 200, approvalsTemplate, &p)
}

func (n *nameCache) approval(r store.ApprovalRow) approvalRow {
	row := approvalRow{
		Client: newClientRow(client.Client{ID: r.Client, Name: r.ClientName, RedirectURIs: []string{r.RedirectURI}}, n.v.now),
		Person: n.person(r.Person), Organization: n.organization(r.Organization),
		Access: r.Grant.InWords(n.s.API.RoleNames(n.v.Context(), r.Organization)), WholeOrganization: r.Grant.Kind == grantset.Organization, Created: onDay(r.CreatedAt, n.v.now), LastUsed: lastUsed(r.LastUsed, n.v.now),
		State: r.StateName(), Living: r.Phase != approval.Ended, MayRevoke: n.s.mayAt(n.v, "/approvals/{id}/revoke"), RevokePath: "/approvals/" + r.ID.String() + "/revoke",
	}
	row.ExplainPath, row.ActivityPath = "/approvals/"+r.ID.String()+"/explain", "/approvals/"+r.ID.String()+"/activity"
	if !row.Living {
		row.Reason, row.Ended = withSpaces(string(r.Reason)), onDay(r.EndedAt, n.v.now)
	}
	return row
}

// StateWord is the state in the words of the page.
func (r approvalRow) StateWord() string {
	return map[string]string{"code_issued": "Connecting", "live": "Live", "ended": "Ended"}[r.State]
}

// countIn reads a number of what was just done out of an address; 0 is none.
func countIn(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// withSpaces makes text of a name that the journal writes with underscores.
func withSpaces(word string) string { return strings.ReplaceAll(word, "_", " ") }

// approvalOf is the approval of the path.
func (s *Server) approvalOf(v *visit) (store.ApprovalRow, error) {
	id, err := v.ApprovalID()
	if err != nil {
		return store.ApprovalRow{}, err
	}
	row, err := s.API.Store.Approval(v.Context(), id)
	return row, orNotFound(err, "approval")
}

func (s *Server) confirmRevoke(v *visit) error {
	row, err := s.approvalOf(v)
	if err != nil {
		return err
	}
	return s.showRevoke(v, row, http.StatusOK, "", "")
}

// showRevoke asks before an approval is revoked. fault is what is wrong with the
// reason that was sent; "" is nothing.
func (s *Server) showRevoke(v *visit, row store.ApprovalRow, status int, reason, fault string) error {
	shown := s.newNameCache(v).approval(row)
	p := confirmPage{
		What: "revoke", Client: shown.Client, Person: shown.Person, Organization: shown.Organization,
		Reason: reason, Fault: fault, Path: v.URL.Path, Back: "/approvals?client=" + shown.Client.ID,
	}
	return s.confirm(v, p, "approvals", "Revoke an approval?", status)
}

func (s *Server) revokePage(v *visit) error {
	row, err := s.approvalOf(v)
	if err != nil {
		return err
	}
	form, err := s.form(v)
	if err != nil {
		return err
	}
	reason, fault := readReason(form)
	if fault != "" {
		return s.showRevoke(v, row, http.StatusUnprocessableEntity, reason, fault)
	}
	if err := s.API.Revoke(v.Call, row.ID, reason); err != nil {
		return orNotFound(err, "approval")
	}
	return v.redirect("/approvals?done=1&client=" + row.Client)
}
