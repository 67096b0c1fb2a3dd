package orgadmin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// rolesFound is how many roles a search offers.
const rolesFound = 20

// A rulesPage is the rules of an organization, to read and to change. page.Names, hosts
// that were typed, and reasons are not ours.
type rulesPage struct {
	adminHead
	Sealed               string // the draft
	Overtaken            *overtaken
	Faults               []rulesFault
	Unknown              policy.Rule
	Known                triple
	Apps                 []appRule
	New, NewName         string // as they were typed
	NewFault             page.Said
	Widest               grantset.Kind
	ReadOnly, NoPersonal bool
	Impersonal           bool // there are no personal entries
	Never, Found         []neverRole
	More                 bool   // more were found
	Role                 string // as it was typed
	RoleFault            page.Said
	Days                 []daysOption
	ReviewDays           int
	At                   string // which list was changed or searched: added, apps, never or found
}

// A triple is the three rules to choose from.
type triple struct {
	Name string // of the field
	Rule policy.Rule
}

// An appRule is a row: a rule for one app, or for one person who wants it.
type appRule struct {
	N          int
	App        page.App
	Person     string
	Rule       triple
	By, Reason string
	On         *page.Moment // nil: it is not saved
	Fault      page.Said
	Shown      string // path of its connections
	Added      bool   // by this press
}

type neverRole struct{ ID, Name, Circle string }

type daysOption struct {
	N      int // 0: no limit
	Value  string
	Chosen bool
}

type rulesFault struct {
	At   string // ID of the field
	Text page.Said
}

// overtaken tells what somebody else saved while this admin wrote.
type overtaken struct {
	By    string // name; empty where it was no person
	When  page.Moment
	Lines []page.Said
}

// rulesState is a draft with what is to be said beside it.
type rulesState struct {
	draft
	status                          int
	new, newName, role              string
	newFault, roleFault, otherFault page.Said
	found                           []neverRole
	more                            bool
	overtaken                       *overtaken
	told                            []told
	at                              string // as of the page
}

// rulesPage is GET .../ai-integration/rules.
func (s *Server) rulesPage(v *page.Visit, o org.Organization) error {
	p, err := s.rulesOf(v, o)
	if err != nil {
		return err
	}
	return s.showRules(v, o, &rulesState{draft: draft{p, p}, status: http.StatusOK})
}

// rulesOf gives the rules of now; where there are none, those that are none.
func (s *Server) rulesOf(v *page.Visit, o org.Organization) (policy.Policy, error) {
	p, err := s.Store.Policy(v.R.Context(), o.ID)
	if err != nil || p == nil {
		return policy.Policy{}, page.Wrap("rules", err)
	}
	return *p, nil
}

// rulesForm is POST .../ai-integration/rules. Nothing but save changes anything but the
// draft on the page.
func (s *Server) rulesForm(v *page.Visit, o org.Organization, form url.Values) error {
	d, ok := s.openDraft(o.ID, page.One(form, "rules"))
	if !ok {
		return page.ErrBadForm
	}
	st := &rulesState{draft: d, status: http.StatusOK}
	st.Mine.Apps = slices.Clone(d.Mine.Apps)
	action := page.One(form, "action")
	if page.One(form, "checked") == "1" { // from the page that asks
		if action == "save" {
			return s.saveRules(v, o, st, form)
		}
		return s.showRules(v, o, st)
	}
	st.read(form, s.NoPersonal)
	typed, err := s.editLists(v, o, st, form)
	if err != nil {
		return err
	}
	if action != "check" {
		return s.showRules(v, o, st)
	}
	if typed && st.newFault == nil && st.roleFault == nil { // a press of Save… is no press of Add
		st.told = []told{{Says: v.Words.Say("orgrules.pending")}}
		return s.showRules(v, o, st)
	}
	return s.checkRules(v, o, st, "", nil)
}

// editLists does what the form asks of the lists of apps and roles. typed: something
// was in their fields.
func (s *Server) editLists(v *page.Visit, o org.Organization, st *rulesState, form url.Values) (typed bool, err error) {
	if number := page.One(form, "forget"); number != "" {
		st.at = "apps"
		st.forget(number)
	}
	if role := page.One(form, "give"); role != "" {
		st.at = "never"
		st.never(role, false)
	}
	names, err := s.NamesIn(v, o)
	if err != nil {
		return false, err
	}
	if role := page.One(form, "take"); names.Roles[role].ID != "" && len(st.Mine.Ceiling.Never) < policy.MaxNever {
		st.at = "never"
		st.never(role, true)
	} else if text := strings.TrimSpace(page.One(form, "role")); text != "" && role == "" {
		typed = true
		st.findRoles(v, names, text)
	}
	if text := strings.TrimSpace(page.One(form, "new")); text != "" {
		typed = true
		st.addApp(v, text, strings.TrimSpace(page.One(form, "newname")))
	}
	return typed, nil
}

// findRoles offers the roles that a text finds.
func (st *rulesState) findRoles(v *page.Visit, names page.Names, text string) {
	st.role, st.at = text, "found"
	for _, r := range names.Roles {
		if !slices.Contains(st.Mine.Ceiling.Never, r.ID) && (org.Finds(r.Name, text) || org.Finds(names.Circles[r.Circle], text)) {
			st.found = append(st.found, neverRole{r.ID, r.Name, names.Circles[r.Circle]})
		}
	}
	slices.SortFunc(st.found, byRole)
	if len(st.found) > rolesFound {
		st.found, st.more = st.found[:rolesFound], true
	}
	if len(st.found) == 0 {
		st.roleFault, st.status = v.Words.Say("orgrules.notfound"), http.StatusUnprocessableEntity
	}
}

func byRole(a, b neverRole) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Circle, b.Circle), cmp.Compare(a.ID, b.ID))
}

// addApp adds a rule for what was typed: with a name one that allows, without a name one
// that blocks.
func (st *rulesState) addApp(v *page.Visit, text, name string) {
	app := policy.App{Host: hostTyped(text), Name: name, Rule: policy.Allow}
	if name == "" {
		app.Rule = policy.Block
	}
	switch {
	case client.CheckRuleHost(app.Host) != nil:
		st.newFault = v.Words.Say("orgrules.fault.host", "host", text)
	case client.CheckName(name) != nil:
		st.newFault = v.Words.Say("orgrules.fault.name")
	case len(st.Mine.Apps) >= policy.MaxApps:
		st.newFault = v.Words.Say("orgrules.fault.full", "most", policy.MaxApps)
	case slices.ContainsFunc(st.Mine.Apps, func(a policy.App) bool { return a.Key() == app.Key() }):
		st.newFault = v.Words.Say("orgrules.fault.twice")
	default:
		st.Mine.Apps, st.at = append(st.Mine.Apps, app), "added"
		return
	}
	st.new, st.newName, st.status = text, name, http.StatusUnprocessableEntity
}

// hostTyped gives the host of what was typed as rules name it, in the letters of any
// language, with a dot at its end or as part of an address; "" where there is none.
func hostTyped(text string) string {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) { // of others the profile refuses some that exist
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return ""
		}
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return client.HostOf("https://" + strings.TrimSuffix(host, ".") + "/")
}

// showRules answers with the form, which is kept as it was sent.
func (s *Server) showRules(v *page.Visit, o org.Organization, st *rulesState) error {
	view := &rulesPage{Overtaken: st.overtaken, Unknown: st.Mine.Unknown.OrAllow(), Known: triple{"known", st.Mine.Known.OrAllow()},
		New: st.new, NewName: st.newName, NewFault: st.newFault, Widest: widestOf(st.Mine), ReadOnly: st.Mine.Ceiling.ReadOnly,
		NoPersonal: st.Mine.Ceiling.NoPersonal, Impersonal: s.NoPersonal, Found: st.found, More: st.more, Role: st.role, RoleFault: st.roleFault,
		Days: daysOptions(st.Mine.MaxDays), ReviewDays: st.Mine.ReviewDays}
	if view.faults(v, st); len(view.Faults)+len(st.told) == 0 && st.overtaken == nil { // which take the focus themselves
		view.At = st.at
	}
	title := page.TitleOf(faultsOf(view.Faults), "orgrules.title", "orgrules.error")
	h, err := s.adminHead(v, o, "rules", title)
	if err != nil {
		return err
	}
	view.adminHead = h
	view.Told = append(view.Told, st.told...)
	all, err := s.waiting(v, o)
	if err != nil {
		return err
	}
	view.Waiting = len(all)
	if view.Sealed, err = s.sealDraft(o.ID, st.draft); err != nil {
		return err
	}
	if err := s.nameRules(v, o, st, view); err != nil {
		return err
	}
	return s.Show(v, st.status, rulesTemplate, view)
}

func faultsOf(all []rulesFault) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].At
}

// faults lists what is wrong, with where it stands.
func (view *rulesPage) faults(v *page.Visit, st *rulesState) {
	add := func(at string, text page.Said) {
		if text != nil {
			view.Faults = append(view.Faults, rulesFault{at, text})
		}
	}
	add("apps", st.otherFault)
	add("new", st.newFault)
	add("role", st.roleFault)
	for _, i := range faulty(st.Mine.Contradictions()) {
		add("app-"+strconv.Itoa(i), contradiction(v, st.Mine, i))
	}
}

// contradiction says why a rule cannot be; nil where it can.
func contradiction(v *page.Visit, p policy.Policy, i int) page.Said {
	host, wrong := p.Contradictions()[i]
	switch {
	case !wrong:
		return nil
	case host == "":
		return v.Words.Say("orgrules.fault.person")
	}
	return v.Words.Say("orgrules.fault.blocked", "host", page.HostOf("https://"+host+"/"))
}

func daysOptions(now int) []daysOption {
	all := append([]int{0}, mostDays...)
	if !slices.Contains(all, now) { // set by the operators' API
		all = append(all, now)
		slices.Sort(all)
	}
	var out []daysOption
	for _, n := range all {
		one := daysOption{N: n, Chosen: n == now}
		if n > 0 {
			one.Value = strconv.Itoa(n)
		}
		out = append(out, one)
	}
	return out
}

// nameRules names apps, people and roles.
func (s *Server) nameRules(v *page.Visit, o org.Organization, st *rulesState, view *rulesPage) error {
	saved := byKey(st.Base.Apps)
	for i, a := range st.Mine.Apps {
		row := appRule{N: i, App: appOfRule(a), Rule: triple{"rule:" + strconv.Itoa(i), a.Rule}, Fault: contradiction(v, st.Mine, i),
			Shown: page.WithQuery(page.IntegrationPath(o.ID), "find", a.Host), Added: view.At == "added" && i == len(st.Mine.Apps)-1}
		var err error
		if row.Person, err = s.nameOfMember(v, a.Person); err != nil {
			return err
		}
		if was, there := saved[a.Key()]; there && was.Rule == a.Rule {
			row.On, row.Reason = new(page.On(was.At, v.Now)), was.Reason
			if row.By, err = s.nameOfActor(v, was.By); err != nil {
				return err
			}
		}
		view.Apps = append(view.Apps, row)
	}
	names, err := s.NamesIn(v, o)
	if err != nil {
		return err
	}
	for _, id := range st.Mine.Ceiling.Never {
		r := names.Roles[id]
		view.Never = append(view.Never, neverRole{id, cmp.Or(r.Name, id), names.Circles[r.Circle]})
	}
	slices.SortFunc(view.Never, byRole)
	return nil
}

func (s *Server) nameOfMember(v *page.Visit, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	name, err := s.nameOfActor(v, "person:"+id)
	return cmp.Or(name, id), err
}

// appOfRule is the app that a rule is for.
func appOfRule(a policy.App) page.App { return page.AppOf("", a.Name, "https://"+a.Host+"/", false) }

// A rulesCheckPage says what saving does, before it is done.
type rulesCheckPage struct {
	page.Frame
	Path, Sealed string
	Lines        []effectLine
	Blocks       bool // apps that were not blocked
	Ends         bool // something ends, or gets an end
	Ended        int  // connections that end at once
	Reason       string
	Fault        page.Said
}

// An effectLine is one change, and what it does to connections.
type effectLine struct{ Says, Then page.Said }

// checkRules asks whether the draft is to be saved, or shows again what cannot be.
func (s *Server) checkRules(v *page.Visit, o org.Organization, st *rulesState, reason string, fault page.Said) error {
	if st.newFault != nil || st.roleFault != nil || len(st.Mine.Contradictions()) > 0 {
		st.status = http.StatusUnprocessableEntity
		return s.showRules(v, o, st)
	}
	effects, err := s.Store.PolicyEffects(v.R.Context(), store.Rules{Organization: o.ID, Admin: v.Person.ID, Seen: st.Base.Version, Policy: st.Mine})
	if err != nil {
		return s.notSaved(v, o, st, err)
	}
	all := differences(st.Base, st.Mine)
	if len(all) == 0 {
		st.told = []told{{Says: v.Words.Say("orgrules.same")}}
		return s.showRules(v, o, st)
	}
	title, status := "saving.title", http.StatusOK
	if fault != nil {
		title, status = "saving.error", http.StatusUnprocessableEntity
	}
	view := &rulesCheckPage{Frame: s.Frame(v, title), Path: page.IntegrationPath(o.ID), Blocks: len(st.blocks()) > 0, Reason: reason, Fault: fault}
	view.Other, view.Packed = true, true
	if view.Sealed, err = s.sealDraft(o.ID, st.draft); err != nil {
		return err
	}
	if view.Lines, err = s.lines(v, o, st.Base, st.Mine); err != nil {
		return err
	}
	view.add(v, all, effects)
	return s.Show(v, status, rulesCheckTemplate, view)
}

// saveRules saves what the page before has asked about.
func (s *Server) saveRules(v *page.Visit, o org.Organization, st *rulesState, form url.Values) error {
	reason := strings.TrimSpace(page.One(form, "reason"))
	if fault := textFault(v, reason, policy.MaxReason, false); fault != nil {
		return s.checkRules(v, o, st, reason, fault)
	}
	p := st.Mine
	p.Apps = slices.Clone(p.Apps)
	blocks := st.blocks()
	for i := range p.Apps {
		if a := &p.Apps[i]; blocks[a.Key()] {
			a.Reason = reason
		} else if a.Rule != byKey(st.Base.Apps)[a.Key()].Rule {
			a.Reason = "" // it was that of another rule
		}
	}
	_, _, err := s.Store.SetPolicy(v.R.Context(), store.Rules{Organization: o.ID, Admin: v.Person.ID, Seen: st.Base.Version, Policy: p}, s.Act(v))
	if errors.Is(err, store.ErrChanged) { // by somebody else, or this admin pressed twice
		now, failed := s.rulesOf(v, o)
		if failed == nil && now.ChangedBy == s.Act(v).Actor && policy.Same(&now, &p) {
			err = nil
		}
	}
	if err != nil {
		return s.notSaved(v, o, st, err)
	}
	return s.done(v, o, page.IntegrationPath(o.ID)+"/rules", "saved")
}

// notSaved shows the form again, with what somebody else has saved meanwhile or what is
// wrong; nothing of the form is lost.
func (s *Server) notSaved(v *page.Visit, o org.Organization, st *rulesState, err error) error {
	switch {
	case errors.Is(err, store.ErrChanged):
	case errors.Is(err, store.ErrRules):
		st.otherFault, st.status = whyNot(v, err), http.StatusUnprocessableEntity
		return s.showRules(v, o, st)
	default:
		return page.Wrap("rules", err)
	}
	now, err := s.rulesOf(v, o)
	if err != nil {
		return err
	}
	lines, err := s.lines(v, o, st.Base, now)
	if err != nil {
		return err
	}
	st.overtaken = &overtaken{When: page.At(now.ChangedAt, v.Now)}
	for _, l := range lines {
		st.overtaken.Lines = append(st.overtaken.Lines, l.Says)
	}
	if st.overtaken.By, err = s.nameOfActor(v, now.ChangedBy); err != nil {
		return err
	}
	st.draft, st.status = st.onto(now), http.StatusConflict
	return s.showRules(v, o, st)
}

// whyNot says what is wrong with rules as a whole.
func whyNot(v *page.Visit, err error) page.Said {
	switch {
	case errors.Is(err, policy.ErrFull):
		return v.Words.Say("orgrules.fault.full", "most", policy.MaxApps)
	case errors.Is(err, policy.ErrNever):
		return v.Words.Say("orgrules.fault.never", "most", policy.MaxNever)
	case errors.Is(err, policy.ErrNoRole):
		return v.Words.Say("orgrules.fault.role")
	}
	return v.Words.Say("orgrules.fault.other")
}

// lines says each difference of b from a.
func (s *Server) lines(v *page.Visit, o org.Organization, a, b policy.Policy) (out []effectLine, err error) {
	names, err := s.NamesIn(v, o)
	if err != nil {
		return nil, err
	}
	for _, c := range differences(a, b) {
		var says page.Said
		switch c.What {
		case "app", "removed":
			if says, err = s.appLine(v, c); err != nil {
				return nil, err
			}
		default:
			says = ruleLine(v.Words, c.What, names, a, b)
		}
		out = append(out, effectLine{Says: says})
	}
	return out, nil
}

func (s *Server) appLine(v *page.Visit, c changed) (page.Said, error) {
	app, w := appOfRule(c.App), v.Words
	who, err := s.nameOfMember(v, c.App.Person)
	switch {
	case err != nil:
		return nil, err
	case c.What == "removed" && app.Name == "":
		return w.Say("saving.gone", "host", app.Host), nil
	case c.What == "removed":
		return w.Say("saving.removed", "app", app, "host", app.Host), nil
	case app.Name == "", c.App.Rule == policy.Block: // which is for the host and all below it, whatever the name
		return w.Say("saving.host", "rule", ruleName(w, c.App.Rule, true), "host", app.Host), nil
	case who != "":
		return w.Say("saving.appfor", "rule", ruleName(w, c.App.Rule, true), "app", app, "host", app.Host, "person", who), nil
	}
	return w.Say("saving.app", "rule", ruleName(w, c.App.Rule, true), "app", app, "host", app.Host), nil
}

// ruleName is a rule in words.
func ruleName(w *page.Words, r policy.Rule, short bool) page.Said {
	switch {
	case r == policy.Block:
		return w.Say("orgrules.block")
	case r == policy.Ask && short:
		return w.Say("orgrules.short")
	case r == policy.Ask:
		return w.Say("orgrules.ask")
	}
	return w.Say("orgrules.allow")
}

func ruleLine(w *page.Words, what string, names page.Names, a, b policy.Policy) page.Said {
	switch what {
	case "unknown":
		return w.Say("saving.unknown", "rule", ruleName(w, b.Unknown, false))
	case "known":
		return w.Say("saving.known", "rule", ruleName(w, b.Known, false))
	case "widest":
		kinds := map[grantset.Kind]string{grantset.Organization: "grant.organization", grantset.Everything: "orgrules.everything", grantset.Roles: "grant.roles"}
		return w.Say("saving.widest", "what", w.Say(kinds[widestOf(b)]))
	case "readonly":
		if b.Ceiling.ReadOnly {
			return w.Say("saving.readonly")
		}
		return w.Say("saving.notreadonly")
	case "nopersonal":
		if b.Ceiling.NoPersonal {
			return w.Say("saving.nopersonal")
		}
		return w.Say("saving.personal")
	case "never":
		return w.Say("saving.never", "roles", named(names, added(a.Ceiling.Never, b.Ceiling.Never)))
	case "again":
		return w.Say("saving.again", "roles", named(names, added(b.Ceiling.Never, a.Ceiling.Never)))
	case "days":
		if b.MaxDays == 0 {
			return w.Say("saving.days", "days", w.Say("orgrules.nolimit"))
		}
		return w.Say("saving.days", "days", w.Say("orgrules.day", "n", b.MaxDays))
	}
	often := map[int]string{0: "orgrules.noreview", 90: "orgrules.quarter", 365: "orgrules.year"}
	return w.Say("saving.review", "often", w.Say(often[b.ReviewDays]))
}

// named gives the names of roles; one that is gone has its ID.
func named(names page.Names, ids []string) (out []string) {
	for _, id := range ids {
		out = append(out, cmp.Or(names.Roles[id].Name, id))
	}
	return out
}

// add puts beside each change what it does to connections, or says it by itself.
func (view *rulesCheckPage) add(v *page.Visit, all []changed, effects []policy.Effect) {
	for _, e := range effects {
		what, says := effectSaid(v, e)
		if what == "app" {
			view.Ended += e.Connections
		}
		view.Ends = true
		i := slices.IndexFunc(all, func(c changed) bool {
			return c.What == what && (what != "app" || c.App.Host == e.Host && c.App.Rule == policy.Block)
		})
		if i < 0 {
			view.Lines = append(view.Lines, effectLine{Says: says})
			continue
		}
		view.Lines[i].Then = says
	}
}

// effectSaid says in numbers what saving does, and to which change that belongs.
func effectSaid(v *page.Visit, e policy.Effect) (what string, says page.Said) {
	narrows := v.Words.Say("saving.narrows", "n", e.Connections)
	switch {
	case e.Host != "":
		return "app", v.Words.Say("saving.end", "n", e.Connections)
	case e.EndsAt != 0:
		return "days", v.Words.Say("saving.dated", "n", e.Connections, "date", page.On(e.EndsAt, v.Now))
	case e.Ceiling == grantset.ReadsOnly:
		return "readonly", narrows
	case e.Ceiling == grantset.KeepPersonal:
		return "nopersonal", narrows
	case e.Ceiling == grantset.NeverGiven:
		return "never", narrows
	}
	return "widest", narrows
}
