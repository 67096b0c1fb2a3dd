package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Load fills memory from the rows: facts first, because approvals stand on
// them.
func Load(ctx context.Context, conn *sql.Conn, m *engine.Memory) error {
	return raw(conn, func(c *sqlite3.Conn) error {
		l := loader{c, m}
		for _, step := range []func() error{
			l.people, l.organizations, l.policies, l.members, l.circles, l.roles, l.fillers, l.apiKeys, l.clients, l.approvals,
		} {
			if err := step(); err != nil {
				return fmt.Errorf("database: load: %w", err)
			}
		}
		return ctx.Err()
	})
}

// loader reads through the driver's own interface: a million approvals are
// there in about a second, without an allocation for each column.
type loader struct {
	conn *sqlite3.Conn
	m    *engine.Memory
}

func (l loader) each(text string, row func(*sqlite3.Stmt) error) error {
	st, _, err := l.conn.Prepare(text)
	if err != nil {
		return err
	}
	defer st.Close()
	for st.Step() {
		if err := row(st); err != nil {
			return err
		}
	}
	return st.Err()
}

// facts reads a table of facts.
func (l loader) facts(text string, row func(*sqlite3.Stmt) facts.Change) error {
	return l.each(text, func(st *sqlite3.Stmt) error {
		row(st).Apply(&l.m.Facts)
		return nil
	})
}

func (l loader) people() error {
	return l.facts(`SELECT id, email, name, active, support, epoch FROM person`, func(st *sqlite3.Stmt) facts.Change {
		return facts.PersonChange{Person: org.Person{
			ID: st.ColumnText(0), Email: st.ColumnText(1), Name: st.ColumnText(2),
			Active: st.ColumnInt(3) == 1, Support: st.ColumnInt(4) == 1,
		}, Epoch: st.ColumnInt64(5)}
	})
}

func (l loader) organizations() error {
	return l.facts(`SELECT id, name, ai_integration, epoch FROM organization`, func(st *sqlite3.Stmt) facts.Change {
		return facts.OrganizationChange{Organization: org.Organization{
			ID: st.ColumnText(0), Name: st.ColumnText(1), AIIntegration: st.ColumnInt(2) == 1,
		}, Epoch: st.ColumnInt64(3)}
	})
}

func (l loader) members() error {
	return l.facts(`SELECT person, organization, admin, present, epoch FROM membership`, func(st *sqlite3.Stmt) facts.Change {
		return facts.MemberChange{MemberKey: facts.MemberKey{Person: st.ColumnText(0), Organization: st.ColumnText(1)}, Admin: st.ColumnInt(2) == 1, Present: st.ColumnInt(3) == 1, Epoch: st.ColumnInt64(4)}
	})
}

func (l loader) circles() error {
	return l.facts(`SELECT id, organization, parent, name FROM circle`, func(st *sqlite3.Stmt) facts.Change {
		return facts.CircleChange{Circle: org.Circle{
			ID: st.ColumnText(0), Organization: st.ColumnText(1), Parent: st.ColumnText(2), Name: st.ColumnText(3),
		}}
	})
}

func (l loader) roles() error {
	return l.facts(`SELECT id, organization, circle, name FROM role`, func(st *sqlite3.Stmt) facts.Change {
		return facts.RoleChange{Role: org.Role{
			ID: st.ColumnText(0), Organization: st.ColumnText(1), Circle: st.ColumnText(2), Name: st.ColumnText(3),
		}}
	})
}

func (l loader) fillers() error {
	return l.facts(`SELECT role, person FROM filler`, func(st *sqlite3.Stmt) facts.Change {
		return facts.FillerChange{Role: st.ColumnText(0), Person: st.ColumnText(1), On: true}
	})
}

func (l loader) apiKeys() error {
	return l.facts(`SELECT hash, person, organization, membership_epoch, person_epoch FROM api_key`, func(st *sqlite3.Stmt) facts.Change {
		c := facts.APIKeyChange{APIKey: facts.APIKey{MemberKey: facts.MemberKey{Person: st.ColumnText(1), Organization: st.ColumnText(2)}, MembershipEpoch: st.ColumnInt64(3), PersonEpoch: st.ColumnInt64(4)}}
		copy(c.Hash[:], st.ColumnRawBlob(0))
		return c
	})
}

func (l loader) clients() error {
	return l.facts(`SELECT id, issued_at, preregistered, approved, disabled, epoch, network, CASE WHEN approved = `+engine.SQLFalse+` AND preregistered = `+engine.SQLFalse+` THEN 4 * LENGTH(name) + LENGTH(redirect_uris) ELSE 0 END FROM client`, func(st *sqlite3.Stmt) facts.Change {
		return facts.ClientChange{
			Client: client.Client{
				ID: st.ColumnText(0), IssuedAt: st.ColumnInt64(1), Preregistered: st.ColumnInt(2) != 0,
				Approved: st.ColumnInt(3) == 1, Disabled: st.ColumnInt(4) != engine.Enabled,
			},
			Epoch: st.ColumnInt64(5), Deleted: st.ColumnInt(4) == engine.Deleted,
			Weight: facts.Weight{Network: facts.BlockOf(st.ColumnText(6)), Bytes: int32(st.ColumnInt64(7))},
		}
	})
}

func (l loader) approvals() error {
	n := 0
	if err := l.each(`SELECT COUNT(*) FROM approval`, func(st *sqlite3.Stmt) error {
		n = st.ColumnInt(0)
		return nil
	}); err != nil {
		return err
	}
	l.m.Approvals.Index = make(map[approval.ID]uint32, n)
	return l.each(`
		SELECT a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal, a.issued_at,
		       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
		       a.phase, a.generation, a.key_number, a.network, a.created_at, a.used_at, a.ends_at, a.bound
		  FROM approval a
		 WHERE a.phase < `+engine.SQLEnded, l.approval)
}

// approval takes one row. What is looked up by its texts is asked for with the
// driver's own bytes, which costs no allocation while IDs are short.
func (l loader) approval(st *sqlite3.Stmt) error {
	member := l.m.Members.Get(facts.MemberKey{Person: string(st.ColumnRawText(2)), Organization: string(st.ColumnRawText(3))})
	client := l.m.Clients[string(st.ColumnRawText(1))]
	a := approval.Approval{
		IssuedAt: st.ColumnInt64(7), CreatedAt: st.ColumnInt64(16), EndsAt: st.ColumnInt64(18),
		Born: approval.Epochs{
			Membership: st.ColumnInt64(8), Person: st.ColumnInt64(9),
			Organization: st.ColumnInt64(10), Client: st.ColumnInt64(11),
		},
		State: approval.State{
			Phase: approval.Phase(st.ColumnInt(12)), Generation: st.ColumnInt64(13), Key: st.ColumnInt(14),
			Network: uint16(st.ColumnInt(15)),
		},
	}
	copy(a.ID[:], st.ColumnRawBlob(0))
	copy(a.Bound[:], st.ColumnRawBlob(19))
	var err error
	a.Grant, err = grantset.Decode(kindText(st.ColumnRawText(4)), string(st.ColumnRawText(5)), st.ColumnInt(6) == 1)
	if err != nil {
		return fmt.Errorf("approval %s: %w", a.ID, err)
	}
	l.m.Remember(a.Grant.Picks)
	h, err := l.m.CachedOn(member, client, a)
	if err != nil {
		return err
	}
	h.Used = uint32(st.ColumnInt64(17))
	l.m.Approvals.Put(a.ID, h)
	return nil
}

// kindText gives a kind's own text where it is one, without a copy.
func kindText(raw []byte) string {
	for _, k := range grantset.Kinds {
		if string(raw) == string(k) {
			return string(k)
		}
	}
	return string(raw)
}
