package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// AddAttempts joins what was seen to the attempts that are kept, a batch in a commit,
// and counts what nobody had room for. Nodes that tell of one attempt do it one after
// the other. Nothing is lost by doing it late, but what it gives an error of. A batch that
// the database refuses for what is in it is written one by one, and what is refused then is
// counted.
func (s *Records) AddAttempts(ctx context.Context, all []attempt.Record, counted map[attempt.Reason]int) error {
	defer s.db.Timed("attempts", time.Now())
	if !s.KeepsAttempts() {
		return nil
	}
	var held *attemptsHeld
	singly := 0 // so many
	for begun := false; !begun || len(all) > 0 || len(counted) > 0; begun = true {
		n := min(len(all), attemptBatch)
		if singly > 0 {
			n, singly = 1, singly-1
		}
		batch, left := all[:n], all[n:]
		if err := s.judgeReuse(ctx, batch); err != nil {
			return err
		}
		var now attemptsHeld
		err := s.db.Change(func(tx *engine.Tx) (err error) {
			if err = countAttempts(tx, counted); err != nil { // first: it holds the others off
				return err
			}
			if held != nil && len(left) > 0 {
				now = *held
			} else if now, err = attemptsHeldNow(tx); err != nil {
				return err
			}
			if err = addAttempts(tx, batch, &now); err != nil {
				return err
			}
			return now.cap(tx)
		})
		switch unwritable := engine.Unwritable(err); {
		case unwritable && n > 1:
			singly = n
		case unwritable && n == 1:
			all, counted = left, maps.Clone(counted)
			if counted == nil {
				counted = map[attempt.Reason]int{}
			}
			for _, o := range batch[0].Seen {
				counted[o.Reason]++
			}
		case err != nil:
			return fmt.Errorf("attempts: %w", err)
		default:
			all, counted, held = left, nil, &now
		}
	}
	return nil
}

// judgeReuse tells a race of a client with itself from what looks like theft, as the
// journal has judged it.
func (s *Records) judgeReuse(ctx context.Context, all []attempt.Record) error {
	for i := range all {
		reused := slices.IndexFunc(all[i].Seen, func(o attempt.Observation) bool { return o.Reason == attempt.RefreshReused })
		if reused < 0 || all[i].Approval == "" {
			continue
		}
		id, err := approval.ParseID(all[i].Approval)
		if err != nil {
			continue
		}
		switch looks, err := s.Reuse(ctx, id); {
		case err != nil && !errors.Is(err, engine.ErrNotFound):
			return err
		case looks == engine.LooksLikeCopies:
			all[i].Seen = slices.Clone(all[i].Seen)
			all[i].Seen[reused].Reason = attempt.RefreshRace
		}
	}
	return nil
}

// countAttempts adds to the counts of the day.
func countAttempts(tx *engine.Tx, counted map[attempt.Reason]int) error {
	day := tx.Env.Now().Unix() / (24 * 3600)
	if err := countAttempt(tx, day, "", counted[""]); err != nil {
		return err
	}
	for _, c := range attempt.Causes {
		if n := counted[c.Code]; n > 0 {
			if err := countAttempt(tx, day, c.Code, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func countAttempt(tx *engine.Tx, day int64, reason attempt.Reason, n int) error {
	_, err := tx.Exec(`
		INSERT INTO attempt_count (day, reason, counted) VALUES ($1, $2, $3)
		    ON CONFLICT (day, reason) DO UPDATE SET counted = attempt_count.counted + excluded.counted`,
		day, string(reason), n)
	return err
}

// attemptsNear are the attempts that a batch may be joined to, and what becomes of them. A
// batch is read by a few statements, and written by one or two, because each is a round trip
// to a server, during which nothing else adds attempts.
type attemptsNear struct {
	records []attempt.Record
	stored  map[string]bool // IDs of those that have a row, and whether each is a stranger's
	changed map[string]bool
	gone    []string
}

// addAttempts puts each record to the one that it belongs to, or keeps it as a new one.
func addAttempts(tx *engine.Tx, batch []attempt.Record, held *attemptsHeld) error {
	n := &attemptsNear{stored: map[string]bool{}, changed: map[string]bool{}}
	if err := n.read(tx, batch); err != nil {
		return err
	}
	for _, r := range batch {
		n.add(r, func() string { return tx.Env.Ids.Next(tx.Env.Now()) })
	}
	return n.write(tx, held)
}

// add joins one record.
func (n *attemptsNear) add(r attempt.Record, nextID func() string) {
	near := n.of(r)
	if at := attempt.Join(r, near); at >= 0 {
		r = attempt.Merge(near[at], r)
		near = slices.Delete(near, at, at+1)
	}
	if at := attempt.Prelude(r, near); at >= 0 {
		before := near[at]
		if r.ID != "" {
			n.drop(before.ID)
			before.ID = r.ID
		}
		r = attempt.Merge(before, r)
	}
	if r.ID == "" {
		r.ID = nextID()
	}
	n.changed[r.ID] = true
	if at := n.place(r.ID); at >= 0 {
		n.records[at] = r
		return
	}
	n.records = append(n.records, r)
}

func (n *attemptsNear) place(id string) int {
	return slices.IndexFunc(n.records, func(k attempt.Record) bool { return k.ID == id })
}

func (n *attemptsNear) drop(id string) {
	at := n.place(id)
	n.records = slices.Delete(n.records, at, at+1)
	delete(n.changed, id)
	if _, stored := n.stored[id]; stored {
		n.gone = append(n.gone, id)
	}
}

// of gives those that have a key with a record in common, the newest of each.
func (n *attemptsNear) of(r attempt.Record) (all []attempt.Record) {
	newest := func(most int, is func(k attempt.Record) bool) (some []attempt.Record) {
		for _, k := range n.records {
			if is(k) {
				some = append(some, k)
			}
		}
		slices.SortStableFunc(some, func(a, b attempt.Record) int { return cmp.Compare(b.Last(), a.Last()) })
		return some[:min(len(some), most)]
	}
	if r.Approval != "" {
		all = newest(attemptNear, func(k attempt.Record) bool { return k.Approval == r.Approval })
	}
	if r.Walk != "" && len(all) == 0 {
		all = newest(attemptNear, func(k attempt.Record) bool { return k.Walk == r.Walk })
	}
	if r.Client != "" && len(all) == 0 {
		all = newest(attemptNear, func(k attempt.Record) bool { return k.Client == r.Client })
	}
	var more []attempt.Record
	switch {
	case r.Address != "":
		more = newest(mostOf(r), func(k attempt.Record) bool { return k.Address == r.Address })
	case r.Client == "":
		more = newest(attemptNear, func(k attempt.Record) bool { return k.Client == "" && k.Address == "" })
	}
	for _, m := range more {
		if !slices.ContainsFunc(all, func(k attempt.Record) bool { return k.ID == m.ID }) {
			all = append(all, m)
		}
	}
	return all
}

// mostOf is how many attempts from its address a record is compared with.
func mostOf(r attempt.Record) int {
	if r.Client == "" && r.Approval == "" {
		return attemptsFrom
	}
	return attemptNear
}

// read reads what of the rows may be near to a batch: by the approvals and walks, by the
// clients of those that these say nothing of, and by the addresses.
func (n *attemptsNear) read(tx *engine.Tx, batch []attempt.Record) error {
	approvals, walks := map[string]int{}, map[string]int{}
	for _, r := range batch {
		approvals[r.Approval], walks[r.Walk] = attemptNear, attemptNear
	}
	delete(approvals, "")
	delete(walks, "")
	err := n.readNewest(tx, `approval <> '' AND approval = `, approvals)
	if err == nil {
		err = n.readNewest(tx, `walk <> '' AND walk = `, walks)
	}
	clients, addresses, nameless := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range batch {
		if r.Client != "" && !slices.ContainsFunc(n.records, func(k attempt.Record) bool {
			return r.Approval != "" && k.Approval == r.Approval || r.Walk != "" && k.Walk == r.Walk
		}) {
			clients[r.Client] = attemptNear
		}
		if r.Address != "" {
			addresses[r.Address] = max(addresses[r.Address], mostOf(r))
		} else if r.Client == "" {
			nameless[""] = attemptNear
		}
	}
	if err == nil {
		err = n.readNewest(tx, `client = `, clients)
	}
	if err == nil {
		err = n.readNewest(tx, `address = `, addresses)
	}
	if err == nil {
		err = n.readNewest(tx, `client = '' AND address = `, nameless)
	}
	return err
}

// readNewest reads the newest of each key, as many as it says.
func (n *attemptsNear) readNewest(tx *engine.Tx, condition string, most map[string]int) error {
	if len(most) == 0 {
		return nil
	}
	q := query.Builder{Text: selectAttempt}
	q.EachOf(condition, "seen DESC", most)
	rows, err := tx.Query(q.Whole(), q.Args...)
	all, err := engine.ListOf(rows, err, scanAttempt)
	if err != nil {
		return engine.Unavailable("attempts", err)
	}
	for _, r := range all {
		if _, before := n.stored[r.ID]; !before {
			n.stored[r.ID] = ofStranger(r)
			n.records = append(n.records, r)
		}
	}
	return nil
}

// ofStranger reports whether nobody knows whose an attempt is.
func ofStranger(r attempt.Record) bool { return r.Person == "" && r.Approval == "" }

// write writes what has become of them, and counts it.
func (n *attemptsNear) write(tx *engine.Tx, held *attemptsHeld) error {
	if len(n.gone) > 0 {
		q := query.Builder{Text: `DELETE FROM attempt`}
		q.OneOf("id", query.Padded(query.Anys(n.gone)))
		if _, err := tx.Exec(q.Whole(), q.Args...); err != nil {
			return err
		}
	}
	for _, id := range n.gone {
		held.count(n.stored[id], -1)
	}
	var puts []attempt.Record
	for _, r := range n.records {
		if !n.changed[r.ID] {
			continue
		}
		if stranger, stored := n.stored[r.ID]; stored {
			held.count(stranger, -1)
		}
		held.count(ofStranger(r), 1)
		puts = append(puts, r)
	}
	for len(puts) > 0 {
		some := 1 << (bits.Len(uint(len(puts))) - 1) // a power of two, so that there are few texts
		if err := putAttempts(tx, puts[:some]); err != nil {
			return err
		}
		puts = puts[some:]
	}
	return nil
}

func putAttempts(tx *engine.Tx, all []attempt.Record) error {
	var values []any
	for _, r := range all {
		t := attempt.Read(r)
		values = append(values, r.ID, r.Began(), r.Last(), r.Client, r.Name, client.NameKey(r.Name), r.Host, r.Approval, r.Walk, r.Person, r.Organization, r.Address,
			int64(t.Reached), string(t.Result), string(t.Reason), t.Due, string(t.Later), string(t.Why), attempt.Text(r.Seen))
	}
	q := query.Builder{Text: `
		INSERT INTO attempt (id, began, seen, client, name, name_key, host, approval, walk, person, organization, address,
		                     reached, result, reason, due, later_result, later_reason, observations)`, End: `
		    ON CONFLICT (id) DO UPDATE SET
		       began = excluded.began, seen = excluded.seen, client = excluded.client, name = excluded.name, name_key = excluded.name_key, host = excluded.host,
		       approval = excluded.approval, walk = excluded.walk, person = excluded.person, organization = excluded.organization,
		       address = excluded.address, reached = excluded.reached, result = excluded.result, reason = excluded.reason,
		       due = excluded.due, later_result = excluded.later_result, later_reason = excluded.later_reason, observations = excluded.observations`}
	q.Values(len(values)/len(all), values)
	_, err := tx.Exec(q.Whole(), q.Args...)
	return err
}

// attemptsHeld is how many attempts are kept, and how many of them are strangers'. It is
// counted with the first batch of a call and with the last, because counting takes longer than
// adding one; what other nodes add in between the last one sees.
type attemptsHeld struct{ all, strangers int }

func attemptsHeldNow(tx *engine.Tx) (h attemptsHeld, err error) {
	if err = tx.QueryRow(`SELECT COUNT(*) FROM attempt WHERE person = '' AND approval = ''`).Scan(&h.strangers); err == nil {
		err = tx.QueryRow(`SELECT COUNT(*) FROM attempt`).Scan(&h.all)
	}
	if err != nil {
		return h, engine.Unavailable("attempts", err)
	}
	return h, nil
}

func (h *attemptsHeld) count(stranger bool, n int) {
	if h.all += n; stranger {
		h.strangers += n
	}
}

// cap deletes the oldest beyond the bound, of strangers beyond their fifth of it; no more
// than a batch of each at once.
func (h *attemptsHeld) cap(tx *engine.Tx) error {
	most := tx.Env.Options.AttemptsMax
	if over := h.strangers - max(most/strangersShare, 1); over > 0 {
		gone, err := tx.Exec(`
			DELETE FROM attempt WHERE id IN (
				SELECT id FROM attempt WHERE person = '' AND approval = '' ORDER BY id LIMIT $1)`, min(over, query.Batch))
		if err != nil {
			return err
		}
		h.all, h.strangers = h.all-int(gone), h.strangers-int(gone)
	}
	over := h.all - most
	if over <= 0 {
		return nil
	}
	var strangers int
	if err := tx.QueryRow(`
		SELECT COUNT(*) FROM (SELECT person, approval FROM attempt ORDER BY id LIMIT $1) AS oldest
		 WHERE person = '' AND approval = ''`, min(over, query.Batch)).Scan(&strangers); err != nil {
		return engine.Unavailable("attempts", err)
	}
	gone, err := tx.Exec(`
		DELETE FROM attempt WHERE id IN (
			SELECT id FROM attempt ORDER BY id LIMIT $1)`, min(over, query.Batch))
	h.all, h.strangers = h.all-int(gone), h.strangers-strangers
	return err
}
