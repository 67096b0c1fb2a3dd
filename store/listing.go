package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// Tests have lower ones.
var (
	// walkStep is how many rows are looked at together.
	walkStep = 512
	// maxWalk bounds how many rows a page looks at: a page that has not found
	// enough by then is a short one, and the next goes on where it stopped.
	maxWalk = 6144
	// longWalk is how long a page looks at rows beyond leastWalk: they may lie
	// apart on a disk that has to be read for each.
	longWalk  = 50 * time.Millisecond
	leastWalk = 1024
	// fewRows is how many rows are rather read all than walked in order.
	fewRows = 2000
)

// Approvals lists approvals, newest first, and gives the cursor of the next
// page or "". Where approvals that match are rare among many that nearly do, a
// page can have fewer than its limit, or none, and a next one all the same.
func (s *Store) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalRow, string, error) {
	if f.UnusedSince > 0 {
		f.State = "live"
	}
	return s.approvalPage(ctx, f, func(r ApprovalRow) bool {
		return (f.State == "" || r.StateName() == f.State) && !(f.Unended && r.Phase == approval.Ended)
	})
}

// approvalPage is Approvals with another judgement of the rows' states: what
// they say may have been overtaken.
func (s *Store) approvalPage(ctx context.Context, f ApprovalFilter, is func(ApprovalRow) bool) ([]ApprovalRow, string, error) {
	limit := pageSize(f.Limit)
	if _, err := readPlace(f.After); err != nil {
		return nil, "", err
	}
	p := &approvalsPage{Store: s, f: f, is: is, limit: limit}
	// What ends meanwhile goes from here to there, so here is asked first.
	if err := p.unsaid(ctx); err != nil {
		return nil, "", err
	}
	if err := p.walk(ctx); err != nil {
		return nil, "", err
	}
	return p.close()
}

// A place is where an approval stands in lists, newest first; the zero place
// is before all of them.
type place struct {
	at int64 // when it was made, Unix seconds
	id approval.ID
}

func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	at, id, err := readCursor(cursor)
	if err != nil {
		return place{}, err
	}
	return place{at, approval.ID(id)}, nil
}

// compare is below 0 where p comes before q.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(q.at, p.at), bytes.Compare(q.id[:], p.id[:]))
}

func (r ApprovalRow) place() place { return place{r.CreatedAt, r.ID} }

func (p place) cursor() string { return cursor(p.at, p.id.String()) }

// approvalsPage is a page as it is put together.
type approvalsPage struct {
	*Store
	f     ApprovalFilter
	is    func(ApprovalRow) bool
	limit int

	rows  []ApprovalRow // found on the way
	aside []ApprovalRow // found beside it, wherever they stand
	most  place         // as far as was looked beside it; the zero place is to the end
	to    place         // every one that matches and does not come behind it was found
	whole bool          // the list ends within the page
}

// close cuts the page where it is full, or where it was found to.
func (p *approvalsPage) close() ([]ApprovalRow, string, error) {
	if p.most != (place{}) && (p.whole || p.to.compare(p.most) > 0) {
		p.whole, p.to = false, p.most
	}
	p.rows = append(p.rows, p.aside...)
	slices.SortFunc(p.rows, func(a, b ApprovalRow) int { return a.place().compare(b.place()) })
	p.rows = slices.CompactFunc(p.rows, func(a, b ApprovalRow) bool { return a.ID == b.ID })
	if !p.whole {
		p.rows = slices.DeleteFunc(p.rows, func(r ApprovalRow) bool { return r.place().compare(p.to) > 0 })
	}
	if len(p.rows) > p.limit {
		p.rows = p.rows[:p.limit]
		return p.rows, p.rows[p.limit-1].place().cursor(), nil
	}
	if p.whole {
		return p.rows, "", nil
	}
	return p.rows, p.to.cursor(), nil
}

// full reports whether there are enough for the page, and one more.
func (p *approvalsPage) full() bool { return len(p.rows) > p.limit }

// walk finds rows by that index which leads furthest.
func (p *approvalsPage) walk(ctx context.Context) error {
	from, err := readPlace(p.f.After)
	if err != nil {
		return err
	}
	if few, err := p.pair(ctx, from); few || err != nil {
		return err
	}
	begin := time.Now()
	way, stretch, err := p.bestWay(ctx, from)
	if err != nil {
		return err
	}
	inMemory := p.shared == nil && (p.f.State == "live" || p.f.State == "code_issued")
	for walked := 0; ; {
		if err := p.take(ctx, stretch); err != nil || p.full() {
			return err
		}
		if p.whole = stretch.ends; p.whole {
			return nil
		}
		if inMemory {
			return p.walkMemory(ctx)
		}
		took, step := time.Since(begin), 4*walkStep
		if walked += len(stretch.rows); walked >= maxWalk || walked >= leastWalk && took > longWalk {
			return nil
		}
		if took > longWalk/4 {
			step = walkStep
		}
		if stretch, err = p.stretch(ctx, way, p.to, step); err != nil {
			return err
		}
	}
}

// take adds the rows of a stretch that match, until the page is full.
func (p *approvalsPage) take(ctx context.Context, s stretch) error {
	var ids []approval.ID
	for _, w := range s.rows {
		if w.matches(p.f) {
			ids = append(ids, w.id)
		}
	}
	for batch := range slices.Chunk(ids, max(p.limit+1, 64)) {
		rows, err := p.byID(ctx, batch)
		if err != nil {
			return err
		}
		for _, r := range rows { // newest first
			if p.is(r) {
				p.rows = append(p.rows, r)
			}
			if p.to = r.place(); p.full() {
				return nil
			}
		}
	}
	if n := len(s.rows); n > 0 {
		p.to = s.rows[n-1].place
	}
	return nil
}

// --- ways

// walked is a row as far as it is looked at on the way.
type walked struct {
	place
	client, person, organization, grant string
	endedAt, usedAt                     int64
}

// matches reports whether the row may be one of the list. States that are not
// in the row are asked later.
func (w walked) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == w.client) && (f.Person == "" || f.Person == w.person) &&
		(f.Organization == "" || f.Organization == w.organization) && (f.Grant == "" || string(f.Grant) == w.grant) &&
		(f.State == "" || (f.State == "ended") == (w.endedAt > 0)) && !(f.Unended && w.endedAt > 0) &&
		(f.UnusedSince == 0 || w.at <= f.UnusedSince && w.usedAt <= f.UnusedSince)
}

// A way is a condition whose rows an index has in the list's order.
type way struct {
	condition string // with one parameter, unless value is ""
	value     string
}

// A stretch is a part of a way. It ends where the way does, or goes on.
type stretch struct {
	rows []walked
	ends bool
}

// reaches is where it leads to.
func (s stretch) reaches() place {
	if len(s.rows) == 0 {
		return place{}
	}
	return s.rows[len(s.rows)-1].place
}

func (p *approvalsPage) ways() (all []way) {
	for _, one := range []way{
		{condition: "a.person = ", value: p.f.Person}, {condition: "a.organization = ", value: p.f.Organization},
		{condition: "a.client = ", value: p.f.Client}, {condition: "a.grant_kind = ", value: string(p.f.Grant)},
	} {
		if one.value != "" {
			all = append(all, one)
		}
	}
	if p.f.State == "ended" {
		all = append(all, way{condition: "a.ended_at > 0"})
	}
	if len(all) == 0 {
		all = []way{{}}
	}
	return all
}

// bestWay tries all ways, and gives the one that leads furthest with as many
// rows: its rows leave out most of what does not match.
func (p *approvalsPage) bestWay(ctx context.Context, from place) (best way, begins stretch, err error) {
	ways := p.ways()
	step := max(walkStep/len(ways), p.limit+1)
	for i, w := range ways {
		s, err := p.stretch(ctx, w, from, step)
		if err != nil {
			return best, begins, err
		}
		if i == 0 || s.ends && !begins.ends || s.ends == begins.ends && s.reaches().compare(begins.reaches()) > 0 {
			best, begins = w, s
		}
		if begins.ends {
			break
		}
	}
	return best, begins, nil
}

const walkedColumns = `SELECT a.id, a.created_at, a.client, a.person, a.organization, a.grant_kind, a.ended_at`

// stretch reads so many rows of a way.
func (p *approvalsPage) stretch(ctx context.Context, w way, from place, rows int) (s stretch, err error) {
	q := p.walkedQuery()
	if w.condition != "" && w.value != "" {
		q.where(w.condition, w.value)
	} else if w.condition != "" {
		q.conditions = append(q.conditions, w.condition)
	}
	q.behind(from)
	s.rows, err = p.readWalked(ctx, q.page("a.created_at DESC, a.id DESC", rows-1), q.args)
	s.ends = len(s.rows) < rows
	return s, err
}

func (p *approvalsPage) walkedQuery() query {
	if p.f.UnusedSince > 0 {
		return query{text: walkedColumns + `, COALESCE(u.used_at, 0) FROM approval a LEFT JOIN approval_use u ON u.approval = a.id`}
	}
	return query{text: walkedColumns + `, 0 FROM approval a`}
}

func (p *approvalsPage) readWalked(ctx context.Context, text string, args []any) ([]walked, error) {
	defer p.timed("approvals", time.Now())
	rows, err := p.reader.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, unavailable("approvals", err)
	}
	defer rows.Close()
	var out []walked
	for rows.Next() {
		var w walked
		var id []byte
		if err := rows.Scan(&id, &w.at, &w.client, &w.person, &w.organization, &w.grant, &w.endedAt, &w.usedAt); err != nil {
			return nil, unavailable("approvals", err)
		}
		copy(w.id[:], id)
		out = append(out, w)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("approvals", err)
	}
	return out, nil
}

// pair finds all approvals of one client in one organization at once where
// these are few: either may have so many that no way leads far.
func (p *approvalsPage) pair(ctx context.Context, from place) (few bool, err error) {
	if p.f.Client == "" || p.f.Organization == "" {
		return false, nil
	}
	defer p.timed("approvals", time.Now())
	q := query{text: `SELECT 1 FROM approval a`}
	q.equal("a.client", p.f.Client)
	q.equal("a.organization", p.f.Organization)
	var n int
	err = p.reader.QueryRowContext(ctx, q.count(fewRows+1), q.args...).Scan(&n)
	if err != nil {
		return false, unavailable("approvals", err)
	}
	if n > fewRows {
		return false, nil
	}
	all := p.walkedQuery()
	all.equal("a.client", p.f.Client)
	all.equal("a.organization", p.f.Organization)
	s := stretch{ends: true}
	if s.rows, err = p.readWalked(ctx, all.whole(), all.args); err != nil {
		return false, err
	}
	// With the place as a condition SQLite would walk all of the client.
	s.rows = slices.DeleteFunc(s.rows, func(w walked) bool { return from != place{} && w.place.compare(from) <= 0 })
	slices.SortFunc(s.rows, func(a, b walked) int { return a.place.compare(b.place) })
	p.whole = true
	if err := p.take(ctx, s); err != nil {
		return true, err
	}
	return true, nil
}

// byID gives the rows that are there, newest first.
func (s *Store) byID(ctx context.Context, ids []approval.ID) ([]ApprovalRow, error) {
	var out []ApprovalRow
	for batch := range slices.Chunk(ids, sweepBatch) {
		values := make([]any, len(batch))
		for i := range batch {
			values[i] = batch[i][:]
		}
		q := query{text: approvalRows}
		q.in("a.id", padded(values))
		rows, err := s.approvalRows(ctx, q.whole(), q.args...)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(a, b ApprovalRow) int { return a.place().compare(b.place()) })
	return out, nil
}

// --- memory

// walkMemory goes on where p stopped, in memory: it has all that live.
func (p *approvalsPage) walkMemory(ctx context.Context) error {
	for !p.full() && !p.whole {
		found := p.newestInMemory(p.f, p.to, p.limit+1, p.livesAs)
		p.whole = len(found) <= p.limit
		rows, err := p.byID(ctx, idsAt(found))
		if err != nil {
			return err
		}
		for _, r := range rows { // one that has changed since is left out
			if p.is(r) {
				p.rows = append(p.rows, r)
			}
		}
		if len(found) > 0 {
			p.to = found[len(found)-1]
		}
	}
	return nil
}

func idsAt(places []place) []approval.ID {
	out := make([]approval.ID, len(places))
	for i, p := range places {
		out[i] = p.id
	}
	return out
}

// livesAs reports whether an approval may be what the filter asks for; what is
// due to be said ended is left to p.is.
func (p *approvalsPage) livesAs(h *hot) bool {
	switch {
	case p.f.State == "code_issued":
		return h.phase == approval.CodeIssued
	case p.f.UnusedSince > 0:
		return h.phase == approval.Live && max(h.createdAt(), int64(atomic.LoadUint32(&h.used))) <= p.f.UnusedSince
	}
	return h.phase == approval.Live
}

// unsaid finds approvals that have ended without a row saying so, where the
// list would have them.
func (p *approvalsPage) unsaid(ctx context.Context) error {
	if p.f.State != "ended" {
		return nil
	}
	from, err := readPlace(p.f.After)
	if err != nil {
		return err
	}
	found, err := p.unsaidPlaces(ctx, from)
	if err != nil {
		return err
	}
	if len(found) > p.limit && (p.most == place{} || found[p.limit].compare(p.most) < 0) {
		p.most = found[p.limit]
	}
	rows, err := p.byID(ctx, idsAt(found))
	if err != nil {
		return err
	}
	for _, r := range rows { // one may have been used meanwhile, and live
		if p.is(r) && r.matches(p.f) && (from == place{} || r.place().compare(from) > 0) {
			p.aside = append(p.aside, r)
		}
	}
	return nil
}

// unsaidPlaces gives those of them that come next behind a place, one more
// than the page has at most.
func (p *approvalsPage) unsaidPlaces(ctx context.Context, from place) ([]place, error) {
	now := p.Now()
	expired := now.Add(-approval.CodeLifetime)
	if p.shared != nil {
		return p.unsaidInRows(ctx, from, expired)
	}
	p.memory.mu.RLock()
	lost := p.memory.ended != p.memory.marked
	p.memory.mu.RUnlock()
	return p.newestInMemory(p.f, from, p.limit+1, func(h *hot) bool {
		switch h.phase {
		case approval.CodeIssued:
			if int64(h.issuedAt) <= expired.Unix() {
				return true
			}
		case approval.Live:
			if at, ends := p.unusedAt(h.lastUse()); ends && !now.Before(at) {
				return true
			}
		}
		return lost && approval.Standing(h.epochs()) != h.standing()
	}), nil
}

// unsaidInRows is unsaidPlaces where memory has no approvals.
func (p *approvalsPage) unsaidInRows(ctx context.Context, from place, expired time.Time) ([]place, error) {
	ids, _, err := p.shared.dueAt(ctx, expired)
	if err != nil {
		return nil, err
	}
	found, err := p.newestOf(ctx, ids, from)
	if err != nil || p.options.EndUnusedAfter == 0 {
		return found, err
	}
	f := p.f
	f.State, f.Limit, f.UnusedSince = "live", p.limit, p.Now().Add(-p.options.EndUnusedAfter).Unix()
	if begins := (place{at: f.UnusedSince + 1}); from == (place{}) || begins.compare(from) > 0 {
		f.After = begins.cursor()
	}
	// Where so many live that this looks at some of them alone, the others are
	// listed once the sweep has marked them: within the hour.
	unused, next, err := p.approvalPage(ctx, f, func(r ApprovalRow) bool { return r.StateName() == "ended" })
	if err != nil {
		return nil, err
	}
	for _, r := range unused {
		found = append(found, r.place())
	}
	if next != "" && len(unused) == p.limit {
		p.most = unused[p.limit-1].place()
	}
	slices.SortFunc(found, place.compare)
	found = slices.Compact(found)
	return found[:min(len(found), p.limit+1)], nil
}

// newestOf gives those approvals that come next behind a place, of all whose
// rows the filter matches but for the state.
func (p *approvalsPage) newestOf(ctx context.Context, ids []approval.ID, from place) ([]place, error) {
	f := p.f
	f.State = ""
	var found []place
	for batch := range slices.Chunk(ids, 8*sweepBatch) {
		values := make([]any, len(batch))
		for i := range batch {
			values[i] = batch[i][:]
		}
		q := p.walkedQuery()
		q.behind(from)
		q.in("a.id", padded(values))
		rows, err := p.readWalked(ctx, q.whole(), q.args)
		if err != nil {
			return nil, err
		}
		for _, w := range rows {
			if w.matches(f) {
				found = append(found, w.place)
			}
		}
	}
	slices.SortFunc(found, place.compare)
	return found[:min(len(found), p.limit+1)], nil
}

func (r ApprovalRow) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == r.Client) && (f.Person == "" || f.Person == r.Person) &&
		(f.Organization == "" || f.Organization == r.Organization) && (f.Grant == "" || f.Grant == r.Grant.Kind)
}

// newestInMemory gives the places of the newest approvals in memory behind one
// place that match the filter's client, person, organization and grant set,
// newest first and so many at most.
func (s *Store) newestInMemory(f ApprovalFilter, from place, most int, is func(*hot) bool) []place {
	m := s.memory
	m.mu.RLock()
	chunk := len(m.approvals.chunks)
	of, ok := m.hotFilter(f)
	m.mu.RUnlock()
	var found []place
	for ; chunk > 0 && ok; chunk-- { // those that were made last lie last, by and large
		m.mu.RLock()
		if chunk <= len(m.approvals.chunks) && (len(found) < most || m.approvals.newest[chunk-1] >= found[most-1].at) {
			found = m.approvals.newestOf(chunk-1, of, from, found, most, is)
		}
		m.mu.RUnlock()
	}
	return found
}

// newestOf adds those of a chunk.
func (t *approvals) newestOf(chunk int, of hotFilter, from place, found []place, most int, is func(*hot) bool) []place {
	var more []place
	for i := range t.chunks[chunk] {
		h := &t.chunks[chunk][i]
		if h.phase == 0 || len(found) == most && h.createdAt() < found[most-1].at || !of.matches(h) || !is(h) {
			continue
		}
		at := place{h.createdAt(), t.ids[chunk][i]}
		if from == (place{}) || at.compare(from) > 0 {
			more = append(more, at)
		}
	}
	if len(more) == 0 {
		return found
	}
	found = append(found, more...)
	slices.SortFunc(found, place.compare)
	return found[:min(len(found), most)]
}

// hotFilter is a filter of what memory has of an approval.
type hotFilter struct {
	client *clientFact
	person *person
	org    *organization
	kind   grantset.Kind
}

// hotFilter is false where nothing can match.
func (m *memory) hotFilter(f ApprovalFilter) (of hotFilter, ok bool) {
	of = hotFilter{m.clients[f.Client], m.people[f.Person], m.orgs[f.Organization], f.Grant}
	return of, (f.Client == "") == (of.client == nil) && (f.Person == "") == (of.person == nil) && (f.Organization == "") == (of.org == nil)
}

func (of *hotFilter) matches(h *hot) bool {
	return (of.client == nil || of.client == h.client) && (of.kind == "" || of.kind == h.grantKind()) &&
		(of.person == nil || of.person == h.member.person) && (of.org == nil || of.org == h.member.org)
}
