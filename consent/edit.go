package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// An editPage changes what a live approval gives (decision P3). App and every
// name in it are text that others wrote.
type editPage struct {
	page.Frame
	App          page.App
	Organization string
	Connected    page.Moment
	Access       page.Access
	Lost         []string // picked roles that the person no longer fills
	NoMore       bool     // the organization lets the app have no more than it has
	Path, Back   string   // of this page and of Connected apps
	Stale        bool     // asks again because the approval was changed meanwhile
	Ended        bool     // there is nothing to change any more
	chooser
}

// An edit is one page that edits: whose approval it showed, and the grant set
// that it showed. It travels inside the page, so a page that was overtaken is
// known by itself.
type edit struct {
	Approval string `json:"approval"`
	Person   string `json:"person"`
	Kind     string `json:"kind"`
	Picks    string `json:"picks,omitempty"`
	Personal bool   `json:"personal,omitempty"`
}

func (s *Server) sealEdit(r store.ApprovalRow) string {
	return s.Seal(sealedEdit, edit{r.ID.String(), r.Person, string(r.Grant.Kind), r.Grant.EncodePicks(), r.Grant.Personal})
}

// of gives the grant set that the page showed, if it was this approval's.
func (e edit) of(r store.ApprovalRow) (grantset.Set, bool) {
	set, err := grantset.Decode(e.Kind, e.Picks, e.Personal)
	return set, err == nil && e.Approval == r.ID.String()
}

// An editing is the approval of the path, with what its person may give now.
type editing struct {
	row    store.ApprovalRow
	org    org.Organization
	member org.Member
	offers []grantset.Offer // of the approval's organization alone: it stays
}

// ownApproval finds the person's own approval. Another person's, one elsewhere and one
// that was not connected yet do not exist here.
func (s *Server) ownApproval(v *page.Visit) (editing, error) {
	o, m, err := s.Membership(v)
	if err != nil {
		return editing{}, err
	}
	id, err := approval.ParseID(v.R.PathValue("approval"))
	if err != nil {
		return editing{}, page.ErrNoPage
	}
	r, err := s.Store.Approval(v.R.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return editing{}, page.ErrNoPage
	case err != nil:
		return editing{}, page.Wrap("approval", err)
	case r.Person != v.Person.ID || r.Organization != o.ID || r.Phase == approval.CodeIssued:
		return editing{}, page.ErrNoPage
	}
	return editing{row: r, org: o, member: m}, nil
}

// editing is that, with what its person may give now.
func (s *Server) editing(v *page.Visit) (editing, error) {
	e, err := s.ownApproval(v)
	if err != nil {
		return editing{}, err
	}
	offers, err := s.offers(v)
	if err != nil {
		return editing{}, err
	}
	e.offers = slices.DeleteFunc(offers, func(at grantset.Offer) bool { return at.Organization.ID != e.org.ID })
	return e, nil
}

// editPage is GET .../{approval}/edit.
func (s *Server) editPage(v *page.Visit) error {
	e, err := s.editing(v)
	if err != nil {
		return err
	}
	p := parseParameters(v.R.URL.RawQuery)
	chosen := s.openChoices(v, p)
	if !chosen.sent {
		chosen = e.current()
	}
	need, _ := p.one("need")
	chosen.mark(need, e.member)
	return s.showEdit(v, e, e.row.Grant, chosen, showing{status: http.StatusOK})
}

// mark takes what a link asks for, ROLE:read or ROLE:change, to show it with the
// role, and chooses nothing. What else stands there, or a role that the person
// does not fill, is as if it were not given (decision V27).
func (c *choices) mark(need string, m org.Member) {
	i := strings.LastIndexByte(need, ':') // a role's ID may have colons itself
	if i < 0 || !slices.Contains([]string{"read", "change"}, need[i+1:]) || !m.Fills(need[:i]) {
		return
	}
	c.need, c.needs = need[:i], need[i+1:]
}

// edit is POST .../{approval}/edit. As at consent there is no default
// decision, and what may be given is asked again here.
func (s *Server) edit(v *page.Visit) error {
	form, err := page.Posted(v, page.ChoiceBytes, page.ChoiceFields)
	if err != nil {
		return err
	}
	s.Speak(v, form)
	var p edit
	opened := s.Open(sealedEdit, page.One(form, "request"), &p)
	if !v.SignedIn() {
		return s.ToSignIn(v, s.withChoices(v.R.URL.EscapedPath(), p.Person, form))
	}
	e, err := s.editing(v)
	if err != nil {
		return err
	}
	shown, ok := p.of(e.row)
	form.Set("organization", e.org.ID)
	switch {
	case !s.Ours(v, form):
		return page.ErrStale
	case page.One(form, "decision") == "cancel":
		return v.See(page.AppsPath(e.org.ID))
	case !opened || !ok:
		return page.ErrBadForm
	case e.row.Phase == approval.Ended:
		return s.showEnded(v, e)
	case page.One(form, "decision") != "save" || form.Has("action") || form.Has("bulk"):
		return s.showEdit(v, e, shown, readChoices(form), showing{status: http.StatusOK})
	}
	return s.save(v, e, shown, form)
}

// save changes the grant set from what the page showed to what was chosen. An
// approval that has it already is left alone: a double click is no error.
func (s *Server) save(v *page.Visit, e editing, shown grantset.Set, form url.Values) error {
	choice, faults := grantset.Parse(form, e.offers)
	if e.kept(readChoices(form)) {
		choice.Set, faults = e.row.Grant, nil
	} else if len(e.offers) > 0 {
		faults = readChoices(form).explained(faults, e.offers[0])
	}
	if len(faults) > 0 {
		return s.editAgain(v, e, shown, form, faults)
	}
	ends, fault := shortened(form["ends"], e.row.EndsAt, v.Now)
	if fault != "" {
		return s.editAgain(v, e, shown, form, []grantset.Fault{fault})
	}
	switch same := choice.Set.Equal(e.row.Grant); {
	case same && ends == e.row.EndsAt && choice.Set.Equal(shown) && page.One(form, "ends") == "":
		return s.asItWas(v, e)
	case same && ends == e.row.EndsAt:
		return s.edited(v, e)
	case same: // also where another tab has saved it: the end date is not there yet
		shown = choice.Set
	default:
		if done, err := s.strengthen(v, e.row.Client, choice.Set.Kind, s.withChoices(v.R.URL.EscapedPath(), v.Person.ID, form)); done {
			return err
		}
	}
	if ends == e.row.EndsAt {
		ends = 0 // it stays
	}
	err := s.Store.EditApproval(v.R.Context(), e.row.ID, v.Person.ID, store.Edit{From: shown, To: choice.Set, EndsAt: ends}, s.Act(v))
	switch {
	case errors.Is(err, store.ErrEndDate):
		return s.editAgain(v, e, shown, form, []grantset.Fault{endUnknown})
	case errors.Is(err, store.ErrAppRule):
		s.refused(v, e.row.Client, string(grantset.NotAllowed))
		return s.editAgain(v, e, shown, form, []grantset.Fault{noMore})
	case errors.Is(err, store.ErrNotAllowed):
		return s.editAgain(v, e, shown, form, []grantset.Fault{grantset.NotAllowed})
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return s.overtaken(v, choice.Set, ends)
	case err != nil:
		return page.Wrap("edit", err)
	}
	return s.edited(v, e)
}

// editAgain shows the page with what is wrong and everything that was chosen.
func (s *Server) editAgain(v *page.Visit, e editing, shown grantset.Set, form url.Values, faults []grantset.Fault) error {
	s.refusedFor(v, e.row.Client, faults)
	return s.showEdit(v, e, shown, readChoices(form), showing{status: http.StatusUnprocessableEntity, faults: faults})
}

// overtaken answers a page whose approval is not any more what it showed: with
// what is so now, and nothing saved.
func (s *Server) overtaken(v *page.Visit, wanted grantset.Set, ends int64) error {
	e, err := s.editing(v)
	switch {
	case err != nil:
		return err
	case e.row.Phase == approval.Ended:
		return s.showEnded(v, e)
	case e.row.Grant.Equal(wanted) && (ends == 0 || e.row.EndsAt > 0 && e.row.EndsAt <= ends): // the other tab wanted the same
		return s.edited(v, e)
	}
	return s.showEdit(v, e, e.row.Grant, e.current(), showing{status: http.StatusConflict, stale: true})
}

// current are the choices that the approval stands for now.
func (e editing) current() choices { return choicesOf(e.row.Grant, e.member, e.ceiling()) }

// showEdit shows the page. shown is the grant set that an answer starts from.
func (s *Server) showEdit(v *page.Visit, e editing, shown grantset.Set, chosen choices, how showing) error {
	switch {
	case e.row.Phase == approval.Ended:
		return s.showEnded(v, e)
	case len(e.offers) == 0: // no member any more, since the approval was read
		return page.ErrNoPage
	}
	chosen.organization = e.org.ID
	chosen.setAll(e.offers)
	chosen.personal = chosen.personal && !s.NoPersonal
	roles := chosen.rolesOf(e.offers)
	told := s.previewing(v, roles)
	view, err := s.newEditPage(v, e)
	if err != nil {
		return err
	}
	ruled, err := s.rulings(v, client.Client{ID: e.row.Client, Name: e.row.ClientName, Preregistered: e.row.Preregistered}, e.row.RedirectURI, e.offers)
	if err != nil {
		return err
	}
	view.NoMore = rulingOf(ruled, e.org.ID).rule != policy.Allow
	if len(how.faults) > 0 {
		view.Title = v.Words.Say("edit.error").String()
	}
	from := e.row
	from.Grant = shown
	view.Stale = how.stale
	view.chooser = chooser{Request: s.sealEdit(from), Fixed: true, Grant: chosen.grant, Personal: chosen.personal, NoPersonal: s.NoPersonal}
	view.offer(e.offers, chosen, view.Path)
	view.mark(v.Words, chosen)
	view.Organizations[0].Class = ""
	view.AdminClass, view.AdminNames = "", nil // nothing to tell apart
	view.limit(v.Words, e.offers, string(e.row.Grant.Kind))
	view.shorten(ender{v.Words, v.Now}, e.row.EndsAt, chosen.ends)
	view.say(v.Words, how.faults, e.offers, chosen)
	view.Summaries = s.summaries(v, chosen, e.offers, make([]string, len(e.offers)), roles, told())
	return s.Show(v, how.status, editTemplate, view)
}

// mark says at the role that a link asks for what it asks.
func (view *chooser) mark(w *page.Words, chosen choices) {
	if chosen.need == "" {
		return
	}
	says := w.Say("edit.needs.read")
	if chosen.needs == "change" {
		says = w.Say("edit.needs.change")
	}
	for _, o := range view.Organizations {
		for _, g := range o.Groups {
			if i := slices.IndexFunc(g.Roles, func(r shownRole) bool { return r.ID == chosen.need }); i >= 0 {
				g.Roles[i].Needs = &says
			}
		}
	}
}

func (s *Server) newEditPage(v *page.Visit, e editing) (*editPage, error) {
	names, err := s.NamesOf(v, e.org, e.member)
	if err != nil {
		return nil, err
	}
	view := &editPage{Frame: s.Frame(v, "edit.title"), Organization: e.org.Name,
		App: page.AppOf(e.row.Client, e.row.ClientName, e.row.RedirectURI, e.row.Preregistered), Connected: page.On(e.row.CreatedAt, v.Now),
		Access: names.Gives(e.row.Grant), Path: editPath(e.org.ID, e.row.ID), Back: page.AppsPath(e.org.ID)}
	view.Slim, view.Other, view.Script, view.Packed = false, true, true, true
	view.Under(v, e.org, page.Crumb{Text: v.Words.Say("apps.name").String(), Path: view.Back})
	for _, r := range view.Access.Roles {
		if r.Access == "" {
			view.Lost = append(view.Lost, r.Role)
		}
	}
	return view, nil
}

// showEnded says that an approval has ended, for whatever reason: it can only
// be approved again.
func (s *Server) showEnded(v *page.Visit, e editing) error {
	view, err := s.newEditPage(v, e)
	if err != nil {
		return err
	}
	view.Ended, view.Slim, view.Script = true, true, false
	view.Title = v.Words.Say("edit.ended.short").String()
	return s.Show(v, http.StatusConflict, editTemplate, view)
}

// edited goes back to Connected apps, which says that it is done.
func (s *Server) edited(v *page.Visit, e editing) error {
	return v.See(page.WithQuery(page.AppsPath(e.org.ID), "changed", s.SealDone(v, sealedEdited, e.row.ID.String())))
}

// asItWas goes back to Connected apps, which says that nothing was changed.
func (s *Server) asItWas(v *page.Visit, e editing) error {
	return v.See(page.WithQuery(page.AppsPath(e.org.ID), "same", s.SealDone(v, sealedEdited, e.row.ID.String())))
}

// justEdited names the client of an approval that the person has just edited, as a
// parameter of the address says.
func (s *Server) justEdited(v *page.Visit, rows []store.ApprovalRow, parameter string) *string {
	id := s.JustDone(v, sealedEdited, v.R.URL.Query().Get(parameter))
	for _, r := range rows {
		if r.ID.String() == id && !ended(r) {
			return new(nameOfApp(r))
		}
	}
	return nil
}

func editPath(organization string, id approval.ID) string {
	return page.AppsPath(organization) + "/" + id.String() + "/edit"
}
