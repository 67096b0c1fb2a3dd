package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/token"
)

// maxTries is how often a move is made again when its row was changed between
// reading and writing.
const maxTries = 4

// Apply makes a move of an approval: state and journal are on the disk when it
// returns. The approval is given as it stands after the move. ErrNotFound
// means that there is no such row, ErrUnavailable that nothing has changed.
func (s *Store) Apply(_ context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	return s.writer.apply(id, m, false, act)
}

// ApplyLive is Apply for moves that ask nothing of the code, such as
// approval.Refresh, Revoke and End. It saves reading the row; the approval
// that it gives lacks redirect URI, issuer and challenge.
func (s *Store) ApplyLive(ctx context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	m, err := s.orUnused(ctx, id, m)
	if err != nil {
		return approval.Approval{}, 0, err
	}
	a, v, err := s.writer.apply(id, m, true, act)
	if err == nil && v == approval.OK && a.Phase == approval.Live {
		s.Used(id)
	}
	return a, v, err
}

// makeMove makes one move in the transaction under way. Its error undoes the
// whole batch; what concerns the move alone is left in the operation.
func (w *writer) makeMove(o *operation) error {
	for range maxTries {
		a, replaces, err := w.read(o.id, o.live)
		if errors.Is(err, ErrNotFound) {
			o.err = err
			return nil
		} else if err != nil {
			return err
		}
		before := a.State
		a.State, o.verdict = o.move(a, w.store.memory.standing(a))
		a.State = o.act.given(before, a.State)
		o.result = a
		if a.State == before {
			return nil
		}
		if err := w.begin(); err != nil {
			return err
		}
		hit, err := w.save(a, before)
		if err != nil {
			return err
		}
		if !hit {
			o.live = false // the row knows better than memory
			continue
		}
		return w.moved(o, a, before, replaces)
	}
	o.err = fmt.Errorf("approval %s keeps changing: %w", o.id, ErrUnavailable)
	return nil
}

// moved journals what a move has changed, and ends what the approval
// replaces.
func (w *writer) moved(o *operation, a approval.Approval, before approval.State, replaces string) error {
	for _, e := range events(a, before, o.act) {
		if err := w.journal(e.by(o.act)); err != nil {
			return err
		}
	}
	afters := []func(){w.remember(a)}
	if before.Phase == approval.CodeIssued && a.Phase == approval.Live && replaces != "" {
		for text := range strings.FieldsSeq(replaces) {
			id, err := approval.ParseID(text)
			if err != nil {
				return err
			}
			after, _, err := w.endRow(id, approval.Replaced, o.act)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			afters = append(afters, after)
		}
	}
	o.after = together(afters)
	return nil
}

// remember gives what is to be done to memory once the state is durable.
func (w *writer) remember(a approval.Approval) func() {
	return func() {
		t := &w.store.memory.approvals
		h := t.at(a.ID)
		switch {
		case h == nil:
		case a.Phase == approval.Ended:
			t.drop(a.ID)
		default:
			h.phase, h.generation, h.key, h.network = a.Phase, a.Generation, uint16(a.Key), a.Network
		}
	}
}

// events says what a move means to those who read the journal.
func events(a approval.Approval, before approval.State, act Act) []Event {
	e := Event{Client: a.Client, Person: a.Person, Organization: a.Organization, Approval: a.ID.String()}
	var out []Event
	add := func(kind string, reason approval.Reason) {
		e.Kind, e.Reason = kind, string(reason)
		out = append(out, e)
	}
	switch {
	case before.Phase == approval.CodeIssued && a.Phase == approval.Live:
		add("code_exchanged", "")
	case before.Phase != approval.Ended && a.Phase == approval.Ended:
		if a.Reason == approval.RefreshReused {
			e.Detail = act.reuse(before)
			add("refresh_reused", approval.Reason(act.looksLike(before)))
			e.Detail = ""
		} else if a.Reason == approval.CodeReused {
			add("code_reused", "")
		}
		add("approval_ended", a.Reason)
	}
	return out
}

// read gives an approval as it stands, from memory when that is enough.
func (w *writer) read(id approval.ID, live bool) (approval.Approval, string, error) {
	if live {
		if h := w.store.memory.approvals.at(id); h != nil && h.phase == approval.Live {
			return w.store.memory.cool(id, h), "", nil
		}
	}
	text := selectApproval + ` WHERE id = $1`
	if w.tx != nil { // other nodes write too: the row stays as it is read until the commit
		text = selectApproval + ` WHERE id = $1 FOR UPDATE`
	}
	rows, err := w.query(text, id[:])
	if err != nil {
		return approval.Approval{}, "", err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return approval.Approval{}, "", err
		}
		return approval.Approval{}, "", fmt.Errorf("approval %s: %w", id, ErrNotFound)
	}
	return scanApproval(rows)
}

const selectApproval = `
	SELECT id, client, person, organization, grant_kind, picks, personal,
	       redirect_uri, issuer, challenge, issued_at, created_at, replaces,
	       membership_epoch, person_epoch, organization_epoch, client_epoch,
	       phase, generation, key_number, reason, ended_at, network
	  FROM approval`

func scanApproval(rows *sql.Rows, more ...any) (a approval.Approval, replaces string, err error) {
	var id []byte
	var kind, picks, reason string
	var personal int64
	err = rows.Scan(append([]any{
		&id, &a.Client, &a.Person, &a.Organization, &kind, &picks, &personal,
		&a.RedirectURI, &a.Issuer, &a.Challenge, &a.IssuedAt, &a.CreatedAt, &replaces,
		&a.Born.Membership, &a.Born.Person, &a.Born.Organization, &a.Born.Client,
		&a.Phase, &a.Generation, &a.Key, &reason, &a.EndedAt, &a.Network,
	}, more...)...)
	if err != nil {
		return a, "", err
	}
	copy(a.ID[:], id)
	a.Reason, a.Replace = approval.Reason(reason), replaces != ""
	if a.Grant, err = grantset.Decode(kind, picks, personal == 1); err != nil {
		return a, "", fmt.Errorf("approval %s: %w", a.ID, err)
	}
	return a, replaces, nil
}

// save writes a state by compare-and-set: phase and generation are the row's
// version. It reports whether the row was still the one that was read.
func (w *writer) save(a approval.Approval, before approval.State) (bool, error) {
	var n int64
	var err error
	if a.Phase == approval.Ended {
		n, err = w.exec(`
			UPDATE approval
			   SET phase = $1, reason = $2, ended_at = $3
			 WHERE id = $4 AND phase = $5 AND generation = $6`,
			int64(a.Phase), string(a.Reason), a.EndedAt, a.ID[:], int64(before.Phase), before.Generation)
	} else {
		n, err = w.advance(a, before)
	}
	return n == 1, err
}

// advance is the statement of every exchange and refresh. It touches no
// indexed column.
func (w *writer) advance(a approval.Approval, before approval.State) (int64, error) {
	return w.exec(`
		UPDATE approval
		   SET phase = $1, generation = $2, key_number = $3, network = $4
		 WHERE id = $5 AND phase = $6 AND generation = $7`,
		int64(a.Phase), a.Generation, int64(a.Key), int64(a.Network), a.ID[:], int64(before.Phase), before.Generation)
}

// endRow ends one approval in the transaction under way; one that has ended
// stays as it ended.
func (w *writer) endRow(id approval.ID, why approval.Reason, act Act) (after func(), ended bool, err error) {
	return w.moveRow(id, approval.End(why, w.store.Now()), act)
}

// moveRow makes a move that may end an approval and asks nothing of the code,
// as part of a larger change.
func (w *writer) moveRow(id approval.ID, m approval.Move, act Act) (after func(), moved bool, err error) {
	a, _, err := w.read(id, true)
	if err != nil {
		return nil, false, err
	}
	before := a.State
	a.State, _ = m(a, w.store.memory.standing(a))
	if a.State == before {
		return nil, false, nil
	}
	hit, err := w.save(a, before)
	if err != nil || !hit {
		return nil, false, err
	}
	for _, e := range events(a, before, act) {
		if err := w.journal(e.by(act)); err != nil {
			return nil, false, err
		}
	}
	return w.remember(a), true, nil
}

// Access is what a bearer check needs: an approval without the code's fields,
// the facts under it, and its person as a member.
type Access struct {
	Approval approval.Approval
	Standing approval.Standing
	Member   org.Member

	// What a person reads of them: names at the same moment.
	PersonName, OrganizationName string

	// Idle says that the last use that is known is an hour old: a use of it is
	// to be told to Used (decision P11).
	Idle bool

	// Remembered says that it is as it was some time ago, within
	// database.max_staleness. Whoever would refuse by that asks CheckNow.
	Remembered bool
}

// CheckNow is Check that answers from nothing that is remembered: a token may be
// younger than that.
func (s *Store) CheckNow(ctx context.Context, id approval.ID) (Access, error) {
	if s.shared != nil {
		return s.shared.checkNow(ctx, id)
	}
	return s.Check(ctx, id)
}

// Check gives an approval that has not ended, exactly as it stands.
// ErrNotFound means that there is none.
func (s *Store) Check(ctx context.Context, id approval.ID) (Access, error) {
	if s.shared != nil {
		return s.shared.check(ctx, id)
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	h := s.memory.approvals.at(id)
	if h == nil {
		return Access{}, ErrNotFound
	}
	a := s.memory.cool(id, h)
	a.Grant = s.memory.grantSet(h)
	return Access{
		Approval: a, Standing: h.standing(), Member: h.member.asMember(),
		PersonName: h.member.person.Name, OrganizationName: h.member.org.Name,
		Idle: h.idle(uint32(s.Now().Unix())),
	}, nil
}

func (h *hot) idle(now uint32) bool {
	return now-atomic.LoadUint32(&h.used) >= uint32(useGrain/time.Second)
}

// Under gives what Check would find under an approval, whatever has become of
// it: for those who ask why it is refused.
func (s *Store) Under(row ApprovalRow) Access {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return Access{
		Approval: row.Approval, Standing: s.memory.standing(row.Approval),
		Member: s.memory.members[memberKey{row.Person, row.Organization}].asMember(),
	}
}

// useGrain is how true the last use is (decision P11).
const useGrain = time.Hour

// noteAgainAfter is how long no use is noted after one that could not be
// written: a disk that is full is not asked at each request.
const noteAgainAfter = time.Minute

// Used notes that an approval is in use, at most hourly. It never waits; what
// finds the queue full is noted at a later use.
func (s *Store) Used(id approval.ID) {
	now := uint32(s.Now().Unix())
	if s.shared != nil {
		s.shared.use(id, now)
		return
	}
	if int64(now) < s.unnoted.Load() {
		return
	}
	s.memory.mu.RLock()
	h := s.memory.approvals.at(id)
	due, old := false, uint32(0)
	if h != nil {
		old = atomic.LoadUint32(&h.used)
		due = h.idle(now) && atomic.CompareAndSwapUint32(&h.used, old, now)
	}
	s.memory.mu.RUnlock()
	if !due {
		return
	}
	back := func() {
		s.memory.mu.RLock()
		defer s.memory.mu.RUnlock()
		if h := s.memory.approvals.at(id); h != nil {
			atomic.CompareAndSwapUint32(&h.used, now, old)
		}
	}
	ok := s.writer.note(func(w *writer) (func(), error) {
		_, err := w.exec(`
			INSERT INTO approval_use (approval, used_at) VALUES ($1, $2)
			ON CONFLICT (approval) DO UPDATE SET used_at = excluded.used_at`, id[:], int64(now))
		return nil, err
	}, func() {
		back()
		s.unnoted.Store(int64(now) + int64(noteAgainAfter/time.Second))
	})
	if !ok {
		back()
	}
}

// Answer is one pressed Approve.
type Answer struct {
	// Handle derives the handle of the page's approval; the attempt grows
	// when the one before has ended without an exchange (decision A12).
	Handle func(attempt uint32) token.Handle

	Client, Person, Organization string // IDs
	Grant                        grantset.Set
	RedirectURI                  string
	Issuer                       string
	Challenge                    string
	Replace                      bool // end the earlier approvals at the exchange (decision P1)
}

// maxAttempts bounds how often one page may be approved after being cancelled.
const maxAttempts = 32

// Approve makes the approval of a page, or brings the one that it made before
// up to date while its code is not exchanged. It gives the handle and the
// code's issue time in Unix seconds. The client counts as approved from then
// on. ErrAnswered: the code was exchanged. ErrNotFound: the client is gone or
// disabled. ErrNotAllowed: a fact under the approval is gone.
func (s *Store) Approve(_ context.Context, a Answer, act Act) (h token.Handle, issued int64, err error) {
	err = s.writer.changeFacts(func(w *writer) (after func(), err error) {
		if err := w.mayApprove(a); err != nil {
			return nil, err
		}
		h, issued, after, err = w.approve(a, act)
		return after, err
	})
	return h, issued, err
}

// mayApprove asks the facts once more, in the writer: they may have ended
// between the page and the button.
func (w *writer) mayApprove(a Answer) error {
	m := w.store.memory
	if c := m.clients[a.Client]; c == nil || c.disabled || !c.known(w.store.Now()) {
		return fmt.Errorf("client: %w", ErrNotFound)
	}
	at := m.members[memberKey{a.Person, a.Organization}]
	switch {
	case !at.asMember().Exists():
		return fmt.Errorf("membership: %w", ErrNotAllowed)
	case !at.org.AIIntegration:
		return fmt.Errorf("AI integration: %w", ErrNotAllowed)
	case a.Grant.Kind == grantset.Organization && !at.admin:
		return fmt.Errorf("admin right: %w", ErrNotAllowed)
	}
	return nil
}

func (w *writer) approve(a Answer, act Act) (h token.Handle, issued int64, after func(), err error) {
	replaces, err := w.replaced(a)
	if err != nil {
		return h, 0, nil, err
	}
	h, row, found, err := w.pageApproval(a.Handle)
	if err != nil {
		return h, 0, nil, err
	}
	now := w.store.Now().Unix()
	made := now
	again := found && row.Organization == a.Organization && row.Grant.Equal(a.Grant)
	if found {
		if row.Person != a.Person || row.Client != a.Client {
			return h, 0, nil, ErrConflict
		}
		made = row.CreatedAt
		if now < row.IssuedAt+int64(approval.CodeLifetime/time.Second) {
			now = row.IssuedAt // the same code comes back
		}
	}
	row = approval.Approval{
		ID: approval.ID(h.ID()), Client: a.Client, Person: a.Person, Organization: a.Organization,
		Grant: a.Grant, RedirectURI: a.RedirectURI, Issuer: a.Issuer, Challenge: a.Challenge,
		IssuedAt: now, CreatedAt: made, State: approval.State{Phase: approval.CodeIssued},
	}
	row.Born = approval.Epochs(w.store.memory.standing(row))
	if err := w.putApproval(row, replaces); err != nil {
		return h, 0, nil, err
	}
	if !again { // a double click tells nothing new
		if err := w.granted(row, act); err != nil {
			return h, 0, nil, err
		}
	}
	put, err := w.store.memory.warm(row)
	if err != nil {
		return h, 0, nil, err
	}
	return h, now, func() {
		w.store.memory.approvals.put(row.ID, put())
		w.store.memory.approveClient(row.Client)
	}, nil
}

// granted marks the client approved and journals the approval.
func (w *writer) granted(a approval.Approval, act Act) error {
	if _, err := w.exec(`UPDATE client SET approved = 1 WHERE id = $1 AND approved = 0`, a.Client); err != nil {
		return err
	}
	w.fact("client", a.Client)
	return w.journal(Event{
		Kind: "approval_granted", Client: a.Client, Person: a.Person, Organization: a.Organization,
		Approval: a.ID.String(), Detail: string(a.Grant.Kind),
	}.by(act))
}

// pageApproval finds the approval that a page's next answer belongs to: the
// one it made, or the first attempt that is free. An exchanged one answers
// the page for good.
func (w *writer) pageApproval(handle func(uint32) token.Handle) (h token.Handle, a approval.Approval, found bool, err error) {
	for attempt := range uint32(maxAttempts) {
		h = handle(attempt)
		a, _, err = w.read(approval.ID(h.ID()), false)
		switch {
		case errors.Is(err, ErrNotFound):
			return h, approval.Approval{}, false, nil
		case err != nil:
			return h, a, false, err
		case a.Generation > 0:
			return h, a, true, ErrAnswered
		case a.Phase == approval.CodeIssued && a.Lost(w.store.memory.standing(a)) == "":
			return h, a, true, nil
		}
	}
	return h, a, false, ErrAnswered
}

// replaced lists the approvals that end when this one is exchanged: those of
// the same person, client and organization that live now (decision P1).
func (w *writer) replaced(a Answer) (string, error) {
	if !a.Replace {
		return "", nil
	}
	ids, err := column[[]byte](w.query(`
		SELECT id FROM approval
		 WHERE person = $1 AND organization = $2 AND client = $3 AND phase = 2`,
		a.Person, a.Organization, a.Client))
	var texts []string
	for _, id := range ids {
		texts = append(texts, hex.EncodeToString(id))
	}
	return strings.Join(texts, " "), err
}

// putApproval writes the latest answer of a page, as long as its code was not
// exchanged.
func (w *writer) putApproval(a approval.Approval, replaces string) error {
	n, err := w.exec(`
		INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal,
		       redirect_uri, issuer, challenge, issued_at, created_at, replaces,
		       membership_epoch, person_epoch, organization_epoch, client_epoch,
		       phase, generation, key_number, reason, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 1, 0, 0, '', 0)
		ON CONFLICT (id) DO UPDATE
		   SET organization = excluded.organization, grant_kind = excluded.grant_kind,
		       picks = excluded.picks, personal = excluded.personal, issued_at = excluded.issued_at,
		       replaces = excluded.replaces, membership_epoch = excluded.membership_epoch,
		       person_epoch = excluded.person_epoch, organization_epoch = excluded.organization_epoch,
		       client_epoch = excluded.client_epoch
		 WHERE approval.phase = 1 AND approval.generation = 0`,
		a.ID[:], a.Client, a.Person, a.Organization, string(a.Grant.Kind), a.Grant.EncodePicks(), flag(a.Grant.Personal),
		a.RedirectURI, a.Issuer, a.Challenge, a.IssuedAt, a.CreatedAt, replaces,
		a.Born.Membership, a.Born.Person, a.Born.Organization, a.Born.Client)
	if err == nil && n != 1 {
		return ErrAnswered
	}
	return err
}

// Cancelled is one pressed Cancel.
type Cancelled struct {
	Handle         func(attempt uint32) token.Handle // as in Answer
	Client, Person string                            // IDs
}

// Cancel journals a cancelled page, and ends the approval that the page made
// before, unless that was exchanged: ErrAnswered (decision A12).
func (s *Store) Cancel(_ context.Context, c Cancelled, act Act) error {
	return s.writer.changeFacts(func(w *writer) (func(), error) {
		h, a, found, err := w.pageApproval(c.Handle)
		if err != nil {
			return nil, err
		}
		var after func()
		if found && a.Person == c.Person {
			if after, _, err = w.endRow(approval.ID(h.ID()), approval.RevokedByPerson, act); err != nil {
				return nil, err
			}
		}
		return after, w.journal(Event{Kind: "approval_cancelled", Client: c.Client, Person: c.Person}.by(act))
	})
}

// ApprovalFilter narrows lists and ends; empty fields match all. State is
// code_issued, live or ended. Limit is at most 1000, 0 is 50.
type ApprovalFilter struct {
	Client, Person, Organization string
	Grant                        grantset.Kind
	State                        string
	// UnusedSince leaves those that live and were neither made nor used after
	// that time, Unix seconds; 0 leaves all. Only Approvals asks for it.
	UnusedSince int64
	After       string
	Limit       int
}

// ApprovalRow is an approval as it is shown: its State is what stands now,
// also where no row says so yet.
type ApprovalRow struct {
	approval.Approval
	ClientName    string
	Preregistered bool
	LastUsed      int64 // Unix seconds, true to the hour; 0 is never
}

// StateName is the word of ApprovalFilter for where the approval stands.
func (a ApprovalRow) StateName() string {
	return [...]string{"", "code_issued", "live", "ended"}[a.Phase]
}

const approvalRows = `
	SELECT a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.redirect_uri, a.issuer, a.challenge, a.issued_at, a.created_at, a.replaces,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.reason, a.ended_at, a.network,
	       c.name, c.preregistered, COALESCE(u.used_at, 0)
	  FROM approval a
	  JOIN client c ON c.id = a.client
	  LEFT JOIN approval_use u ON u.approval = a.id`

func (s *Store) approvalRows(ctx context.Context, text string, args ...any) ([]ApprovalRow, error) {
	defer s.timed("approvals", time.Now())
	rows, err := s.reader.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, unavailable("approvals", err)
	}
	defer rows.Close()
	var out []ApprovalRow
	now := s.Now()
	for rows.Next() {
		var r ApprovalRow
		var preregistered int64
		r.Approval, _, err = scanApproval(rows, &r.ClientName, &preregistered, &r.LastUsed)
		if err != nil {
			return nil, unavailable("approvals", err)
		}
		r.Preregistered = preregistered != 0
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("approvals", err)
	}
	if err := s.fresh(ctx); err != nil { // the facts are no older than the rows
		return nil, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	for i := range out {
		if h := s.memory.approvals.at(out[i].ID); h != nil { // the row comes a moment later
			out[i].LastUsed = max(out[i].LastUsed, int64(atomic.LoadUint32(&h.used)))
		}
		out[i].State = s.standsAs(out[i], s.memory.standing(out[i].Approval), now)
	}
	return out, nil
}

// Approval gives one approval as it is shown, or ErrNotFound.
func (s *Store) Approval(ctx context.Context, id approval.ID) (ApprovalRow, error) {
	rows, err := s.approvalRows(ctx, approvalRows+` WHERE a.id = $1`, id[:])
	if err != nil {
		return ApprovalRow{}, err
	}
	if len(rows) == 0 {
		return ApprovalRow{}, fmt.Errorf("approval %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// EndApproval ends one approval. One that has ended already is left as it is;
// ErrNotFound means that there is none.
func (s *Store) EndApproval(_ context.Context, id approval.ID, why approval.Reason, act Act) error {
	return s.writer.changeFacts(func(w *writer) (func(), error) {
		after, _, err := w.endRow(id, why, act)
		return after, err
	})
}

// EndApprovals ends all that match the filter's client, person, organization
// and grant set, in one step, and counts them.
func (s *Store) EndApprovals(_ context.Context, f ApprovalFilter, why approval.Reason, act Act) (ended int, err error) {
	err = s.writer.changeFacts(func(w *writer) (func(), error) {
		ended = 0
		ids, err := w.unended(f)
		if err != nil {
			return nil, err
		}
		var afters []func()
		for _, id := range ids {
			after, did, err := w.endRow(id, why, act)
			if err != nil {
				return nil, err
			}
			if did {
				ended++
				afters = append(afters, after)
			}
		}
		return together(afters), nil
	})
	return ended, err
}

func (w *writer) unended(f ApprovalFilter) ([]approval.ID, error) {
	q := query{text: `SELECT id FROM approval`, conditions: []string{"phase < 3"}}
	q.equal("client", f.Client)
	q.equal("person", f.Person)
	q.equal("organization", f.Organization)
	q.equal("grant_kind", string(f.Grant))
	ids, err := column[[]byte](w.query(q.text+" WHERE "+strings.Join(q.conditions, " AND ")+" ORDER BY id", q.args...))
	var out []approval.ID
	for _, id := range ids {
		out = append(out, approval.ID(id))
	}
	return out, err
}

// HasApproved reports whether the person has approved the client before
// (decision A2).
func (s *Store) HasApproved(ctx context.Context, person, clientID string) (bool, error) {
	defer s.timed("approved_before", time.Now())
	var n int
	err := s.reader.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM (SELECT 1 FROM approval WHERE person = $1 AND client = $2 LIMIT 1) AS one`,
		person, clientID).Scan(&n)
	if err != nil {
		return false, unavailable("approvals", err)
	}
	return n > 0, nil
}

// UsedBy counts the people with a live approval of the client in each of the
// organizations; those without one are left out.
func (s *Store) UsedBy(ctx context.Context, clientID string, organizations []string) (map[string]int, error) {
	out := map[string]int{}
	for _, o := range organizations {
		var n int
		err := s.reader.QueryRowContext(ctx, `
			SELECT COUNT(DISTINCT person) FROM approval
			 WHERE client = $1 AND organization = $2 AND phase = 2`, clientID, o).Scan(&n)
		if err != nil {
			return nil, unavailable("approvals", err)
		}
		if n > 0 {
			out[o] = n
		}
	}
	return out, nil
}

// cursor names the last row of a page; readCursor takes nothing else.
func cursor(at int64, id string) string { return strconv.FormatInt(at, 10) + "." + id }

func readCursor(s string) (at int64, id []byte, err error) {
	left, right, ok := strings.Cut(s, ".")
	if at, err = strconv.ParseInt(left, 10, 64); !ok || err != nil {
		return 0, nil, errCursor
	}
	parsed, err := approval.ParseID(right)
	if err != nil {
		return 0, nil, errCursor
	}
	return at, parsed[:], nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
