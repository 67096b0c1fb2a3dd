package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
)

// An explainPage says what an approval stands on, and of a call whether it may be made.
type explainPage struct {
	frame
	Approval                   approvalRow
	ID                         string
	Tool, Arguments, HTTP, Doc string // the call, as it was asked
	Explanation                operator.Explanation
	Asked                      bool   // about a call
	Fault                      string // what is wrong with the question
}

// explainPage explains the approval of the path. What it asks of a call are the
// parameters of the API; those that are empty count for nothing.
func (s *Server) explainPage(v *visit) error {
	f, err := v.Filter("tool", "arguments", "call", "body")
	if err != nil {
		return err
	}
	row, err := s.approvalOf(v)
	if err != nil {
		return err
	}
	p := explainPage{frame: s.frame(v, "approvals", "Explain an approval"), Approval: s.newNameCache(v).approval(row), ID: row.ID.String(),
		Tool: f.Get("tool"), Arguments: f.Get("arguments"), HTTP: f.Get("call"), Doc: f.Get("body")}
	asked := v.query()
	p.Asked = len(asked) > 0
	for _, query := range []string{asked.Encode(), ""} {
		r := v.Clone(v.Context())
		r.URL.RawQuery = query
		c := v.Call
		c.Request = r
		p.Explanation, err = s.API.Explain(c)
		refused, ok := err.(*operator.Error)
		if !ok || refused.Status != http.StatusBadRequest {
			break
		}
		p.Fault, p.Asked = sentence(refused.Description), false // and what the approval stands on alone
	}
	if err != nil {
		return orNotFound(err, "approval")
	}
	return s.render(v.w, 200, explainTemplate, &p)
}

// An inspectPage says of a token what it is. It is never shown, nor kept.
type inspectPage struct {
	frame
	CSRF  string
	Found *operator.Inspected // nil before anything was sent
	Fault string

	Person, Organization string // names
	ClientPath           string
	Ended, Expires       moment
}

func (s *Server) inspectForm(v *visit) error { return s.showInspected(v, http.StatusOK, inspectPage{}) }

func (s *Server) showInspected(v *visit, status int, p inspectPage) error {
	p.frame = s.frame(v, "approvals", "Inspect a token")
	p.CSRF = s.formTag(v.Who.Session, v.URL.Path)
	return s.render(v.w, status, inspectTemplate, &p)
}

func (s *Server) inspectToken(v *visit) error {
	form, err := s.form(v)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(form.Get("token"))
	if text == "" {
		return s.showInspected(v, http.StatusUnprocessableEntity, inspectPage{Fault: "Paste a token."})
	}
	found, err := s.API.Inspect(v.Call, text)
	if err != nil {
		return err
	}
	names := s.newNameCache(v)
	p := inspectPage{Found: &found, Person: names.person(found.Person), Organization: names.organization(found.Organization)}
	if found.ClientID != "" {
		p.ClientPath = "/clients/" + url.PathEscape(found.ClientID)
	}
	if found.EndedAt > 0 {
		p.Ended = atSecond(found.EndedAt, v.now)
	}
	if found.ExpiresAt > 0 {
		p.Expires = atSecond(found.ExpiresAt, v.now)
	}
	return s.showInspected(v, http.StatusOK, p)
}

// sure is the field of a change of many, and refuses those of an operator who has not
// seen yet how many they are.
var sure = field{ID: "sure", Label: "I have seen how many, and mean all of them", Kind: "check", Optional: true,
	Hint: "Without it nothing changes: it is counted, and said."}

func unsure(n int, one, many string) error {
	return invalid{"sure", operator.Count(n, one, many) + " Tick the box, and send it again, to go on."}
}

func (s *Server) revokeMany(v *visit) (change, error) {
	c := change{
		Under: "approvals", Before: "Revoke many approvals", Button: "Revoke all that match", Keep: "Leave them", Back: "/approvals",
		Lines: []string{"All approvals end that match everything you give. To use the apps again, each person approves again."},
		Fields: []field{
			{ID: "client", Label: "Client", Kind: "text", Optional: true, Hint: "Client ID"},
			{ID: "person", Label: "Person", Kind: "text", Optional: true, Hint: "Email or ID"},
			{ID: "organization", Label: "Organization", Kind: "text", Optional: true, Hint: "ID"},
			{ID: "unused", Label: "Not used for", Kind: "text", Optional: true, Hint: "Such as 90d"},
			sure,
		},
	}
	c.do = func(form url.Values, reason string) (string, error) {
		which := operator.Many{Client: form.Get("client"), Person: form.Get("person"), Organization: form.Get("organization"), UnusedFor: form.Get("unused")}
		dry := form.Get("sure") == ""
		n, err := s.API.RevokeMany(v.Call, which, dry, reason)
		if refused := s.API.Refusal(v.Call, err); err != nil && refused.Status == http.StatusNotFound {
			return "", invalid{"", "There is no such client, person or organization."}
		}
		if err == nil && dry {
			err = unsure(n, "1 approval matches.", "%s approvals match.")
		}
		return fmt.Sprintf("/approvals?ended=%d", n), err
	}
	return c, nil
}

func (s *Server) addClient(v *visit) (change, error) {
	c := change{
		Under: "clients", Before: "Add a client", Button: "Add", Keep: "Add none", Gentle: true, Back: "/clients",
		Lines: []string{"A client that need not register itself: public, with PKCE, and never expired. People still approve it, each for themselves."},
		Fields: []field{
			{ID: "id", Label: "Client ID", Kind: "text"}, {ID: "name", Label: "Name", Kind: "text"},
			{ID: "uris", Label: "Redirect URIs", Kind: "lines", Hint: "1 to 5 https URIs, one a line"},
		},
	}
	c.do = func(form url.Values, reason string) (string, error) {
		added, err := s.API.AddClient(v.Call, form.Get("id"), form.Get("name"), strings.Fields(form.Get("uris")), reason)
		return "/clients/" + url.PathEscape(added.ID) + "?done=added", err
	}
	return c, nil
}

func (s *Server) deleteClient(v *visit) (change, error) {
	found, err := s.clientOf(v)
	if err != nil {
		return change{}, err
	}
	reach, err := s.API.Store.ClientReach(v.Context(), found.ID)
	row := newClientRow(found, v.now)
	c := change{Under: "clients", Before: "Delete ", Name: row.Label(), After: "?", Button: "Delete", Keep: "Keep it", Back: row.Path,
		Lines: []string{"It is gone for good, and " + operator.Count(reach.Approvals, "1 approval ends", "%s approvals end") + " at once. Whoever wants it again registers it anew, under another ID; to keep it out, disable it instead."}}
	c.do = func(_ url.Values, reason string) (string, error) {
		return "/clients?deleted=1", s.API.DeleteClient(v.Call, found.ID, reason)
	}
	return c, err
}

func (s *Server) deleteUnapproved(v *visit) (change, error) {
	c := change{
		Under: "clients", Before: "Delete clients that nobody approved", Button: "Delete all that match", Keep: "Keep them", Back: "/clients",
		Lines: []string{"Clients that registered themselves, and that no person has approved: as after somebody filled registration. All that match everything you give are deleted."},
		Fields: []field{
			{ID: "network", Label: "Network", Kind: "text", Optional: true, Hint: "Such as 192.0.2.0/24 or 2001:db8:2::/48"},
			{ID: "since", Label: "Registered since", Kind: "text", Optional: true, Hint: "How long ago, such as 2h, or a time as 2026-11-26T10:00:00Z"},
			{ID: "until", Label: "Registered before", Kind: "text", Optional: true, Hint: "The same"},
			sure,
		},
	}
	c.do = func(form url.Values, reason string) (string, error) {
		dry := form.Get("sure") == ""
		n, most, err := s.API.DeleteUnapproved(v.Call, operator.Unapproved{Network: form.Get("network"), Since: form.Get("since"), Until: form.Get("until")}, dry, reason)
		if err == nil && dry {
			said := "%s clients match"
			if len(most) > 0 && most[0].Network != "" {
				said += ", most of them from " + most[0].Network
			}
			err = unsure(n, "1 client matches.", said+".")
		}
		return fmt.Sprintf("/clients?deleted=%d", n), err
	}
	return c, nil
}
