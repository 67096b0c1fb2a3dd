package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// registration is a client that waits to be added.
type registration struct {
	client  client.Client
	network string
	at      *engine.Reserved
	act     engine.Act
	err     error
	done    chan struct{}
}

// Register adds together those that wait.
func (p *Engine) Register(c client.Client, network string, at *engine.Reserved, act engine.Act) error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	r := &registration{client: c, network: network, at: at, act: act, done: make(chan struct{}, 1)}
	p.clients.Join(r, 0)
	<-r.done
	return r.err
}

func (p *Engine) registerClients() {
	var batch []*registration
	for {
		clear(batch)
		if batch = p.clients.take(batch[:0], engine.MaxBatch, 1); len(batch) == 0 {
			return
		}
		p.registerBatch(batch)
		for _, r := range batch {
			r.done <- struct{}{}
		}
	}
}

// addClients adds clients, their entries in the journal and what other nodes
// have to load, in one statement, which is a transaction by itself. Of one whose
// ID is taken it is loaded who has it: every version of the facts has changes.
var addClients = `
	WITH next AS (
		UPDATE facts SET version = version + $21 WHERE one = 1 RETURNING version
	), added AS (
		INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch, network)
		SELECT c.id, c.name, c.redirect_uris, c.issued_at, c.preregistered, c.approved, c.disabled, 0, c.network
		  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
		       AS c (id, name, redirect_uris, network, issued_at, preregistered, approved, disabled)
		ON CONFLICT (id) DO NOTHING
		RETURNING id
	), change AS (
		INSERT INTO fact_change (version, what, key)
		SELECT DISTINCT next.version, 'newclient', c.id FROM next CROSS JOIN unnest($1::text[]) AS c (id)
	), entry AS (
		` + insertArrays(9, ` JOIN added ON added.id = e.client`) + `
	)
	SELECT next.version, added.id FROM next LEFT JOIN added ON added.id IS NOT NULL`

func (p *Engine) registerBatch(batch []*registration) {
	by := step()
	args := append(p.clientColumns(batch), by)
	var err error
	for range engine.MaxTries {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		start := time.Now()
		var version int64
		var added map[string]bool
		version, added, err = p.addClients(ctx, args)
		p.Timed("group", start)
		if err == nil && !p.registered(batch, version-by, version, added) {
			// Others change facts too. What is counted in memory bounds the next
			// registrations, and a node that does nothing else asks nowhere else.
			_ = p.FreshNow(ctx)
		}
		cancel()
		if err == nil {
			return
		}
		if !retryable(err) {
			break
		}
	}
	err = p.unavailable("register", p.lost(err))
	for _, r := range batch {
		r.err = err
	}
}

func (p *Engine) addClients(ctx context.Context, args []any) (version int64, added map[string]bool, err error) {
	conn, err := p.Pool.Acquire(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Release()
	defer commits(conn.Conn())()
	rows, err := conn.Query(ctx, addClients, args...)
	if err != nil {
		return 0, nil, err
	}
	added = map[string]bool{}
	var id *string
	_, err = pgx.ForEachRow(rows, []any{&version, &id}, func() error {
		if id != nil {
			added[*id] = true
		}
		return nil
	})
	return version, added, err
}

// registered tells memory, if it has seen all that was before, which it reports,
// and each caller what became of its client. Of two with one ID the first is there.
func (p *Engine) registered(batch []*registration, from, version int64, added map[string]bool) (next bool) {
	m := p.Memory
	m.Lock()
	defer m.Unlock()
	next = m.Version == from
	for _, r := range batch {
		if !added[r.client.ID] {
			r.err = fmt.Errorf("client: %w", engine.ErrConflict)
			continue
		}
		delete(added, r.client.ID)
		p.tell([]engine.Event{engine.Event{Kind: journal.ClientRegistered, Client: r.client.ID}.By(r.act)})
		if next {
			facts.ClientChange{Client: r.client, Weight: r.at.Weight}.Apply(&m.Facts)
			m.Leave(r.at)
		}
	}
	if next {
		m.Version = version
		m.Changes++
	}
	return next
}

func (p *Engine) clientColumns(batch []*registration) []any {
	n := len(batch)
	var words [4][]string
	var numbers [4][]int64
	entries := make([]engine.Event, n)
	for i := range words {
		words[i] = make([]string, n)
	}
	for i := range numbers {
		numbers[i] = make([]int64, n)
	}
	now := p.Now()
	for i, r := range batch {
		c := r.client
		words[0][i], words[1][i], words[2][i] = storable(c.ID), storable(c.Name), storable(strings.Join(c.RedirectURIs, "\n"))
		words[3][i] = r.network
		numbers[0][i], numbers[1][i], numbers[2][i], numbers[3][i] = c.IssuedAt, engine.Flag(c.Preregistered), engine.Flag(c.Approved), engine.Flag(c.Disabled)
		e := engine.Event{Kind: journal.ClientRegistered, Client: c.ID}.By(r.act)
		e.ID, e.At = p.Ids.Next(now), now.Unix()
		entries[i] = e
	}
	args := []any{words[0], words[1], words[2], words[3], numbers[0], numbers[1], numbers[2], numbers[3]}
	return append(args, eventColumns(entries)...)
}
