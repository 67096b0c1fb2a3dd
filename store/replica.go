package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
)

// factTables are the tables that memory is a replica of, on PostgreSQL.
var factTables = map[string]bool{
	"person": true, "organization": true, "membership": true, "circle": true, "role": true, "filler": true,
	"api_key": true, "client": true,
}

// What a change of facts can also say.
const (
	everything = "*"         // load all facts again
	newClient  = "newclient" // a client that nothing stands on yet
)

// factChange names what has to be loaded again.
type factChange struct{ what, key string }

// fact names the rows of a table of facts that a change alters, for the other
// nodes to load them again. Without keys it says that others are named for
// them: fillers go with their role or membership. A change that alters a table
// and names none of its rows makes the others load everything.
func (w *writer) fact(table string, keys ...string) {
	if w.tx == nil {
		return
	}
	if len(keys) == 0 && w.tx.last == table {
		w.tx.unnamed[table] -= w.tx.rows
	}
	w.tx.unnamed[table] -= int64(len(keys))
	for _, k := range keys {
		w.tx.changes = append(w.tx.changes, factChange{table, k})
	}
}

// factChanges lists what the transaction has changed.
func (x *tx) factChanges() []factChange {
	for table := range x.touched {
		if x.unnamed[table] > 0 {
			return []factChange{{everything, ""}}
		}
	}
	var out []factChange
	for _, c := range x.changes {
		if x.touched[c.what] {
			out = append(out, c)
		}
	}
	return out
}

// catchUp brings memory to the facts' version, at least to the one given, or
// from nothing to all.
func (p *shared) catchUp(ctx context.Context, least int64, all bool) error {
	p.catching.Lock()
	defer p.catching.Unlock()
	if !all && p.version() >= least {
		return nil
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// One snapshot: what is loaded is what the version says.
	t, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer t.Rollback(context.WithoutCancel(ctx))
	return p.load(ctx, conn.Conn(), all)
}

// load loads what has changed since memory's version, in the transaction under
// way, which sees one state of the facts: its snapshot, or what nobody else
// can change.
func (p *shared) load(ctx context.Context, conn *pgx.Conn, all bool) error {
	from := p.version()
	l := &factLoad{ctx: ctx, conn: conn, keys: map[string][]string{}}
	var trimmed int64
	if err := conn.QueryRow(ctx, `SELECT version, trimmed FROM facts WHERE one = 1`).Scan(&l.to, &trimmed); err != nil {
		return err
	}
	l.all = all || from < trimmed
	if !l.all {
		if l.to <= from {
			return nil
		}
		if err := l.changes(from); err != nil {
			return err
		}
	}
	if err := l.read(); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	m := p.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version >= l.to && !all {
		return nil // others have loaded newer ones meanwhile
	}
	if l.all {
		m.forget()
	}
	l.into(m)
	m.version = l.to
	return nil
}

// factLoad is what has been read of the facts.
type factLoad struct {
	ctx  context.Context
	conn *pgx.Conn
	to   int64
	all  bool
	keys map[string][]string // by table; what is not all
	puts []func(*memory)
}

func (l *factLoad) changes(from int64) error {
	rows, err := l.conn.Query(l.ctx, `SELECT DISTINCT what, key FROM fact_change WHERE version > $1`, from)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var what, key string
		if err := rows.Scan(&what, &key); err != nil {
			return err
		}
		switch what {
		case everything:
			l.all = true
		case newClient:
			what = "client"
		}
		l.keys[what] = append(l.keys[what], key)
	}
	return rows.Err()
}

// read reads the rows, the facts under others first.
func (l *factLoad) read() error {
	for _, step := range []func() error{
		l.people, l.organizations, l.memberships, l.circles, l.roles, l.fillers, l.apiKeys, l.clients,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (l *factLoad) into(m *memory) {
	for _, put := range l.puts {
		put(m)
	}
}

func (l *factLoad) put(f func(*memory)) { l.puts = append(l.puts, f) }

// rows reads a table: all of it, or what the keys name by the conditions.
func (l *factLoad) rows(table string, q query, row func(pgx.Rows) error) error {
	text := q.text
	if !l.all {
		keys := l.keys[table]
		if len(keys) == 0 {
			return nil
		}
		text = q.text + " WHERE " + strings.Join(q.conditions, " AND ")
		q.args = append(q.args, keys)
	}
	rows, err := l.conn.Query(l.ctx, text, q.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (l *factLoad) people() error {
	if ids := l.keys["person"]; !l.all && len(ids) > 0 { // two may have changed their emails with each other
		l.put(func(m *memory) {
			for _, id := range ids {
				if at := m.people[id]; at != nil {
					delete(m.byEmail, emailKey(at.Person))
				}
			}
		})
	}
	return l.rows("person", query{text: `SELECT id, email, name, active, support, epoch FROM person`, conditions: []string{`id = ANY($1)`}}, func(r pgx.Rows) error {
		var o org.Person
		var active, support, epoch int64
		if err := r.Scan(&o.ID, &o.Email, &o.Name, &active, &support, &epoch); err != nil {
			return err
		}
		o.Active, o.Support = active == 1, support == 1
		l.put(func(m *memory) {
			if at := m.people[o.ID]; at != nil {
				at.Person, at.epoch = o, epoch
				m.byEmail[emailKey(o)] = at
				return
			}
			m.putPerson(o, epoch)
		})
		return nil
	})
}

func (l *factLoad) organizations() error {
	return l.rows("organization", query{text: `SELECT id, name, ai_integration, epoch FROM organization`, conditions: []string{`id = ANY($1)`}}, func(r pgx.Rows) error {
		var o org.Organization
		var on, epoch int64
		if err := r.Scan(&o.ID, &o.Name, &on, &epoch); err != nil {
			return err
		}
		o.AIIntegration = on == 1
		l.put(func(m *memory) { m.putOrganization(o, epoch) })
		return nil
	})
}

// memberships: one that has ended leaves its roles empty.
func (l *factLoad) memberships() error {
	return l.rows("membership", query{text: `SELECT person, organization, admin, present, epoch FROM membership`, conditions: []string{`(person, organization) IN (SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) AS k)`}}, func(r pgx.Rows) error {
		var k memberKey
		var admin, present, epoch int64
		if err := r.Scan(&k.person, &k.organization, &admin, &present, &epoch); err != nil {
			return err
		}
		l.put(func(m *memory) {
			at := m.putMember(k, admin == 1, present == 1, epoch)
			for present == 0 && at != nil && len(at.roles) > 0 {
				r := at.roles[0]
				r.fillers, at.roles = without(r.fillers, at), without(at.roles, r)
			}
		})
		return nil
	})
}

func (l *factLoad) circles() error {
	there := map[string]bool{}
	if err := l.rows("circle", query{text: `SELECT id, organization, parent, name FROM circle`, conditions: []string{`id = ANY($1)`}}, func(r pgx.Rows) error {
		var c org.Circle
		if err := r.Scan(&c.ID, &c.Organization, &c.Parent, &c.Name); err != nil {
			return err
		}
		there[c.ID] = true
		l.put(func(m *memory) { m.putCircle(c) })
		return nil
	}); err != nil {
		return err
	}
	for _, id := range l.keys["circle"] {
		if !there[id] {
			l.put(func(m *memory) {
				for _, o := range m.orgs {
					delete(o.circles, id)
				}
			})
		}
	}
	return nil
}

func (l *factLoad) roles() error {
	there := map[string]bool{}
	if err := l.rows("role", query{text: `SELECT id, organization, circle, name FROM role`, conditions: []string{`id = ANY($1)`}}, func(r pgx.Rows) error {
		var o org.Role
		if err := r.Scan(&o.ID, &o.Organization, &o.Circle, &o.Name); err != nil {
			return err
		}
		there[o.ID] = true
		l.put(func(m *memory) { m.putRole(o) })
		return nil
	}); err != nil {
		return err
	}
	for _, id := range l.keys["role"] {
		if !there[id] {
			l.put(func(m *memory) {
				if r := m.roles[id]; r != nil {
					m.dropRole(r)
				}
			})
		}
	}
	return nil
}

func (l *factLoad) fillers() error {
	there := map[string]bool{}
	if err := l.rows("filler", query{text: `SELECT role, person FROM filler`, conditions: []string{`(role, person) IN (SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) AS k)`}}, func(r pgx.Rows) error {
		var role, person string
		if err := r.Scan(&role, &person); err != nil {
			return err
		}
		there[role+" "+person] = true
		l.put(func(m *memory) { m.setFiller(role, person, true) })
		return nil
	}); err != nil {
		return err
	}
	for _, k := range l.keys["filler"] {
		if role, person, _ := strings.Cut(k, " "); !there[k] {
			l.put(func(m *memory) { m.setFiller(role, person, false) })
		}
	}
	return nil
}

func (l *factLoad) apiKeys() error {
	there := map[string]bool{}
	if err := l.rows("api_key", query{text: `SELECT hash, person, organization, membership_epoch, person_epoch FROM api_key`, conditions: []string{`hash IN (SELECT decode(k, 'hex') FROM unnest($1::text[]) AS k)`}}, func(r pgx.Rows) error {
		var raw []byte
		var k apiKey
		if err := r.Scan(&raw, &k.person, &k.organization, &k.membershipEpoch, &k.personEpoch); err != nil {
			return err
		}
		there[hex.EncodeToString(raw)] = true
		l.put(func(m *memory) { m.apiKeys[[32]byte(raw)] = k })
		return nil
	}); err != nil {
		return err
	}
	for _, k := range l.keys["api_key"] {
		if hash, err := hex.DecodeString(k); !there[k] && err == nil && len(hash) == 32 {
			l.put(func(m *memory) { delete(m.apiKeys, [32]byte(hash)) })
		}
	}
	return nil
}

func (l *factLoad) clients() error {
	there := map[string]bool{}
	if err := l.rows("client", query{text: `SELECT id, issued_at, preregistered, approved, disabled, epoch FROM client`, conditions: []string{`id = ANY($1)`}}, func(r pgx.Rows) error {
		var c client.Client
		var preregistered, approved, disabled, epoch int64
		if err := r.Scan(&c.ID, &c.IssuedAt, &preregistered, &approved, &disabled, &epoch); err != nil {
			return err
		}
		c.Preregistered, c.Approved, c.Disabled = preregistered != 0, approved == 1, disabled != enabled
		there[c.ID] = true
		l.put(func(m *memory) {
			if m.putClient(c, epoch); disabled == deleted {
				m.deleteClient(c.ID, epoch)
			}
		})
		return nil
	}); err != nil {
		return err
	}
	for _, id := range l.keys["client"] {
		if !there[id] {
			l.put(func(m *memory) { m.dropClient(id) })
		}
	}
	return nil
}

// forget empties memory of all facts.
func (m *memory) forget() {
	fresh := newMemory()
	m.people, m.byEmail, m.orgs, m.members = fresh.people, fresh.byEmail, fresh.orgs, fresh.members
	m.roles, m.roleList, m.gone = fresh.roles, fresh.roleList, fresh.gone
	m.clients, m.apiKeys, m.unapproved = fresh.clients, fresh.apiKeys, 0
}

type checkedKey struct{}

// Checked gives a context for what a request reads of facts alone after its
// credential was checked: they are no older than the check, which began after
// the request had arrived, so they are not asked for again. Who reads rows as
// well must not use it, because facts have to be no older than the rows.
func (s *Store) Checked(ctx context.Context) context.Context {
	if s.shared == nil {
		return ctx
	}
	return context.WithValue(ctx, checkedKey{}, true)
}

// fresh brings the facts in memory up to where they were when it was called,
// or later. On the embedded engine they always are.
func (s *Store) fresh(ctx context.Context) error {
	if s.shared == nil || ctx.Value(checkedKey{}) != nil {
		return nil
	}
	return s.shared.fresh(ctx)
}

func (p *shared) fresh(ctx context.Context) error {
	if p.recent(time.Now()) {
		return nil
	}
	q := &question{done: make(chan struct{}, 1)}
	return p.ask(ctx, q)
}
