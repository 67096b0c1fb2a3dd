package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// A clientRow is a client in a list. The client itself wrote name and host.
type clientRow struct {
	ID, Name, Host string
	State          string // as the API has it
	Live           int    // approvals
	Registered     moment
	LastUsed       moment
	Path           string
	MayEnd         bool // who sees it may disable and enable it
}

func newClientRow(c client.Client, now time.Time) clientRow {
	r := clientRow{
		ID: c.ID, Name: c.Name, State: c.State(),
		Registered: onDay(c.IssuedAt, now), LastUsed: lastUsed(0, now), Path: "/clients/" + url.PathEscape(c.ID),
	}
	if c.Preregistered {
		r.Registered.Text = "preset"
	}
	if len(c.RedirectURIs) > 0 {
		r.Host = page.NewApp(c, c.RedirectURIs[0]).Host.String()
	}
	return r
}

// clientRows adds to clients how much each is used. For a client whose approvals
// have all ended that is their last use.
func (s *Server) clientRows(v *visit, found []client.Client, uses map[string]store.ClientUse) ([]clientRow, error) {
	var before []string
	for _, c := range found {
		if c.Approved && uses[c.ID].Live == 0 {
			before = append(before, c.ID)
		}
	}
	last, err := s.API.Store.LastUses(v.Context(), before)
	if err != nil {
		return nil, err
	}
	var rows []clientRow
	for _, c := range found {
		r, use := newClientRow(c, v.now), uses[c.ID]
		r.MayEnd = s.mayAt(v, "/clients/{id}/disable")
		r.Live, r.LastUsed = use.Live, lastUsed(max(use.LastUsed, last[c.ID]), v.now)
		if _, kept := last[c.ID]; c.Approved && use.Live == 0 && !kept {
			r.LastUsed.Text = "not in 90 days"
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// Tone is the colour of the state, beside its word.
func (r clientRow) Tone() string {
	if r.approvedBefore() {
		return ""
	}
	return map[string]string{"approved": "good", "preregistered": "good", "disabled": "bad"}[r.State]
}

// approvedBefore reports whether people approved the client and no approval of it
// is left.
func (r clientRow) approvedBefore() bool { return r.State == "approved" && r.Live == 0 }

// Word is the state in the words of the page.
func (r clientRow) Word() string {
	if r.approvedBefore() {
		return "Approved before"
	}
	return strings.ToUpper(r.State[:1]) + r.State[1:]
}

// Label names the client in a text that does not show its host.
func (r clientRow) Label() string {
	if r.Name == "" {
		return "(no name) at " + r.Host
	}
	return r.Name
}

// clientSearch is the search form above a list of clients.
type clientSearch struct{ Query, State string }

// A clientsPage lists clients.
type clientsPage struct {
	frame
	Search clientSearch
	Rows   []clientRow
	Next   string
	More   bool // the first page is another one

	Deleted int // a moment ago, as the address says it
}

func (s *Server) clientsPage(v *visit) error {
	f, err := v.Filter("q", "state", "deleted")
	if err != nil {
		return err
	}
	found, next, err := s.API.FindClients(v.Call, f, strings.TrimSpace(f.Get("q")))
	if err != nil {
		return err
	}
	uses, err := s.API.Store.ClientUses(v.Context())
	if err != nil {
		return err
	}
	p := clientsPage{frame: s.frame(v, "clients", "Clients"), Search: clientSearch{f.Get("q"), f.Get("state")}, Next: v.link("/clients", next), More: f.After != ""}
	p.Deleted = countIn(f.Get("deleted"))
	if p.Rows, err = s.clientRows(v, found, uses); err != nil {
		return err
	}
	return s.render(v.w, 200, clientsTemplate, &p)
}

// A clientPage shows one client.
type clientPage struct {
	frame
	Client       clientRow
	RedirectURIs []string
	From         string // the address of its registration
	Reach        store.Reach
	Events       []eventRow
	Done         string
}

func (s *Server) clientPage(v *visit) error {
	f, err := v.Filter("done")
	if err != nil {
		return err
	}
	c, err := s.clientOf(v)
	if err != nil {
		return err
	}
	p := clientPage{frame: s.frame(v, "clients", "Client "+c.ID), RedirectURIs: c.RedirectURIs, Done: f.Get("done")}
	if p.Reach, err = s.API.Store.ClientReach(v.Context(), c.ID); err != nil {
		return err
	}
	uses, err := s.API.Store.ClientUses(v.Context())
	if err != nil {
		return err
	}
	rows, err := s.clientRows(v, []client.Client{c}, uses)
	if err != nil {
		return err
	}
	p.Client = rows[0]
	registered, _, err := s.API.Store.Events(v.Context(), store.EventFilter{Kind: journal.ClientRegistered, Client: c.ID, Limit: 1})
	if err != nil {
		return err
	}
	if len(registered) == 1 {
		p.From = registered[0].Address
	}
	events, _, err := s.API.Store.Events(v.Context(), store.EventFilter{Client: c.ID, Limit: 20})
	if err != nil {
		return err
	}
	names := s.newNameCache(v)
	for _, e := range events {
		p.Events = append(p.Events, names.event(e))
	}
	if (p.Done == "disabled") != (p.Client.State == "disabled") { // the address is older than the state
		p.Done = ""
	}
	return s.render(v.w, 200, clientTemplate, &p)
}

// clientOf is the client of the path.
func (s *Server) clientOf(v *visit) (client.Client, error) {
	c, err := s.API.Store.Client(v.Context(), v.PathValue("id"))
	return c, orNotFound(err, "client")
}

func (s *Server) confirmDisable(v *visit) error { return s.confirmClient(v, false) }
func (s *Server) confirmEnable(v *visit) error  { return s.confirmClient(v, true) }
func (s *Server) disableClient(v *visit) error  { return s.changeClient(v, false) }
func (s *Server) enableClient(v *visit) error   { return s.changeClient(v, true) }

func (s *Server) confirmClient(v *visit, on bool) error {
	c, err := s.clientOf(v)
	if err != nil {
		return err
	}
	return s.showClientChange(v, on, c, http.StatusOK, "", "")
}

// showClientChange asks before a client is disabled or enabled. fault is what is
// wrong with the reason that was sent; "" is nothing.
func (s *Server) showClientChange(v *visit, on bool, c client.Client, status int, reason, fault string) error {
	p := confirmPage{What: "disable", Client: newClientRow(c, v.now), Reason: reason, Fault: fault, Path: v.URL.Path}
	title := "Disable a client?"
	if p.Back = p.Client.Path; on {
		p.What, title = "enable", "Enable a client?"
	}
	return s.confirm(v, p, "clients", title, status)
}

func (s *Server) changeClient(v *visit, on bool) error {
	c, err := s.clientOf(v)
	if err != nil {
		return err
	}
	form, err := s.form(v)
	if err != nil {
		return err
	}
	reason, fault := readReason(form)
	if fault != "" {
		return s.showClientChange(v, on, c, http.StatusUnprocessableEntity, reason, fault)
	}
	if err := s.API.Store.SetClientEnabled(v.Context(), c.ID, on, v.Act(reason)); err != nil {
		return orNotFound(err, "client")
	}
	done := "disabled"
	if on {
		done = "enabled"
	}
	return v.redirect("/clients/" + url.PathEscape(c.ID) + "?done=" + done)
}
