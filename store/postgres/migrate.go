package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

const (
	// lockPatience is how long a migration stands in the way of those who wait
	// behind it for a table that somebody else holds. Nodes wait 5 s, so that
	// none of their requests fails meanwhile.
	lockPatience = `SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = 0`
	// lockTries is how often it steps back and asks again: for a minute and a
	// half, with a second between.
	lockTries = 45
)

// Migrate is Migrate on PostgreSQL, where nodes go on to work.
func Migrate(ctx context.Context, o schema.Options) (from, to int, err error) {
	if o.Backup != "" {
		return 0, 0, fmt.Errorf("backup: PostgreSQL is backed up by its own means: %w", engine.ErrNotAllowed)
	}
	p, err := askerOf(ctx, o.URL, o.Ring)
	if err != nil {
		return 0, 0, err
	}
	defer p.Pool.Close()
	if err := p.examineServer(ctx); err != nil {
		return 0, 0, p.explain(err)
	}
	from, to, err = p.migrate(ctx, o)
	if err != nil {
		err = p.explain(err)
	}
	return from, to, err
}

// migrate runs what is pending; nothing in a database that is empty.
func (p *Engine) migrate(ctx context.Context, o schema.Options) (from, to int, err error) {
	var has schema.State
	if err := p.Transact(ctx, func(tx *engine.Tx) error {
		empty, err := p.isEmpty(tx)
		if err != nil || empty {
			has.Version = o.Newest()
			return err
		}
		if has, err = p.examineSchema(tx); err != nil {
			return err
		}
		return p.examineKeys(tx)
	}); err != nil {
		return 0, 0, err
	}
	if has.Version > o.Newest() {
		return has.Version, has.Version, has.Works()
	}
	return o.Run(has.Version, func(m schema.Migration) error { return p.migrateOnce(ctx, m, o) })
}

// migrateOnce waits for its tables in turns: behind one who waits for a table
// everybody else waits too.
func (p *Engine) migrateOnce(ctx context.Context, m schema.Migration, o schema.Options) error {
	for try := 1; ; try++ {
		var rekeyed []schema.Rekeyed
		err := p.Transact(ctx, func(tx *engine.Tx) (err error) {
			rekeyed, err = p.migrateIn(tx, m, o.Release)
			return err
		})
		switch {
		case err == nil:
			p.Log.Info("the schema was migrated", "to", m.Version)
			o.Tell(rekeyed)
			return nil
		case try == lockTries || Code(err) != "55P03" && !retryable(err): // lock not available
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// migrateIn holds the row of the facts' version, as whoever changes facts, and
// that of the schema, which a node looks at when it has said that it lives.
func (p *Engine) migrateIn(tx *engine.Tx, m schema.Migration, release string) (rekeyed []schema.Rekeyed, err error) {
	ctx := tx.Ctx
	if _, err := tx.Conn.ExecContext(ctx, lockPatience); err != nil {
		return nil, err
	}
	var version, behind int64
	if err := tx.QueryRow(`SELECT version FROM facts WHERE one = 1 FOR UPDATE`).Scan(&version); err != nil {
		return nil, err
	}
	var before string
	if err := tx.QueryRow(`SELECT value FROM meta WHERE name = $1 FOR UPDATE`, schema.MetaVersion).Scan(&before); err != nil {
		return nil, err
	}
	switch has, err := strconv.Atoi(before); {
	case err == nil && has >= m.Version: // another node was first
		return nil, nil
	case err != nil || has != m.Version-1:
		return nil, schema.ErrNotBefore
	}
	if err := tx.QueryRow(`
		SELECT COUNT(*) FROM node WHERE schema < $1 AND seen_at > `+databaseSeconds+` - $2`,
		int64(m.Oldest), int64(engine.NodeLife/time.Second)).Scan(&behind); err != nil {
		return nil, err
	}
	if behind > 0 {
		return nil, fmt.Errorf("it takes releases of schema %d and newer, and %d that live are older: %w", m.Oldest, behind, engine.ErrNodes)
	}
	if rekeyed, err = m.Rekeyed(ctx, tx.Conn); err != nil {
		return nil, err
	}
	if _, err := tx.Conn.ExecContext(ctx, m.Text(true)); err != nil {
		return nil, err
	}
	for name, value := range m.Saying(release) {
		if err := tx.PutMeta(name, value); err != nil {
			return nil, err
		}
	}
	return rekeyed, touchFacts(tx, m, version+1)
}

// touchFacts lets every node load the facts again where a migration has
// changed rows.
func touchFacts(tx *engine.Tx, m schema.Migration, to int64) error {
	if !m.ChangesRows() {
		return nil
	}
	if _, err := tx.Exec(`INSERT INTO fact_change (version, what, key) VALUES ($1, $2, '')`, to, everything); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE facts SET version = $1 WHERE one = 1`, to)
	return err
}

// staysWorking asks, once others can see that this node lives, whether the
// schema is still one that it works on: whoever migrates asks in the other
// order, and each waits for the other.
func (p *Engine) staysWorking(tx *engine.Tx) error {
	var version string
	if err := tx.QueryRow(`SELECT value FROM meta WHERE name = $1 FOR UPDATE`, schema.MetaVersion).Scan(&version); err != nil {
		return err
	}
	has, err := schema.Read(tx.Ctx, tx.Conn)
	if err != nil {
		return err
	}
	return has.Works()
}

// tooOld refuses to work where the schema takes newer releases alone: this node
// was paused, or cut off, while it was migrated.
func (p *Engine) tooOld() error {
	if p.outgrown.Load() {
		return fmt.Errorf("the schema takes newer releases alone: %w", engine.ErrUnavailable)
	}
	return nil
}
