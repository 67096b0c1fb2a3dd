package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// factLoad is what has been read of the facts.
type factLoad struct {
	ctx        context.Context
	conn       *pgx.Conn
	alive      func()
	to         int64
	all        bool
	impersonal bool
	back       bool                // the database has gone back in time since memory's version
	keys       map[string][]string // by table; what is not all
	written    []written           // and that is not named by keys
	byKey      bool                // what is read now
	puts       []facts.Change
	anew       facts.Facts // where all is put at once: nobody has seen it yet
}

// begin makes the facts that all are put into, as large as they will be.
func (l *factLoad) begin() error {
	var people, members, roles int
	if err := l.conn.QueryRow(l.ctx, `
		SELECT (SELECT COUNT(*) FROM person), (SELECT COUNT(*) FROM membership), (SELECT COUNT(*) FROM role)`).
		Scan(&people, &members, &roles); err != nil {
		return err
	}
	l.anew = facts.New(l.impersonal, people, members, roles)
	return nil
}

// since finds what has changed since a version, which the database has to know: if
// it does not, all is loaded.
func (l *factLoad) since(from int64) error {
	var trimmed, known int64
	if err := l.conn.QueryRow(l.ctx, `
		SELECT version, trimmed, (SELECT COUNT(*) FROM fact_change WHERE version = $1) FROM facts WHERE one = 1`, from).
		Scan(&l.to, &trimmed, &known); err != nil {
		return err
	}
	switch {
	case l.to == from:
		return nil
	case l.to < from, from > trimmed && known == 0:
		l.all, l.back = true, true
	case from < trimmed:
		l.all = true
	}
	if l.all {
		return nil
	}
	return l.changes(from)
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
			if w, ok := writtenBy(key); ok {
				l.written = append(l.written, w)
			} else {
				l.all = true
			}
			continue
		case newClient:
			what = "client"
		}
		l.keys[what] = append(l.keys[what], key)
	}
	return rows.Err()
}

// read reads the rows, the facts under others first.
func (l *factLoad) read() error {
	if l.all {
		l.keys = nil
		if err := l.begin(); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		l.people, l.organizations, l.policies, l.memberships, l.circles, l.roles, l.fillers, l.apiKeys, l.clients,
	} {
		if l.alive(); l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (l *factLoad) into(m *engine.Memory) {
	for _, c := range l.puts {
		c.Apply(&m.Facts)
	}
}

func (l *factLoad) put(c facts.Change) {
	if l.all {
		c.Apply(&l.anew)
		return
	}
	l.puts = append(l.puts, facts.Ready(c))
}

// factQuery reads a table of facts: with the condition, the rows that keys name.
type factQuery struct{ text, condition string }

// rows reads a table: all of it, or what the keys name by the conditions, and then what
// transactions have written. row takes one, and says by which key it is named. What a key
// names and is not there is gone; without gone its tombstone stays.
func (l *factLoad) rows(table string, q factQuery, row func(*columns) (key string), gone func(key string) facts.Change) error {
	if l.all {
		_, err := l.each(q.text, func(c *columns) { row(c) })
		return err
	}
	if keys := l.keys[table]; len(keys) > 0 {
		there := map[string]bool{}
		l.byKey = true
		_, err := l.each(q.text+" WHERE "+q.condition, func(c *columns) { there[row(c)] = true }, keys)
		if l.byKey = false; err != nil {
			return err
		}
		for _, key := range keys {
			if !there[key] && gone != nil {
				l.put(gone(key))
			}
		}
	}
	for _, w := range l.written {
		if w.table != table {
			continue
		}
		switch n, err := l.each(q.text+" WHERE xmin = $1::text::xid", func(c *columns) { row(c) }, w.by); {
		case err != nil:
			return err
		case n != w.rows:
			return errWrittenSince
		}
	}
	return nil
}

// errWrittenSince is that somebody has written rows again that a transaction wrote.
var errWrittenSince = errors.New("rows were written again")

// each reads rows, and counts them.
func (l *factLoad) each(text string, row func(*columns), args ...any) (n int, err error) {
	rows, err := l.conn.Query(l.ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for c := (columns{fields: rows.FieldDescriptions()}); rows.Next(); n++ {
		if n%1024 == 0 {
			l.alive()
		}
		if c.next(rows.RawValues()); c.err == nil {
			row(&c)
		}
		if c.err != nil {
			return n, c.err
		}
	}
	return n, rows.Err()
}

func (l *factLoad) people() error {
	return l.rows("person", factQuery{`SELECT id, email, name, active, support, epoch FROM person`, `id = ANY($1)`}, func(c *columns) string {
		p := facts.PersonChange{Person: org.Person{ID: c.text(), Email: c.text(), Name: c.text(), Active: c.number() == 1, Support: c.number() == 1}, Epoch: c.number()}
		l.put(p)
		return p.ID
	}, nil)
}

func (l *factLoad) organizations() error {
	return l.rows("organization", factQuery{`SELECT id, name, ai_integration, epoch FROM organization`, `id = ANY($1)`}, func(c *columns) string {
		o := facts.OrganizationChange{Organization: org.Organization{ID: c.text(), Name: c.text(), AIIntegration: c.number() == 1}, Epoch: c.number()}
		l.put(o)
		return o.ID
	}, nil)
}

func (l *factLoad) memberships() error {
	return l.rows("membership", factQuery{`SELECT person, organization, admin, present, epoch FROM membership`, `(person, organization) IN (SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) AS k)`}, func(c *columns) string {
		l.put(facts.MemberChange{MemberKey: facts.MemberKey{Person: c.text(), Organization: c.text()}, Admin: c.number() == 1, Present: c.number() == 1, Epoch: c.number()})
		return "" // it stays as a tombstone
	}, nil)
}

func (l *factLoad) circles() error {
	return l.rows("circle", factQuery{`SELECT id, organization, parent, name FROM circle`, `id = ANY($1)`}, func(c *columns) string {
		o := facts.CircleChange{Circle: org.Circle{ID: c.text(), Organization: c.text(), Parent: c.text(), Name: c.text()}}
		l.put(o)
		return o.ID
	}, func(id string) facts.Change { return facts.CircleGone{ID: id} })
}

func (l *factLoad) roles() error {
	return l.rows("role", factQuery{`SELECT id, organization, circle, name FROM role`, `id = ANY($1)`}, func(c *columns) string {
		o := facts.RoleChange{Role: org.Role{ID: c.text(), Organization: c.text(), Circle: c.text(), Name: c.text()}}
		if l.byKey { // it may have been deleted, and made again: who fills it is loaded as well
			l.put(facts.RoleEmptied(o.ID))
		}
		l.put(o)
		return o.ID
	}, func(id string) facts.Change { return facts.RoleGone(id) })
}

func (l *factLoad) fillers() error {
	filled := func(c *columns) string {
		role, person := c.text(), c.text()
		l.put(facts.FillerChange{Role: role, Person: person, On: true})
		if !l.byKey { // there are millions of them, and nobody asks
			return ""
		}
		return role + " " + person
	}
	// A role that a key names was emptied before: who fills it is read by the role.
	if roles := l.keys["role"]; len(roles) > 0 {
		if _, err := l.each(`SELECT role, person FROM filler WHERE role = ANY($1)`, func(c *columns) { filled(c) }, roles); err != nil {
			return err
		}
	}
	return l.rows("filler", factQuery{`SELECT role, person FROM filler`, `(role, person) IN (SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) AS k)`}, filled, func(key string) facts.Change {
		role, person, _ := strings.Cut(key, " ")
		return facts.FillerChange{Role: role, Person: person, On: false}
	})
}

func (l *factLoad) apiKeys() error {
	return l.rows("api_key", factQuery{`SELECT hash, person, organization, membership_epoch, person_epoch FROM api_key`, `hash IN (SELECT decode(k, 'hex') FROM unnest($1::text[]) AS k)`}, func(c *columns) string {
		hash := c.octets()
		k := facts.APIKey{MemberKey: facts.MemberKey{Person: c.text(), Organization: c.text()}, MembershipEpoch: c.number(), PersonEpoch: c.number()}
		if len(hash) != 32 {
			return "" // no key has such a hash
		}
		l.put(facts.APIKeyChange{Hash: [32]byte(hash), APIKey: k})
		return hex.EncodeToString(hash)
	}, apiKeyGone)
}

// apiKeyGone forgets the API key that a change names: none, where that is no hash.
func apiKeyGone(key string) facts.Change {
	hash, err := hex.DecodeString(key)
	if err != nil || len(hash) != len(facts.APIKeyGone{}) {
		return facts.APIKeyGone{}
	}
	return facts.APIKeyGone(hash)
}

func (l *factLoad) clients() error {
	return l.rows("client", factQuery{`SELECT id, issued_at, preregistered, approved, disabled, epoch, network, CAST(CASE WHEN approved = ` + engine.SQLFalse + ` AND preregistered = ` + engine.SQLFalse + ` THEN 4 * LENGTH(name) + LENGTH(redirect_uris) ELSE 0 END AS BIGINT) FROM client`, `id = ANY($1)`}, func(c *columns) string {
		o := facts.ClientChange{Client: client.Client{ID: c.text(), IssuedAt: c.number(), Preregistered: c.number() != 0, Approved: c.number() == 1}}
		disabled := c.number()
		o.Epoch, o.Disabled, o.Deleted = c.number(), disabled != engine.Enabled, disabled == engine.Deleted
		o.Weight = facts.Weight{Network: facts.BlockOf(c.text()), Bytes: int32(c.number())}
		l.put(o)
		return o.ID
	}, func(id string) facts.Change { return facts.ClientGone(id) })
}
