package postgres

import (
	"context"
	"errors"
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
func (p *Engine) catchUp(ctx context.Context, v seen, all bool) error {
	p.catching <- struct{}{}
	defer func() { <-p.catching }()
	if at := p.Version(); !all && at >= v.found && !(v.back() && at == v.before) {
		return nil // others have done it meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	alive := func() {}
	if !all { // who starts has nobody waiting, and may count millions of rows first
		dead := time.AfterFunc(p.Stalled, func() {
			cancel()
			p.Pool.Reset() // the other connections lead there too
		})
		defer dead.Stop()
		alive = func() { dead.Reset(p.Stalled) }
	}
	conn, err := p.Pool.Acquire(ctx)
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
	return p.Load(ctx, conn.Conn(), all, alive)
}

// Load loads what has changed since memory's version, in the transaction under
// way, which sees one state of the facts: its snapshot, or what nobody else
// can change. It calls alive whenever something comes.
func (p *Engine) Load(ctx context.Context, conn *pgx.Conn, all bool, alive func()) error {
	from := p.Version()
	l := &factLoad{ctx: ctx, conn: conn, all: all, alive: alive, impersonal: p.Memory.Impersonal, keys: map[string][]string{}}
	if !all {
		if err := l.since(from); err != nil || l.to == from {
			return err
		}
	} else if err := conn.QueryRow(ctx, `SELECT version FROM facts WHERE one = 1`).Scan(&l.to); err != nil {
		return err
	}
	err := l.read()
	if errors.Is(err, errWrittenSince) {
		l.all = true
		err = l.read()
	}
	if err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	if l.back {
		p.rewound(from, l.to)
	}
	m := p.Memory
	m.Lock()
	defer m.Unlock()
	if m.Version != from && m.Version >= l.to {
		return nil // others have loaded newer ones meanwhile
	}
	if l.all {
		m.Adopt(l.anew)
	} else {
		l.into(m)
	}
	m.Version = l.to
	m.Changes++
	return nil
}

type checkedKey struct{}

// Checked marks the context.
func (p *Engine) Checked(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkedKey{}, true)
}

// Fresh asks, unless a check has.
func (p *Engine) Fresh(ctx context.Context) error {
	if ctx.Value(checkedKey{}) != nil {
		return nil
	}
	return p.FreshNow(ctx)
}

// FreshNow asks, whatever database.max_staleness says: most who call it refuse what
// they do not find, and what another node has acknowledged is refused nowhere
// (decision B8).
func (p *Engine) FreshNow(ctx context.Context) error {
	return p.Ask(ctx, &Question{Done: make(chan struct{}, 1)})
}
