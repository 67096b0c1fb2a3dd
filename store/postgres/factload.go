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
	l.puts = append(l.puts, c)
}

// factQuery reads a table of facts: with the condition, the rows that keys name.
type factQuery struct{ text, condition string }

// rows reads a table: all of it, or what the keys name by the conditions. row
// takes one, and says by which key it is named. What a key names and is not
// there is gone; without gone its tombstone stays.
func (l *factLoad) rows(table string, q factQuery, row func(*columns) (key string), gone func(key string) facts.Change) error {
	text, keys := q.text, l.keys[table]
	var args []any
	if !l.all {
		if len(keys) == 0 {
			return nil
		}
		text, args = q.text+" WHERE "+q.condition, []any{keys}
	}
	rows, err := l.conn.Query(l.ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	c, there := columns{fields: rows.FieldDescriptions()}, map[string]bool{}
	for n := 0; rows.Next(); n++ {
		if n%1024 == 0 {
			l.alive()
		}
		if c.next(rows.RawValues()); c.err == nil {
			if key := row(&c); !l.all {
				there[key] = true
			}
		}
	}
	for _, key := range keys {
		if !there[key] && gone != nil {
			l.put(gone(key))
		}
	}
	return errors.Join(c.err, rows.Err())
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
		l.put(facts.RoleEmptied(o.ID)) // it may have been deleted, and made again: who fills it is loaded as well
		l.put(o)
		return o.ID
	}, func(id string) facts.Change { return facts.RoleGone(id) })
}

func (l *factLoad) fillers() error {
	if err := l.fillersOf(l.keys["role"]); err != nil {
		return err
	}
	return l.rows("filler", factQuery{`SELECT role, person FROM filler`, `(role, person) IN (SELECT split_part(k, ' ', 1), split_part(k, ' ', 2) FROM unnest($1::text[]) AS k)`}, func(c *columns) string {
		role, person := c.text(), c.text()
		l.put(facts.FillerChange{Role: role, Person: person, On: true})
		if l.all { // there are millions of them, and nobody asks
			return ""
		}
		return role + " " + person
	}, func(key string) facts.Change {
		role, person, _ := strings.Cut(key, " ")
		return facts.FillerChange{Role: role, Person: person, On: false}
	})
}

// fillersOf names who fills roles that have changed: those of a deleted role go
// without being named.
func (l *factLoad) fillersOf(roles []string) error {
	if l.all || len(roles) == 0 {
		return nil
	}
	rows, err := l.conn.Query(l.ctx, `SELECT role || ' ' || person FROM filler WHERE role = ANY($1)`, roles)
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	l.keys["filler"] = append(l.keys["filler"], keys...)
	return err
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
