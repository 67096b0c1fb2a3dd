package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// What a change of facts can also say.
const (
	everything = "*"         // load all facts again
	newClient  = "newclient" // a client that nothing stands on yet
)

// changedRows names the rows of facts that the transaction has changed.
func changedRows(tx *txn) (tables, keys []string) {
	for _, c := range tx.changes {
		if c, ok := c.(onFacts); ok {
			if table, key := c.Row(); table != "" {
				tables, keys = append(tables, table), append(keys, key)
			}
		}
	}
	return tables, keys
}

// loadTimeout bounds how long facts are loaded: ten million people and their
// roles take minutes.
const loadTimeout = 15 * time.Minute

// stalled is how long nothing may come while they are loaded again, before the
// connection counts as dead: nobody says so of a machine that is gone.
const stalled = 30 * time.Second

// stride bounds how far one version of the facts is from the next.
const stride = 1 << 20

// step is how far it is, at random: a database that was set back to an earlier
// copy never comes by the versions again that it had, so that a node which knows
// them notices (decision T13).
func step() int64 { return 1 + rand.Int64N(stride) }

// seen is which version of the facts a read has found, and which memory had
// before it began.
type seen struct{ found, before int64 }

// back reports whether the database has gone back in time: what memory had was
// committed before the read began.
func (v seen) back() bool { return v.found < v.before }

// catchUp brings memory to the facts' version, or from nothing to all.
func (p *postgresEngine) catchUp(ctx context.Context, v seen, all bool) error {
	p.catching.Lock()
	defer p.catching.Unlock()
	if at := p.version(); !all && at >= v.found && !(v.back() && at == v.before) {
		return nil // others have done it meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	alive := func() {}
	if !all { // who starts has nobody waiting, and may count millions of rows first
		dead := time.AfterFunc(p.stalled, func() {
			cancel()
			p.pool.Reset() // the other connections lead there too
		})
		defer dead.Stop()
		alive = func() { dead.Reset(p.stalled) }
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
	return p.load(ctx, conn.Conn(), all, alive)
}

// load loads what has changed since memory's version, in the transaction under
// way, which sees one state of the facts: its snapshot, or what nobody else
// can change. It calls alive whenever something comes.
func (p *postgresEngine) load(ctx context.Context, conn *pgx.Conn, all bool, alive func()) error {
	from := p.version()
	l := &factLoad{ctx: ctx, conn: conn, all: all, alive: alive, impersonal: p.memory.Impersonal, keys: map[string][]string{}}
	if !all {
		if err := l.since(from); err != nil || l.to == from {
			return err
		}
	} else if err := conn.QueryRow(ctx, `SELECT version FROM facts WHERE one = 1`).Scan(&l.to); err != nil {
		return err
	}
	if l.all {
		l.keys = nil
		if err := l.begin(); err != nil {
			return err
		}
	}
	if err := l.read(); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	if l.back {
		p.rewound(from, l.to)
	}
	m := p.memory
	m.Lock()
	defer m.Unlock()
	if m.version != from && m.version >= l.to {
		return nil // others have loaded newer ones meanwhile
	}
	if l.all {
		m.Adopt(l.anew)
	} else {
		l.into(m)
	}
	m.version = l.to
	m.changes++
	return nil
}

type checkedKey struct{}

// Checked gives a context for what a request reads of facts alone after its
// credential was checked: they are no older than the check, which began after
// the request had arrived, so they are not asked for again. Who reads rows as
// well compares stamps by CheckNow afterwards: facts may be older than the rows.
func (s *Store) Checked(ctx context.Context) context.Context { return s.engine.Checked(ctx) }

// fresh brings the facts in memory up to where they were when it was called,
// or later. On the embedded engine they always are.
func (s *Store) fresh(ctx context.Context) error { return s.engine.Fresh(ctx) }

// Checked marks the context.
func (p *postgresEngine) Checked(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkedKey{}, true)
}

// Fresh asks, unless a check has.
func (p *postgresEngine) Fresh(ctx context.Context) error {
	if ctx.Value(checkedKey{}) != nil {
		return nil
	}
	return p.FreshNow(ctx)
}

// FreshNow asks, whatever database.max_staleness says: most who call it refuse what
// they do not find, and what another node has acknowledged is refused nowhere
// (decision B8).
func (p *postgresEngine) FreshNow(ctx context.Context) error {
	return p.ask(ctx, &question{done: make(chan struct{}, 1)})
}
