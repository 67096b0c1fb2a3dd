package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// AddClient adds a newly registered client. ErrConflict: the ID exists;
// ErrUnavailable: there are too many that nobody has approved, in all or of its
// network.
func (s *Store) AddClient(ctx context.Context, c client.Client, from Origin, act Act) error {
	at, err := s.reserve(ctx, weigh(c, from), from.Multiple)
	if err != nil {
		return err
	}
	defer func() {
		s.db.Memory.Lock()
		s.db.Memory.Leave(at)
		s.db.Memory.Unlock()
	}()
	return s.db.Engine.Register(c, from.network(), at, act)
}

// ClientState is what a token endpoint needs to know of a client.
type ClientState uint8

const (
	ClientUnknown  ClientState = iota // never was, or is deleted
	ClientEnabled                     // registered, approved or preregistered
	ClientDisabled                    // known, and may do nothing
)

// ClientState tells how a client stands now.
//
// On PostgreSQL an enabled client may have been disabled on another node a
// moment ago: whatever it asks for next stands on its epoch, which is read
// then. That it is unknown or disabled is not said before the facts are asked
// again.
func (s *Store) ClientState(ctx context.Context, id string) (ClientState, error) {
	if state := s.clientState(id); state == ClientEnabled {
		return state, nil
	}
	if err := s.fresh(ctx); err != nil {
		return ClientUnknown, err
	}
	return s.clientState(id), nil
}

func (s *Store) clientState(id string) ClientState {
	now := s.Now()
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	switch c := s.db.Memory.Clients[id]; {
	case c == nil || !c.Known(now):
		return ClientUnknown
	case c.Disabled:
		return ClientDisabled
	}
	return ClientEnabled
}

// Client gives a client that is known now, disabled ones too, or ErrNotFound.
func (s *Store) Client(ctx context.Context, id string) (client.Client, error) {
	defer s.timed("client", time.Now())
	var c client.Client
	err := scanClient(s.db.Reader.QueryRowContext(ctx, selectClient+` WHERE id = $1 AND disabled <> `+engine.SQLDeleted, id), &c)
	if err == nil && !c.Known(s.Now()) {
		err = sql.ErrNoRows
	}
	if err != nil {
		return client.Client{}, engine.Lookup("client", err)
	}
	return c, nil
}

const selectClient = `SELECT id, name, redirect_uris, issued_at, preregistered, approved, disabled, good_until FROM client`

func scanClient(row engine.Scanner, c *client.Client) error {
	var uris string
	var preregistered, approved, disabled int64
	err := row.Scan(&c.ID, &c.Name, &uris, &c.IssuedAt, &preregistered, &approved, &disabled, &c.GoodUntil)
	c.RedirectURIs = strings.Split(uris, "\n")
	c.Preregistered, c.Approved, c.Disabled = preregistered != 0, approved == 1, disabled != engine.Enabled
	return err
}

// ClientFilter narrows Clients; empty fields match all. State is registered,
// approved, disabled or preregistered. Query is a part of the name, of a
// redirect URI or of the ID. Limit is at most 1000, 0 is 50.
type ClientFilter struct {
	State, Query, After string
	Limit               int
}

// Clients lists the clients that are known now, newest first, and gives the
// cursor of the next page or "".
func (s *Store) Clients(ctx context.Context, f ClientFilter) ([]client.Client, string, error) {
	defer s.timed("clients", time.Now())
	limit := query.PageSize(f.Limit)
	q, err := s.clientQuery(f)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("issued_at DESC, id DESC", query.LookedAt(limit, f.Query)), q.Args...)
	out, err := query.Found(rows, err, limit, scanClient, func(c client.Client) bool {
		return f.Query == "" || org.Finds(c.Name, f.Query) || org.Finds(c.ID, f.Query) || org.Finds(strings.Join(c.RedirectURIs, "\n"), f.Query)
	})
	if err != nil {
		return nil, "", engine.Unavailable("clients", err)
	}
	if len(out) > limit {
		last := out[limit-1]
		return out[:limit], fmt.Sprintf("%d.%s", last.IssuedAt, last.ID), nil
	}
	return out, "", nil
}

func (s *Store) clientQuery(f ClientFilter) (query.Builder, error) {
	q := query.Builder{Text: selectClient}
	q.Where("disabled <> "+engine.SQLDeleted+" AND (approved = "+engine.SQLTrue+" OR preregistered <> "+engine.SQLFalse+" OR issued_at > ", s.Now().Add(-client.UnapprovedRetention).Unix())
	q.Conditions[0] += ")"
	switch f.State {
	case "":
	case "disabled":
		q.Conditions = append(q.Conditions, "disabled <> "+engine.SQLEnabled)
	case "preregistered":
		q.Conditions = append(q.Conditions, "disabled = "+engine.SQLEnabled+" AND preregistered <> "+engine.SQLFalse)
	case "approved":
		q.Conditions = append(q.Conditions, "disabled = "+engine.SQLEnabled+" AND preregistered = "+engine.SQLFalse+" AND approved = "+engine.SQLTrue)
	case "registered":
		q.Conditions = append(q.Conditions, "disabled = "+engine.SQLEnabled+" AND preregistered = "+engine.SQLFalse+" AND approved = "+engine.SQLFalse)
	default:
		return query.Builder{}, fmt.Errorf("client state %q: %w", f.State, ErrNotFound)
	}
	if f.After != "" {
		at, id, _ := strings.Cut(f.After, ".")
		issued, err := strconv.ParseInt(at, 10, 64)
		if err != nil || id == "" || len(id) > client.MaxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return query.Builder{}, query.ErrCursor
		}
		q.Args = append(q.Args, issued, id)
		q.Conditions = append(q.Conditions, fmt.Sprintf("(issued_at, id) < ($%d, $%d)", len(q.Args)-1, len(q.Args)))
	}
	return q, nil
}
