package oversight

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// Connection is an approval that lives, as the admins of its organization see it.
type Connection struct {
	approvals.ApprovalRow
	Hosts                   client.Hosts // of the app
	PersonName, PersonEmail string
	ReviewedBy              string // as in the journal; "" where nobody has
	ReviewedAt              int64  // Unix seconds
}

// Show narrows connections to those that an admin may want to look at.
type Show string

const (
	ShowAll        Show = ""
	ShowUnreviewed Show = "unreviewed" // neither made nor reviewed in ReviewAfter
	ShowUnused     Show = "unused"     // neither made nor used in ReviewAfter
	ShowEnding     Show = "ending"     // within EndingWithin
	ShowBeyond     Show = "beyond"     // they were given more, or longer, than the rules let anybody give now
)

const (
	ReviewAfter  = 90 * day
	EndingWithin = 7 * day

	connectionsPage = 25
	// MaxConnections bounds how many are ended or reviewed at once.
	MaxConnections = 1000
)

// ConnectionFilter narrows Connections; empty fields match all.
type ConnectionFilter struct {
	Organization string        // ID
	Find         string        // part of the app's name or host, or of the person's name or email
	Access       grantset.Kind // what was chosen
	Show         Show
	After        string
	Limit        int // at most 1000; 0 is 25
}

// Connections lists the approvals that live in an organization, the widest grant sets
// first and in each the newest, and gives the cursor of the next page or "". Where those
// that match are rare among many, a page can have fewer than its limit, or none, and a
// next one all the same. Each is listed once, whatever begins or ends meanwhile.
func (s *OversightStore) Connections(ctx context.Context, f ConnectionFilter) ([]Connection, string, error) {
	if f.Limit == 0 {
		f.Limit = connectionsPage
	}
	w := &connectionWalk{OversightStore: s, f: f, limit: query.PageSize(f.Limit), kinds: []grantset.Kind{grantset.Organization, grantset.Everything, grantset.Roles}, now: s.db.Now()}
	if f.Access != "" {
		w.kinds = []grantset.Kind{f.Access}
	}
	if err := w.begin(ctx); err != nil {
		return nil, "", err
	}
	if err := w.walk(ctx); err != nil {
		return nil, "", err
	}
	if len(w.out) > w.limit {
		w.out = w.out[:w.limit]
		last := w.out[w.limit-1]
		return w.out, w.cursor(last.Grant.Kind, last.Place()), nil
	}
	if len(w.kinds) == 0 {
		return w.out, "", nil
	}
	return w.out, w.cursor(w.kinds[0], w.at), nil
}

// connectionWalk is a page as it is put together: kind by kind, newest first, a stretch
// of the index at a time.
type connectionWalk struct {
	*OversightStore
	f     ConnectionFilter
	limit int
	now   time.Time
	kinds []grantset.Kind // that are to be walked still, the first from at on
	at    query.Place
	rules *policy.Policy
	found map[string]bool // IDs of the people whom f.Find finds
	out   []Connection
}

func (w *connectionWalk) cursor(kind grantset.Kind, at query.Place) string {
	return string(kind) + "." + at.Cursor()
}

// begin reads the cursor, and what of the facts the filter asks for.
func (w *connectionWalk) begin(ctx context.Context) (err error) {
	if w.f.After != "" {
		kind, at, _ := strings.Cut(w.f.After, ".")
		i := slices.Index(w.kinds, grantset.Kind(kind))
		if w.at, err = query.ReadPlace(at); err != nil || i < 0 || at == "" {
			return query.ErrCursor
		}
		w.kinds = w.kinds[i:]
	}
	if w.rules, err = w.Policy(ctx, w.f.Organization); err != nil {
		return err
	}
	if w.f.Show == ShowBeyond && w.rules == nil && w.db.Options.MaxDays == 0 {
		w.kinds = nil // nothing is
	}
	if w.f.Find != "" {
		w.found = w.peopleFound(w.f.Organization, w.f.Find)
	}
	return nil
}

// peopleFound finds members by a part of name or email, some at a time under the lock.
func (s *OversightStore) peopleFound(organization, find string) map[string]bool {
	s.db.Memory.RLock()
	var members []*facts.Member
	if at := s.db.Memory.Orgs[organization]; at != nil {
		members = slices.Clone(at.Members)
	}
	s.db.Memory.RUnlock()
	out := map[string]bool{}
	for some := range slices.Chunk(members, approvals.WalkStep) {
		s.db.Memory.RLock()
		for _, m := range some {
			if m.Person.Find(find) >= 0 {
				out[m.Person.ID] = true
			}
		}
		s.db.Memory.RUnlock()
	}
	return out
}

const connectionRows = `SELECT ` + engine.ApprovalColumns + `,
	       c.name, c.preregistered, a.used_at, a.reviewed_by, a.reviewed_at
	  FROM approval a
	  JOIN client c ON c.id = a.client`

const newestFirst = "a.created_at DESC, a.id DESC"

// walk goes on until the page is full, there are no more, or it has taken for long.
func (w *connectionWalk) walk(ctx context.Context) error {
	begin, walked := time.Now(), 0
	for step := approvals.WalkStep; len(w.kinds) > 0 && len(w.out) <= w.limit; {
		to, ends, err := w.stretch(ctx, step)
		if err != nil {
			return err
		}
		if err := w.take(ctx, to, ends); err != nil {
			return err
		}
		took := time.Since(begin)
		if len(w.kinds) > 0 && took > approvals.LongWalk {
			return nil
		}
		// As many as there is time for, as it went until now.
		walked += step
		step = min(2*step, max(approvals.WalkStep, int(float64(walked)*float64(approvals.LongWalk-took)/float64(took+1))))
	}
	return nil
}

// rows goes on with a statement about the rows of the kind that is walked.
func (w *connectionWalk) rows(q query.Builder) query.Builder {
	q.Conditions = []string{"a.ended_at = 0"}
	q.Where("a.organization = ", w.f.Organization)
	q.Where("a.grant_kind = ", string(w.kinds[0]))
	q.Behind(w.at)
	return q
}

// stretch finds where so many rows of the kind end, without reading them.
func (w *connectionWalk) stretch(ctx context.Context, step int) (to query.Place, ends bool, err error) {
	defer w.db.Timed("connections", time.Now())
	q := w.rows(query.Builder{Text: `SELECT a.created_at, a.id FROM approval a`})
	rows, err := w.db.Reader.QueryContext(ctx, q.Nth(newestFirst, step), q.Args...)
	all, err := engine.ListOf(rows, err, func(r engine.Scanner, p *query.Place) error {
		var id []byte
		err := r.Scan(&p.At, &id)
		copy(p.ID[:], id)
		return err
	})
	if err != nil {
		return to, false, engine.Unavailable("connections", err)
	}
	if len(all) == 0 {
		return to, true, nil
	}
	return all[0], false, nil
}

// take adds the rows of a stretch that match, until the page is full, and moves on.
func (w *connectionWalk) take(ctx context.Context, to query.Place, ends bool) error {
	for {
		room := w.limit + 1 - len(w.out)
		q := w.rows(query.Builder{Text: connectionRows})
		if !ends {
			q.Args = append(q.Args, to.At, to.ID[:])
			q.Conditions = append(q.Conditions, fmt.Sprintf("(a.created_at, a.id) >= ($%d, $%d)", len(q.Args)-1, len(q.Args)))
		}
		w.narrow(&q)
		some, err := w.connectionRows(ctx, q.Page(newestFirst, room-1), q.Args...)
		if err != nil {
			return err
		}
		for _, c := range some {
			w.at = c.Place()
			if w.matches(c) {
				w.out = append(w.out, c)
			}
		}
		switch {
		case len(w.out) > w.limit:
			return nil
		case len(some) == room: // there may be more in the stretch
			continue
		case ends:
			w.kinds, w.at = w.kinds[1:], query.Place{}
		default:
			w.at = to
		}
		return nil
	}
}

// narrow has the database leave out what can be seen in the row not to match.
func (w *connectionWalk) narrow(q *query.Builder) {
	long := w.now.Add(-ReviewAfter).Unix()
	switch w.f.Show {
	case ShowUnreviewed:
		q.Where("a.created_at <= ", long)
		q.Where("a.reviewed_at <= ", long)
	case ShowUnused:
		q.Where("a.created_at <= ", long)
		q.Where("a.used_at <= ", long)
	case ShowEnding:
		q.Conditions = append(q.Conditions, "a.ends_at > 0")
		q.Where("a.ends_at <= ", w.now.Add(EndingWithin).Unix())
	}
	if part := lowered(strings.ToLower(w.f.Find)); part != "" && len(w.found) <= 200 {
		q.Search("LOWER(c.name || ' ' || c.id || ' ' || a.redirect_uri)", part, "a.person", query.Anys(slices.Sorted(maps.Keys(w.found))))
	}
}

// lowered gives the longest part of what is looked for that LOWER and LIKE take alike on
// both engines: of letters without accents, or without case.
func lowered(find string) (longest string) {
	for part := range strings.FieldsFuncSeq(find, func(r rune) bool {
		return strings.ContainsRune(`%_\`, r) || r >= 0x80 && unicode.SimpleFold(r) != r
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// matches asks what the database cannot tell.
func (w *connectionWalk) matches(c Connection) bool {
	long := w.now.Add(-ReviewAfter).Unix()
	switch {
	case c.Phase != approval.Live:
		return false
	case w.f.Find != "" && !w.found[c.Person] && !org.Finds(c.ClientName, w.f.Find) && !org.Finds(c.Hosts.App, w.f.Find) && !org.Finds(c.Hosts.Back, w.f.Find):
		return false
	case w.f.Show == ShowUnused && c.LastUsed > long: // a use is in memory before it is in the row
		return false
	case w.f.Show == ShowBeyond && !w.beyond(c):
		return false
	}
	return true
}

// beyond reports whether nobody could be given such a connection now, as far as admins are
// told what it was given.
func (w *connectionWalk) beyond(c Connection) bool {
	rule, _ := w.rules.Decide(c.Hosts, c.ClientName, c.Person, c.Preregistered)
	most := MostDays(w.db.Options.MaxDays, w.rules)
	return rule != policy.Allow || IsOffered(w.rules.Limit(), c.Grant.WithoutPersonal()) != nil ||
		most > 0 && (c.EndsAt == 0 || c.EndsAt > EndOf(w.now, most))
}

func (s *OversightStore) connectionRows(ctx context.Context, text string, args ...any) ([]Connection, error) {
	defer s.db.Timed("connections", time.Now())
	rows, err := s.db.Reader.QueryContext(ctx, text, args...)
	now := s.db.Now()
	out, err := engine.ListOf(rows, err, scanConnection)
	if err != nil {
		return nil, engine.Unavailable("connections", err)
	}
	if err := s.db.Fresh(ctx); err != nil { // the facts are no older than the rows
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	for i := range out {
		c := &out[i]
		s.approvals.Stands(&c.ApprovalRow, now)
		if p := s.db.Memory.People.Get(c.Person); p != nil {
			c.PersonName, c.PersonEmail = p.Name, p.Email
		}
	}
	return out, nil
}

// Connection gives one connection of an organization, also one that has ended, or
// ErrNotFound.
func (s *OversightStore) Connection(ctx context.Context, organization string, id approval.ID) (Connection, error) {
	rows, err := s.connectionRows(ctx, connectionRows+` WHERE a.id = $1 AND a.organization = $2`, id[:], organization)
	if err != nil {
		return Connection{}, err
	}
	if len(rows) == 0 {
		return Connection{}, fmt.Errorf("connection %s: %w", id, engine.ErrNotFound)
	}
	return rows[0], nil
}

// ConnectionCounts are what an organization's admins see at a glance.
type ConnectionCounts struct {
	Connections, People int // the people have at least one
	Unreviewed          int // as ShowUnreviewed
	Ending              int // as ShowEnding
	Requests            int // open ones
}

// ConnectionCounts counts the connections of an organization.
func (s *OversightStore) ConnectionCounts(ctx context.Context, organization string) (n ConnectionCounts, err error) {
	defer s.db.Timed("connections", time.Now())
	now := s.db.Now()
	waiting := 0 // approved, and not connected yet
	for _, c := range []struct {
		text string
		args []any
		into []any
	}{
		{`
			SELECT COUNT(*), COALESCE(SUM(n), 0), COALESCE(SUM(unreviewed), 0), COALESCE(SUM(ending), 0) FROM (
			SELECT COUNT(*) AS n, SUM(CASE WHEN created_at <= $1 AND reviewed_at <= $1 THEN 1 ELSE 0 END) AS unreviewed,
			       SUM(CASE WHEN ends_at > 0 AND ends_at <= $2 THEN 1 ELSE 0 END) AS ending
			  FROM approval
			 WHERE organization = $3 AND ended_at = 0 AND (ends_at = 0 OR ends_at > $4)
			 GROUP BY person) AS each_person`,
			[]any{now.Add(-ReviewAfter).Unix(), now.Add(EndingWithin).Unix(), organization, now.Unix()},
			[]any{&n.People, &n.Connections, &n.Unreviewed, &n.Ending}},
		{`SELECT COUNT(*) FROM approval WHERE organization = $1 AND created_at > $2 AND ended_at = 0 AND phase = ` + engine.SQLCodeIssued,
			[]any{organization, now.Add(-2 * engine.PageLife).Unix()}, []any{&waiting}},
		{`SELECT COUNT(*) FROM app_request WHERE organization = $1 AND state = ` + sqlOpen, []any{organization}, []any{&n.Requests}},
	} {
		if err := s.db.Reader.QueryRowContext(ctx, c.text, c.args...).Scan(c.into...); err != nil {
			return ConnectionCounts{}, engine.Unavailable("connections", err)
		}
	}
	n.Connections = max(0, n.Connections-waiting)
	return n, nil
}

// RecordExport journals that an operator takes a list of the connections of an
// organization, and answers when that is written.
func (s *OversightStore) RecordExport(organization string, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		return tx.Journal(engine.Event{Kind: journal.ConnectionsExported, Organization: organization}.By(act))
	})
}

// MarkReviewed notes that an admin, or with the ID "" an operator, has looked at
// connections, at most MaxConnections, and counts them. What is not of the organization, or has ended, is left out.
// ErrNotAllowed: the person is no admin (any more); ErrFull: there are too many.
func (s *OversightStore) MarkReviewed(_ context.Context, organization, adminID string, ids []approval.ID, act engine.Act) (n int, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) error {
		n = 0
		mine, err := connections(tx, organization, adminID, ids)
		if err != nil || len(mine) == 0 {
			return err
		}
		for batch := range slices.Chunk(mine, query.Batch) {
			q := query.Builder{Text: `UPDATE approval SET reviewed_by = $1, reviewed_at = $2`, Args: []any{act.Actor, tx.Env.Now().Unix()}}
			if err := query.ExecIn(tx, q, "id", query.IDs(batch, engine.ApprovalKey)); err != nil {
				return err
			}
		}
		n = len(mine)
		return tx.Journal(engine.Event{Kind: journal.ConnectionsReviewed, Organization: organization, Detail: fmt.Sprintf("%d connections", n)}.By(act))
	})
	return n, err
}

// EndConnections ends connections as an admin of their organization (decision P8), or
// with the ID "" as an operator, at most MaxConnections, in one step, and counts those that had not ended. What is not of
// the organization is left out. Errors are those of MarkReviewed.
func (s *OversightStore) EndConnections(_ context.Context, organization, adminID string, ids []approval.ID, act engine.Act) (ended int, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) error {
		mine, err := connections(tx, organization, adminID, ids)
		if err != nil {
			return err
		}
		by := approval.RevokedByAdmin
		if adminID == "" {
			by = approval.RevokedByOperator
		}
		ended, err = approvals.MoveRows(tx, mine, approval.End(by, tx.Env.Now()), act)
		return err
	})
	if err != nil {
		ended = 0
	}
	return ended, err
}

// connections gives those of some approvals that are of the organization and have not
// ended, to one of its admins or an operator. Where others write too, they stay as they are.
func connections(tx *engine.Tx, organization, adminID string, ids []approval.ID) (mine []approval.ID, err error) {
	if err := mayRule(tx, adminID, organization); err != nil {
		return nil, err
	}
	switch {
	case len(ids) > MaxConnections:
		return nil, fmt.Errorf("connections: %w", ErrFull)
	case len(ids) == 0:
		return nil, nil
	}
	all, err := approvals.ReadMany(tx, once(ids))
	for _, a := range all {
		if a.Organization == organization && a.Phase != approval.Ended {
			mine = append(mine, a.ID)
		}
	}
	return mine, err
}

// once gives some approvals in the order of their IDs, each once.
func once(ids []approval.ID) []approval.ID {
	sorted := slices.SortedFunc(slices.Values(ids), func(a, b approval.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(sorted)
}
