package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// LeavingFor is how long a redirect URI has to be missing in a client's document before
// what was approved for it ends, by two looks at least so long apart and none between that
// had it: one answer of a copy that is old ends nothing.
const LeavingFor = time.Hour

// PutDocument keeps what the metadata document of a client says. One that nobody knows
// counts as a registration does, with what from names, and so does one whose 14 days
// are over or that was deleted: all that lay under it has ended. What one that nobody has
// approved grows by counts with the network that it came from. One that is known
// changes: nothing is approved any more for a redirect URI that is gone, and once it is gone
// for LeavingFor, approvals for it end (approval.RedirectGone), and are counted.
// ErrNotFound: it is disabled; ErrConflict: it is preregistered; ErrUnavailable: as AddClient
// has it.
func (s *Store) PutDocument(ctx context.Context, c client.Client, from Origin, act Act) (ended int, err error) {
	w := weigh(c, from)
	if more := s.takes(c.ID, w); more != (facts.Weight{}) {
		at, err := s.reserve(ctx, more, from.Multiple)
		if err != nil {
			return 0, err
		}
		defer func() {
			s.db.Memory.Lock()
			s.db.Memory.Leave(at)
			s.db.Memory.Unlock()
		}()
	}
	err = s.changeFacts(func(tx *Tx) (err error) {
		ended = 0
		switch at := tx.Memory.Clients[c.ID]; {
		case at == nil || !at.Known(tx.Env.Now()):
			return tx.addDocument(c, from, w, act)
		case at.Preregistered:
			return fmt.Errorf("client %s is preregistered: %w", c.ID, ErrConflict)
		case at.Disabled:
			return fmt.Errorf("client: %w", ErrNotFound)
		default:
			ended, err = tx.changeDocument(c, at, w, act)
			return err
		}
	})
	return ended, err
}

// takes is what room a document needs beside what is there: all of what it says, where
// nobody knows the client; what it grows by, where nobody has approved it; else none.
func (s *Store) takes(id string, w facts.Weight) facts.Weight {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	switch at := s.db.Memory.Clients[id]; {
	case at == nil || !at.Known(s.Now()):
		return w
	case at.Waits() && w.Bytes > at.Weight().Bytes:
		return facts.Weight{Network: at.Weight().Network, Bytes: w.Bytes - at.Weight().Bytes}
	}
	return facts.Weight{}
}

// addDocument adds a client, or puts it in the place of one that is over, whose epoch it
// goes on with.
func (tx *Tx) addDocument(c client.Client, from Origin, w facts.Weight, act Act) error {
	epoch := int64(0)
	if at := tx.Memory.Clients[c.ID]; at != nil {
		epoch = at.Epoch
	}
	if _, err := tx.Exec(`
		INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network, good_until)
		VALUES ($1, $2, $3, $4, 0, 0, 0, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, redirect_uris = excluded.redirect_uris, issued_at = excluded.issued_at,
		       approved = `+engine.SQLFalse+`, disabled = `+engine.SQLEnabled+`, network = excluded.network, good_until = excluded.good_until, leaving = ''`,
		c.ID, c.Name, strings.Join(c.RedirectURIs, "\n"), c.IssuedAt, epoch, from.network(), c.GoodUntil); err != nil {
		return err
	}
	tx.Put(facts.ClientChange{Client: c, Weight: w, Epoch: epoch})
	return tx.Journal(Event{Kind: journal.ClientRegistered, Client: c.ID, Detail: "metadata document"}.By(act))
}

// changeDocument has a client say what its document says now.
func (tx *Tx) changeDocument(c client.Client, at *facts.Client, w facts.Weight, act Act) (ended int, err error) {
	was, leaving, err := tx.documentOf(c.ID)
	if err != nil {
		return 0, err
	}
	changed := was.Name != c.Name || !slices.Equal(was.RedirectURIs, c.RedirectURIs)
	now := tx.Env.Now()
	for _, uri := range was.RedirectURIs {
		if _, ok := leaving[uri]; !ok {
			leaving[uri] = now.Unix()
		}
	}
	var left []string
	for _, uri := range slices.Sorted(maps.Keys(leaving)) {
		if c.HasRedirectURI(uri) {
			continue
		}
		if now.Before(time.Unix(leaving[uri], 0).Add(LeavingFor)) {
			var some bool
			if some, err = tx.hasAt(c.ID, uri); err != nil {
				return 0, err
			}
			if some {
				left = append(left, fmt.Sprintf("%d %s", leaving[uri], uri))
			}
			continue
		}
		n, err := tx.endAt(c.ID, uri, act)
		if ended += n; err != nil {
			return 0, err
		}
	}
	if len(left) > 0 { // who comes then looks again
		c.GoodUntil = min(c.GoodUntil, now.Add(LeavingFor).Unix())
	}
	if _, err := tx.Exec(`UPDATE client SET name = $1, redirect_uris = $2, good_until = $3, leaving = $4 WHERE id = $5`,
		c.Name, strings.Join(c.RedirectURIs, "\n"), c.GoodUntil, strings.Join(left, "\n"), c.ID); err != nil {
		return 0, err
	}
	if !changed && ended == 0 {
		return 0, nil
	}
	if at.Waits() {
		was.Name, was.RedirectURIs = c.Name, c.RedirectURIs
		tx.Put(facts.ClientChange{Client: was, Weight: facts.Weight{Network: at.Weight().Network, Bytes: w.Bytes}, Epoch: at.Epoch})
	}
	detail := fmt.Sprintf("approvals ended: %d", ended)
	if len(left) > 0 {
		detail += fmt.Sprintf("; redirect URIs that are given up, unless they come back: %d", len(left))
	}
	return ended, tx.Journal(Event{Kind: journal.ClientChanged, Client: c.ID, Detail: detail}.By(act))
}

// documentOf locks the row of a client, and gives what its document said, and since when, in
// Unix seconds, it has not named redirect URIs that something is approved for.
func (tx *Tx) documentOf(id string) (was client.Client, leaving map[string]int64, err error) {
	if err := scanClient(tx.QueryRow(selectClient+` WHERE id = $1`+tx.Lock(), id), &was); err != nil {
		return was, nil, err
	}
	var lines string
	if err := tx.QueryRow(`SELECT leaving FROM client WHERE id = $1`, id).Scan(&lines); err != nil {
		return was, nil, err
	}
	leaving = map[string]int64{}
	for line := range strings.Lines(lines) {
		since, uri, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if leaving[uri], err = strconv.ParseInt(since, 10, 64); err != nil {
			return was, nil, err
		}
	}
	return was, leaving, nil
}

// LeavingClients gives the IDs of all clients whose documents have given up redirect URIs
// that something is approved for, and which are to be looked at again, on the one node that
// sweeps. There is no limit: documents that stay out of reach would fill it, and nobody
// behind them would have a turn.
func (s *Store) LeavingClients(ctx context.Context) ([]string, error) {
	if mine, err := s.db.Engine.Sweeps(ctx); err != nil || !mine {
		return nil, err
	}
	defer s.timed("leaving_clients", time.Now())
	ids, err := engine.Column[string](s.db.Reader.QueryContext(ctx, `
		SELECT id FROM client WHERE leaving <> '' AND disabled = `+engine.SQLEnabled+` ORDER BY id`))
	return ids, engine.Unavailable("clients", err)
}

// hasAt reports whether something is approved of a client for a redirect URI.
func (tx *Tx) hasAt(id, uri string) (some bool, err error) {
	ids, err := engine.ApprovalIDs(tx.Query(`
		SELECT id FROM approval WHERE client = $1 AND phase < `+engine.SQLEnded+` AND redirect_uri = $2 LIMIT 1`, id, uri))
	return len(ids) > 0, err
}

// endAt ends what was approved of a client for a redirect URI that it gave up.
func (tx *Tx) endAt(id, uri string, act Act) (ended int, err error) {
	ids, err := engine.ApprovalIDs(tx.Query(`
		SELECT id FROM approval WHERE client = $1 AND phase < `+engine.SQLEnded+` AND redirect_uri = $2 ORDER BY id`, id, uri))
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(ids, approvals.EndsBatch) {
		n, err := approvals.MoveRows(tx.Tx, batch, approval.End(approval.RedirectGone, tx.Env.Now()), act)
		if ended += n; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// leadsThere asks once more, in the writer, whether a client's document still names the
// redirect URI that an approval is about to be made for.
func (tx *Tx) leadsThere(clientID, redirectURI string) error {
	if at := tx.Memory.Clients[clientID]; !client.IsURL(clientID) || at.Preregistered {
		return nil
	}
	var c client.Client
	err := scanClient(tx.QueryRow(selectClient+` WHERE id = $1`, clientID), &c)
	if err == nil && !c.HasRedirectURI(redirectURI) {
		err = fmt.Errorf("redirect URI: %w", ErrNotFound)
	}
	return err
}
