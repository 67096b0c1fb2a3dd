package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	recordsShown    = 50   // records on one page
	recordsSearched = 5000 // records that a search looks through while somebody waits, at least
	gapsSaid        = 3    // of one day
)

// Activity are what an app did with one approval, as its person or an admin of the
// organization is told: of one page. Names, titles and kinds are not ours.
type Activity struct {
	Path       string // of the page itself
	Off        bool   // nothing is recorded here
	Find, What string // the filter as it was sent
	Range      int    // days
	Ranges     []int
	Kept       int // days
	Days       []activityDay
	Empty      bool   // nothing matches
	Never      bool   // nothing ever was, for the access was not used
	Further    bool   // nothing so far: there is more to look through
	All        string // path of what has no filter; empty where there is none
	First      string // path
	Next       string // path
}

// A activityDay is what was done on one day of the reader's.
type activityDay struct {
	ID      string
	Day     Said
	Tally   []Said
	Gaps    []Said
	Entries []activityLine
}

// A activityLine is one line: of a record, or of what is counted in a day.
type activityLine struct {
	At    *Moment // nil of what is counted
	Icon  string
	Looks string // class
	Says  Said
	Kind  string // the service's word
	Below []Said
	End   Said
	Bad   bool
}

// ActivityOf is what one of whose approvals did is asked for, and who asks.
type ActivityOf struct {
	Row    store.ApprovalRow
	Who    string // name of whoever gave it
	Own    bool   // it is who asks
	Member org.Member
	Names  Names // of the organization

	Access   Said
	Reviewed Said   // nil of a person's own
	Path     string // of the page
	Under    []Crumb
	Edit     string // paths of what can be done; empty where it cannot
	Revoke   string
	Mark     string // an admin's, who reviews and ends by it
	Lines    string // the download
}

// A activityPage is What it did. Names on it are not ours.
type activityPage struct {
	Frame
	ActivityOf
	App       App
	In        string // name of the organization
	Connected Moment
	EndedAt   *Moment
	Activity  *Activity
}

// ShowActivity answers with What it did: to the person who gave an approval, or to an admin.
func (s *Site) ShowActivity(v *Visit, of ActivityOf) error {
	listed, err := s.activity(v, of)
	if err != nil {
		return err
	}
	r, in := of.Row, of.Names.Organization
	title := "did.page"
	if !of.Own {
		title = "did.adminpage"
	}
	p := &activityPage{Frame: s.Frame(v, title, "organization", in.Name), ActivityOf: of, App: AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered),
		In: in.Name, Connected: On(r.CreatedAt, v.Now), Activity: listed}
	p.Slim, p.Other, p.Packed = false, true, true
	p.Frame.Under(v, in, of.Under...)
	if r.Phase == approval.Ended {
		p.EndedAt = new(At(r.EndedAt, v.Now))
	}
	return s.Show(v, http.StatusOK, activityTemplate, p)
}

// viewer is who is told: support staff, who see the pages of others, are told no titles.
func (a ActivityOf) viewer(v *Visit) activity.Viewer {
	who := activity.Viewer{Person: a.Row.Person, Circle: func(role string) string { return a.Names.Roles[role].Circle }}
	if !v.Acting() {
		who.Member, who.Own = a.Member, a.Own
	}
	return who
}

// activityRanges are over how many days the list may go; the first is what it shows unasked.
var activityRanges = []int{7, 30, 90}

// activityQuery answers one question for Activity.
type activityQuery struct {
	*Site
	*Activity
	v      *Visit
	of     ActivityOf
	viewer activity.Viewer
	after  string
	since  int64 // Unix seconds: when the first day begins

	behind string // day of the record that the page begins behind; "" is none
	cut    string // day of the last record, where more follow
	days   map[string]*dayCount
}

// dayCount is what a day has, beside its records.
type dayCount struct {
	entries          []activityLine
	changes, refused int // of the entries
	tallies          []activity.Tally
	gaps             []activity.Gap
}

// activity finds what an app did, as the query of the request asks.
func (s *Site) activity(v *Visit, of ActivityOf) (*Activity, error) {
	q, keep := v.R.URL.Query(), s.Store.KeepsActivity()
	d := &Activity{Path: of.Path, Off: keep == 0, Kept: int(keep / (24 * time.Hour))}
	if d.Off {
		return d, nil
	}
	d.filter(q)
	a := activityQuery{Site: s, Activity: d, v: v, of: of, viewer: of.viewer(v), after: q.Get("after"), days: map[string]*dayCount{}}
	a.since = max(startOf(v.Now, 1-d.Range), of.Row.CreatedAt)
	if a.after != "" {
		at := store.ActivityAt(a.after)
		if at == 0 {
			return nil, ErrBadForm
		}
		a.behind = a.dayOf(at)
	}
	for _, step := range []func() error{a.records, a.count, a.missing, a.show} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// filter reads what is to be shown; what is no filter is all.
func (d *Activity) filter(q url.Values) {
	d.Find, d.Range = strings.TrimSpace(q.Get("find")), activityRanges[0]
	if what := q.Get("what"); slices.Contains([]string{"changes", "reads", "refused"}, what) {
		d.What = what
	}
	for i, days := range activityRanges {
		if i > 0 && activityRanges[i-1] >= d.Kept {
			break
		}
		d.Ranges = append(d.Ranges, days)
		if q.Get("range") == strconv.Itoa(days) {
			d.Range = days
		}
	}
	if most := d.Ranges[len(d.Ranges)-1]; d.Find+d.What != "" || d.Range != most {
		d.All = WithQuery(d.Path, "range", strconv.Itoa(most))
	}
}

// at is this page behind a record.
func (d *Activity) at(after string) string {
	days := ""
	if d.Range != activityRanges[0] {
		days = strconv.Itoa(d.Range)
	}
	return WithQuery(d.Path, "find", d.Find, "what", d.What, "range", days, "after", after)
}

// startOf is when a day of the reader's begins, so many after today, in Unix seconds.
func startOf(now time.Time, days int) int64 {
	y, m, d := now.Date()
	return time.Date(y, m, d+days, 0, 0, 0, 0, now.Location()).Unix()
}

func (a *activityQuery) dayOf(at int64) string {
	return time.Unix(at, 0).In(a.v.Now.Location()).Format(time.DateOnly)
}

// bounds are from when to when a day lasts.
func (a *activityQuery) bounds(day string) (from, to int64) {
	t, _ := time.ParseInLocation(time.DateOnly, day, a.v.Now.Location()) // it was written by dayOf
	return startOf(t, 0), startOf(t, 1)
}

func (a *activityQuery) day(name string) *dayCount {
	if a.days[name] == nil {
		a.days[name] = &dayCount{}
	}
	return a.days[name]
}

// records finds those of one page. A search looks at what is told alone: what is hidden is
// not to be found.
func (a *activityQuery) records() error {
	if a.What == "reads" {
		return nil
	}
	f := store.ActivityFilter{Approval: a.of.Row.ID, Since: a.since, After: a.after, Refused: a.What == "refused", Done: a.What == "changes", Limit: recordsShown}
	for shown, looked := 0, 0; ; f.Limit = 1000 {
		rows, next, err := a.Store.Activity(a.v.R.Context(), f)
		if errors.Is(err, store.ErrNotFound) {
			return ErrBadForm
		} else if err != nil {
			return Wrap("activity", err)
		}
		looked += len(rows)
		found, err := a.matching(rows)
		if err != nil {
			return err
		}
		if room := recordsShown - shown; len(found) > room {
			found, next = found[:room], found[room-1].ID
		}
		for _, r := range found {
			a.add(r)
		}
		shown += len(found)
		if f.After = next; next == "" {
			return nil
		}
		if shown == recordsShown || a.Find == "" || looked >= recordsSearched {
			a.Further = shown == 0
			a.Next, a.cut = a.at(next), a.dayOf(store.ActivityAt(next))
			return nil
		}
	}
}

// matching gives the records that a search finds.
func (a *activityQuery) matching(rows []activity.Record) ([]activity.Record, error) {
	if a.Find == "" {
		return rows, a.learn(rows)
	}
	finds := func(r activity.Record) bool {
		i := r.Item
		for _, text := range []string{i.Title, i.Kind, i.Detail, a.of.Names.Roles[i.Role].Name, r.Tool, r.Path} {
			if org.Finds(text, a.Find) {
				return true
			}
		}
		return false
	}
	rows = slices.DeleteFunc(rows, func(r activity.Record) bool { return !finds(r) }) // what is told is in what is kept
	err := a.learn(rows)
	return slices.DeleteFunc(rows, func(r activity.Record) bool { r, _ = a.viewer.Tell(r); return !finds(r) }), err
}

// learn has the viewer know what was said last of the items of records.
func (a *activityQuery) learn(rows []activity.Record) error {
	latest, err := a.Store.ActivityLatest(a.v.R.Context(), a.of.Row.Organization, itemsOf(rows))
	a.viewer.Learn(latest)
	return Wrap("items", err)
}

// itemsOf are the IDs of items that records are of, each once.
func itemsOf(rows []activity.Record) (ids []string) {
	seen := map[string]bool{"": true}
	for _, r := range rows {
		if !seen[r.Item.ID] {
			seen[r.Item.ID] = true
			ids = append(ids, r.Item.ID)
		}
	}
	return ids
}

func (a *activityQuery) add(r activity.Record) {
	d := a.day(a.dayOf(r.At))
	switch r.Outcome {
	case activity.Refused:
		d.refused++
	case activity.Failed: // nothing was changed
	default:
		d.changes++
	}
	d.entries = append(d.entries, a.entry(r))
}

// count adds what is counted by the hour.
func (a *activityQuery) count() error {
	from, until := a.since, int64(0)
	if a.cut != "" {
		from, _ = a.bounds(a.cut)
	}
	if a.behind != "" {
		_, until = a.bounds(a.behind)
	}
	tallies, err := a.Store.ActivityTallies(a.v.R.Context(), a.of.Row.ID, activity.Hour(from), until)
	if err != nil {
		return Wrap("counts", err)
	}
	wanted := map[string][]activity.What{"": {activity.Reads, activity.Changes, activity.Refusal, activity.Unseen},
		"changes": {activity.Changes, activity.Unseen}, "reads": {activity.Reads}, "refused": {activity.Refusal}}[a.What]
	for _, t := range tallies {
		if a.Find == "" && slices.Contains(wanted, t.What) {
			d := a.day(a.dayOf(max(t.Hour, from)))
			d.tallies = append(d.tallies, t)
		}
	}
	for name, d := range a.days { // of a day that is on two pages, this one has a part
		if a.Find != "" || a.What == "reads" || name != a.cut && name != a.behind {
			continue
		}
		from, to := a.bounds(name)
		d.changes, d.refused, err = a.Store.ActivityCount(a.v.R.Context(), a.of.Row.ID, max(from, a.since), to)
		if err != nil {
			return Wrap("counts", err)
		}
	}
	return nil
}

// missing adds from when to when records may be missing.
func (a *activityQuery) missing() error {
	ended := int64(0)
	if a.of.Row.Phase == approval.Ended {
		ended = a.of.Row.EndedAt
	}
	kept, err := a.Store.ActivityGaps(a.v.R.Context(), a.of.Row.CreatedAt, ended, a.since)
	if err != nil {
		return Wrap("gaps", err)
	}
	for _, g := range kept.Gaps {
		if day := a.dayOf(max(g.From, a.since)); (a.behind == "" || day <= a.behind) && (a.cut == "" || day >= a.cut) {
			d := a.day(day)
			d.gaps = append(d.gaps, g)
		}
	}
	return nil
}

// show says the days, the latest first.
func (a *activityQuery) show() error {
	if a.after != "" {
		a.First = a.at("")
	}
	names := make([]string, 0, len(a.days))
	for name := range a.days {
		names = append(names, name)
	}
	slices.Sort(names)
	nothing := true
	for _, name := range slices.Backward(names) {
		d := a.days[name]
		entries := d.entries
		if name != a.cut { // it ends on this page
			entries = append(entries, a.counted(d.tallies)...)
		}
		nothing = nothing && len(entries) == 0
		if len(entries) == 0 && len(d.gaps) == 0 {
			continue
		}
		a.Days = append(a.Days, activityDay{ID: name, Day: a.dayName(name), Tally: a.tally(d), Gaps: a.gaps(name, d.gaps), Entries: entries})
	}
	a.Empty = nothing && a.Next == "" && a.First == ""
	a.Never = a.Empty && a.of.Row.LastUsed == 0 && a.Find+a.What == ""
	a.Further = a.Further && nothing
	return nil
}

func (a *activityQuery) dayName(name string) Said {
	switch from, _ := a.bounds(name); from {
	case startOf(a.v.Now, 0):
		return a.v.Words.Say("did.today")
	case startOf(a.v.Now, -1):
		return a.v.Words.Say("did.yesterday")
	default:
		return a.v.Words.show("", On(from, a.v.Now))
	}
}

// tally says the numbers of a day. Where something is searched for they are not known.
func (a *activityQuery) tally(d *dayCount) (out []Said) {
	if a.Find != "" {
		return nil
	}
	w, sum := a.v.Words, sumOf(d.tallies)
	changes, refused := d.changes+sum[activity.Changes].calls, d.refused+sum[activity.Refusal].calls
	if a.What != "reads" && a.What != "refused" {
		out = append(out, w.Say("did.changes", "n", changes))
	}
	if refused > 0 && a.What != "changes" {
		out = append(out, w.Say("did.refusals", "n", refused))
	}
	if read := sum[activity.Reads]; read.items > 0 {
		out = append(out, w.Say("did.itemsread", "count", w.Say("noun.count", "n", read.items)))
	}
	return out
}

// daySum is what was counted of one day.
type daySum struct {
	calls, items, private, personal, silent int // silent are calls of which nothing was said
	kinds                                   []kindSum
}

type kindSum struct {
	kind  string
	items int
}

func sumOf(all []activity.Tally) map[activity.What]*daySum {
	out := map[activity.What]*daySum{activity.Reads: {}, activity.Changes: {}, activity.Refusal: {}, activity.Unseen: {}}
	for _, t := range all {
		s := out[t.What]
		s.calls, s.items, s.private, s.personal = s.calls+int(t.Calls), s.items+int(t.Items), s.private+int(t.Private), s.personal+int(t.Personal)
		if t.Kind == "" && t.Items == 0 {
			s.silent += int(t.Calls)
		}
		if t.Kind == "" || t.Items == 0 {
			continue
		}
		i := slices.IndexFunc(s.kinds, func(k kindSum) bool { return k.kind == t.Kind })
		if i < 0 {
			i = len(s.kinds)
			s.kinds = append(s.kinds, kindSum{kind: t.Kind})
		}
		s.kinds[i].items += int(t.Items)
	}
	return out
}

// counted are the last lines of a day: of what is not recorded one by one.
func (a *activityQuery) counted(tallies []activity.Tally) (out []activityLine) {
	w, sum := a.v.Words, sumOf(tallies)
	if n := sum[activity.Changes].calls; n > 0 {
		out = append(out, activityLine{Icon: "pen", Says: w.Say("did.morechanges", "n", n)})
	}
	if n := sum[activity.Refusal].calls; n > 0 {
		out = append(out, activityLine{Icon: "cross", Looks: "no", Says: w.Say("did.morerefusals", "n", n)})
	}
	if n := sum[activity.Unseen].calls; n > 0 {
		out = append(out, activityLine{Icon: "pen", Looks: "seen", Says: w.Say("did.unseen", "n", n)})
	}
	read := sum[activity.Reads]
	switch {
	case read.items > 0:
	case read.calls > 0:
		return append(out, activityLine{Icon: "eye", Looks: "seen", Says: w.Say("did.readsilent", "n", read.calls)})
	default:
		return out
	}
	one := activityLine{Icon: "eye", Looks: "seen", Says: w.Say("did.read", "count", w.Say("noun.count", "n", read.items))}
	var kinds Said
	slices.SortStableFunc(read.kinds, func(a, b kindSum) int { return b.items - a.items })
	for i, k := range read.kinds {
		if i > 0 {
			kinds = append(kinds, w.Say("list.between")...)
		}
		kinds = append(kinds, w.Say("did.kind", "kind", k.kind, "n", k.items)...)
	}
	if kinds != nil {
		one.Below = append(one.Below, kinds)
	}
	if read.private > 0 {
		one.Below = append(one.Below, w.Say("did.ofprivate", "n", read.private))
	}
	if read.personal > 0 {
		one.Below = append(one.Below, w.Say("did.ofpersonal", "n", read.personal))
	}
	if read.silent > 0 {
		one.Below = append(one.Below, w.Say("did.silent", "n", read.silent))
	}
	return append(out, one)
}

// gapWords say why records may be missing.
var gapWords = map[activity.Why]string{activity.Stopped: "did.gap.stopped", activity.Full: "did.gap.full", activity.Off: "did.gap.off", activity.SetBack: "did.gap.setback"}

// gaps say from when to when records may be missing, under the heading of a day.
func (a *activityQuery) gaps(day string, all []activity.Gap) (out []Said) {
	w := a.v.Words
	for i, g := range all {
		if i == gapsSaid {
			return append(out, w.Say("did.gap.more", "n", len(all)-i))
		}
		at := exactAt
		if a.dayOf(g.From) == day && a.dayOf(g.To) == day {
			at = clockAt
		}
		from, to := at(max(g.From, a.since), a.v.Now), at(g.To, a.v.Now)
		switch {
		case g.To == 0:
			out = append(out, w.Say("did.gap.open", "from", from))
		case g.Why == activity.Before:
			out = append(out, w.Say("did.gap.before", "to", to))
		default:
			out = append(out, w.Say(gapWords[g.Why], "from", from, "to", to))
		}
	}
	return out
}

// The words of what was done, and of what was wanted.
var (
	didWords = map[identity.Did]string{identity.Created: "did.created", identity.Changed: "did.changed", identity.Closed: "did.closed",
		identity.Deleted: "did.deleted", "": "did.called"}
	wantedWords = map[identity.Did]string{identity.Created: "did.wanted.created", identity.Changed: "did.wanted.changed", identity.Closed: "did.wanted.closed",
		identity.Deleted: "did.wanted.deleted", "": "did.wanted.called"}
	didIcons = map[identity.Did]string{identity.Created: "plus", identity.Closed: "check", identity.Deleted: "bin"}
	endWords = map[activity.Outcome]string{activity.Done: "did.end.done", activity.Failed: "did.end.failed", activity.Refused: "did.end.refused",
		activity.Unanswered: "did.end.unanswered", activity.Allowed: "did.end.allowed"}
)

// entry says one record.
func (a *activityQuery) entry(r activity.Record) activityLine {
	w := a.v.Words
	r, hidden := a.viewer.Tell(r)
	e := activityLine{At: new(clockAt(r.At, a.v.Now)), Icon: didIcons[r.Item.Did], Kind: r.Item.Kind, End: w.Say(endWords[r.Outcome])}
	if e.Icon == "" {
		e.Icon = "pen"
	}
	words := didWords
	if r.Outcome != activity.Done {
		words, e.Icon, e.Looks = wantedWords, "cross", "no"
	}
	if r.Outcome == activity.Unanswered || r.Outcome == activity.Allowed {
		e.Icon, e.Looks = "pen", "seen"
	}
	e.Bad = r.Outcome == activity.Refused || r.Outcome == activity.Failed
	e.Says = w.Say(words[r.Item.Did], "what", a.what(r, hidden, &e))
	if r.Item.Detail != "" {
		e.Below = append(e.Below, w.show("", r.Item.Detail))
	}
	role := a.role(r.Item.Role)
	switch {
	case r.Item.Personal && !a.of.Own:
		e.Below = append(e.Below, w.Say("ending.for", "person", a.of.Who))
	case role != "" && hidden != activity.HiddenPrivate && !said(r):
		e.Below = append(e.Below, w.Say("did.as", "role", role))
	}
	if why := a.why(r, role); why != nil {
		e.Below = append(e.Below, why)
	}
	return e
}

// said reports whether the reason of a refusal names the role itself.
func said(r activity.Record) bool {
	return r.Outcome == activity.Refused && slices.Contains([]rules.Reason{rules.ReadOnly, rules.NotGiven, rules.NotFilled}, rules.Reason(r.Reason))
}

// role is the name of one; the ID of one that is gone.
func (a *activityQuery) role(id string) string {
	if r, ok := a.of.Names.Roles[id]; ok {
		return r.Name
	}
	return id
}

// what names what was touched, as far as it is told.
func (a *activityQuery) what(r activity.Record, hidden activity.Hidden, e *activityLine) Said {
	w, role := a.v.Words, a.role(r.Item.Role)
	kind := e.Kind
	if hidden == activity.HiddenPrivate || hidden == activity.HiddenPersonal {
		e.Kind = "" // it is said with the rest
	}
	switch {
	case !r.Told() && r.Tool != "":
		return w.Say("did.quoted", "title", r.Tool)
	case !r.Told():
		return w.show("", code(r.Method+" "+r.Path))
	case hidden == activity.HiddenPersonal && kind != "":
		return w.Say("did.personal.kind", "kind", kind)
	case hidden == activity.HiddenPersonal:
		return w.Say("did.personal.some")
	case hidden == activity.HiddenPrivate && kind != "" && role != "":
		return w.Say("did.private.kindof", "kind", kind, "role", role)
	case hidden == activity.HiddenPrivate && kind != "":
		return w.Say("did.private.kind", "kind", kind)
	case hidden == activity.HiddenPrivate && role != "":
		return w.Say("did.private.of", "role", role)
	case hidden == activity.HiddenPrivate:
		return w.Say("did.private.some")
	case hidden == activity.HiddenDeleted:
		return w.Say("did.gone")
	case hidden != "" || r.Item.Title == "":
		return w.Say("did.some")
	}
	return w.Say("did.quoted", "title", r.Item.Title)
}

// why says why something was not done; nil where nothing is known.
func (a *activityQuery) why(r activity.Record, role string) Said {
	w, in := a.v.Words, a.of.Names.Organization.Name
	switch r.Outcome {
	case activity.Refused:
	case activity.Failed:
		return w.Say("did.why.failed")
	case activity.Unanswered:
		return w.Say("did.why.unanswered")
	case activity.Allowed:
		return w.Say("did.why.allowed")
	default:
		return nil
	}
	switch reason := rules.Reason(r.Reason); {
	case reason == "":
		return w.Say("did.why.service")
	case reason == rules.ReadOnly && role != "":
		return w.Say("did.why.readonly", "role", role)
	case (reason == rules.NotGiven || reason == rules.NotFilled) && role != "":
		return w.Say("did.why.role", "role", role)
	case reason == rules.Personal:
		return w.Say("did.why.personal")
	case reason == rules.Admin:
		return w.Say("did.why.admin")
	case reason == rules.Unlisted || reason == rules.UnknownMethod:
		return w.Say("did.why.unlisted")
	case reason == rules.ReadsOnly:
		return w.Say("ceiling.reads", "organization", in)
	case reason == rules.KeepRole:
		return w.Say("ceiling.never")
	case reason == rules.KeepPersonal:
		return w.Say("ceiling.personal", "organization", in)
	case reason == rules.KeepAdmin:
		return w.Say("ceiling.admin", "organization", in)
	case slices.Contains([]rules.Reason{rules.Ambiguous, rules.RoleMissing, rules.BodyUnread, rules.UnknownRole}, reason):
		return w.Say("did.why.unclear")
	}
	return w.Say("did.why.none")
}

// SendActivity answers with all that is kept of an approval, as its person is told it: one
// object of JSON on each line, written as it is read. The last says how many there are;
// where that is missing, the rest of the file is too.
func (s *Site) SendActivity(v *Visit, of ActivityOf) error {
	if s.Store.KeepsActivity() == 0 {
		return ErrNoPage
	}
	ctx, ended := v.R.Context(), int64(0)
	if of.Row.Phase == approval.Ended {
		ended = of.Row.EndedAt
	}
	kept, err := s.Store.ActivityGaps(ctx, of.Row.CreatedAt, ended, 0)
	if err != nil {
		return Wrap("gaps", err)
	}
	tallies, err := s.Store.ActivityTallies(ctx, of.Row.ID, 0, 0)
	if err != nil {
		return Wrap("counts", err)
	}
	h := v.W.Header()
	h.Set("Content-Type", "application/jsonl")
	h.Set("Content-Disposition", `attachment; filename="activity.jsonl"`)
	to := json.NewEncoder(v.W)
	n := 0
	for f := (store.ActivityFilter{Approval: of.Row.ID, OldestFirst: true, Limit: 1000}); err == nil; {
		var rows []activity.Record
		if rows, f.After, err = s.Store.Activity(ctx, f); err == nil {
			n += len(rows)
			err = s.sendRecords(v, of, rows, to)
		}
		if f.After == "" {
			break
		}
	}
	for _, t := range tallies {
		err = cmp.Or(err, to.Encode(t.Line()))
	}
	for _, g := range kept.Gaps {
		err = cmp.Or(err, to.Encode(g.Line()))
	}
	if err = cmp.Or(err, to.Encode(map[string]int{"records": n, "counts": len(tallies), "gaps": len(kept.Gaps)})); err != nil {
		s.Log.Error("a download broke off", "err", err, "request_id", v.Reference())
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s *Site) sendRecords(v *Visit, of ActivityOf, rows []activity.Record, to *json.Encoder) error {
	who := of.viewer(v)
	latest, err := s.Store.ActivityLatest(v.R.Context(), of.Row.Organization, itemsOf(rows))
	who.Learn(latest)
	for i := 0; i < len(rows) && err == nil; i++ {
		err = to.Encode(who.Line(rows[i]))
	}
	return err
}
