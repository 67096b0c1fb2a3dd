package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

const (
	// beatEvery is how often a node shows that it lives, and asks what time
	// the database has (decision T12: at least every 30 s).
	beatEvery = 10 * time.Second
	// keptNodes is how long a node is kept that has ended without a word.
	keptNodes = 24 * time.Hour
	// sweepLease is how long a node that has begun to sweep is left alone.
	sweepLease = 3 * time.Minute
	// KeptChanges is how far back a node may be that loads what has changed, which
	// is 100,000 versions; one that is further back loads everything.
	KeptChanges = 100_000 * stride / 2
)

// databaseSeconds is the database's time, in Unix seconds.
const databaseSeconds = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)`

// measure is one look at the database's clock.
type measure struct{ database, machine time.Time }

// now is the database's time, as far as this node knows it (decision T12).
func (p *Engine) now() time.Time {
	if p.Options.DatabaseTime != nil {
		return p.Options.DatabaseTime()
	}
	m := p.measured.Load()
	return m.database.Add(p.Options.Now().Sub(m.machine))
}

// Beat shows that this node lives, and measures how far its clock is from the
// database's.
func (p *Engine) Beat(ctx context.Context) error {
	var micros, started, alive, oldest int64
	before := p.Options.Now()
	err := p.Pool.QueryRow(ctx, `
		INSERT INTO node (id, started_at, seen_at, key_number, version, schema)
		VALUES ($1, `+databaseSeconds+`, `+databaseSeconds+`, $2, $3, $5)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, key_number = excluded.key_number, version = excluded.version
		RETURNING CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT), started_at,
		          (SELECT COUNT(*) FROM node WHERE id <> $1 AND seen_at > `+databaseSeconds+` - $4),
		          (SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'schema_oldest')`,
		p.node, int64(engine.NewestKey(p.Options.Ring)), p.Version(), int64(engine.NodeLife/time.Second), int64(schema.Version)).Scan(&micros, &started, &alive, &oldest)
	if err != nil {
		return p.lost(err)
	}
	took := p.Options.Now().Sub(before)
	if took > 2*time.Second {
		return fmt.Errorf("the database took %v to say its time: too long to tell it", took)
	}
	p.measured.Store(&measure{time.UnixMicro(micros), before.Add(took / 2)})
	p.others.Store(alive)
	if outgrown := oldest > schema.Version; p.outgrown.Swap(outgrown) != outgrown && outgrown {
		p.Log.Error("the schema is of a release that this one cannot work beside", "oldest", oldest, "knows", schema.Version)
	}
	return nil
}

// Ready reports whether the database takes a write, and says its time.
func (p *Engine) Ready() error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := p.Beat(ctx); err != nil {
		p.refusals.note(err, p.Options.Now())
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	if p.Options.DatabaseTime == nil {
		return nil
	}
	return p.settleNotes(ctx)
}

func (p *Engine) tick() {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		select {
		case <-p.Stopped:
			p.leave()
			return
		case <-t.C:
			p.WarnBehind()
			ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
			if err := p.Beat(ctx); err != nil {
				p.refusals.note(err, p.Options.Now())
				p.Log.Warn("the database's time cannot be read", "err", err)
			}
			if err := p.FollowKeys(ctx); err != nil && !errors.Is(err, engine.ErrKeys) {
				p.Log.Warn("the keys in use cannot be read", "err", err)
			}
			cancel()
		}
	}
}

// SyncKeys is a beat out of turn.
func (p *Engine) SyncKeys(ctx context.Context) error {
	return errors.Join(p.Beat(ctx), p.FollowKeys(ctx))
}

// FollowKeys lets the ring be as the database has it, where another node has
// rotated or retired keys (decision T11).
func (p *Engine) FollowKeys(ctx context.Context) error {
	began := Moment(time.Now())
	err := p.Transact(ctx, func(tx *engine.Tx) error { return tx.MatchKeyRows(p.Options.Ring) })
	if err == nil {
		p.KeysAt.Store(began)
	}
	lacks := errors.Is(err, engine.ErrKeys)
	if (err == nil || lacks) && p.lacksKey.Swap(lacks) != lacks && lacks {
		p.Log.Error("a key that seals is not in the key file here: copy it from another node, and send SIGHUP", "err", err)
	}
	return err
}

// keysHold is how long after this node has looked at the keys no other can have
// let one seal that it does not have: so long it counts as alive, and a little
// less.
const keysHold = engine.NodeLife - 5*time.Second

// What Opens says, as operators are told it.
var (
	errKeyMissing = fmt.Errorf("a key that seals is not in the key file here: %w", engine.ErrUnavailable)
	errKeysUnsure = fmt.Errorf("which keys seal was not heard for a while: %w", engine.ErrUnavailable)
)

// Opens is nil for as long as this node counts as alive.
func (p *Engine) Opens() error {
	switch {
	case p.Options.Ring == nil:
		return nil
	case p.lacksKey.Load():
		return errKeyMissing
	case p.Options.DatabaseTime == nil && Moment(time.Now())-p.KeysAt.Load() > int64(keysHold):
		return errKeysUnsure
	}
	return nil
}

// leave takes this node out of the list of those who live.
func (p *Engine) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := p.Pool.Exec(ctx, `DELETE FROM node WHERE id = $1`, p.node); err != nil {
		p.Log.Debug("leaving", "err", err)
	}
	if _, err := p.Pool.Exec(ctx, `UPDATE lease SET until = 0 WHERE holder = $1`, p.node); err != nil {
		p.Log.Debug("leaving", "err", err)
	}
}

// Nodes asks for those who were seen a while ago at most.
func (p *Engine) Nodes(ctx context.Context) ([]engine.Node, error) {
	rows, err := p.DB.QueryContext(ctx, `
		SELECT id, started_at, seen_at, key_number, version FROM node
		 WHERE seen_at > `+databaseSeconds+` - $1
		 ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END, started_at, id`, int64(engine.NodeLife/time.Second), p.node)
	out, err := engine.ListOf(rows, err, func(r engine.Scanner, n *engine.Node) error {
		err := r.Scan(&n.ID, &n.StartedAt, &n.SeenAt, &n.Key, &n.Version)
		n.Self = n.ID == p.node
		return err
	})
	return out, engine.Unavailable("nodes", err)
}

// counted is how long the number of living approvals is believed: to count
// ten millions of rows takes seconds.
const counted = time.Minute

// Live counts the approvals that live, as their rows say.
func (p *Engine) Live(ctx context.Context) (int, error) {
	p.counting.Lock()
	defer p.counting.Unlock()
	if time.Since(p.countedAt) < counted && p.Options.DatabaseTime == nil {
		return p.living, nil
	}
	if err := p.DB.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM approval a
		  JOIN person p ON p.id = a.person AND p.epoch = a.person_epoch
		  JOIN organization o ON o.id = a.organization AND o.epoch = a.organization_epoch
		  JOIN client c ON c.id = a.client AND c.epoch = a.client_epoch
		  JOIN membership m ON m.person = a.person AND m.organization = a.organization AND m.epoch = a.membership_epoch
		 WHERE a.phase = `+engine.SQLLive).Scan(&p.living); err != nil {
		return 0, engine.Unavailable("figures", err)
	}
	p.countedAt = time.Now()
	return p.living, nil
}

// LiveNodes is as of the last beat.
func (p *Engine) LiveNodes() int { return 1 + int(p.others.Load()) }

// Size is how many bytes the database takes, 0 when it does not say.
func (p *Engine) Size() (bytes int64) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := p.Pool.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&bytes); err != nil {
		p.Log.Debug("size", "err", err)
	}
	return bytes
}

// --- what one node does for all

// Sweeps reports whether this node is the one that sweeps for all, and then deletes
// what is of nodes and versions.
func (p *Engine) Sweeps(ctx context.Context) (bool, error) {
	if mine, err := p.hasLease(ctx); err != nil || !mine {
		return false, err
	}
	return true, p.Trim(ctx)
}

// hasLease reports whether this node has the lease. It has for as long as it goes on
// asking; when it dies, another takes over.
func (p *Engine) hasLease(ctx context.Context) (bool, error) {
	r, err := p.Pool.Exec(ctx, `
		UPDATE lease SET holder = $1, until = `+databaseSeconds+` + $2
		 WHERE name = 'sweep' AND (holder = $1 OR until < `+databaseSeconds+`)`,
		p.node, int64(sweepLease/time.Second))
	if err != nil {
		return false, engine.Unavailable("sweep", p.lost(err))
	}
	return r.RowsAffected() == 1, nil
}

// Trim deletes changes of facts that no node needs, and nodes long gone.
func (p *Engine) Trim(ctx context.Context) error {
	_, err := p.Pool.Exec(ctx, `
		UPDATE facts SET trimmed = GREATEST(trimmed, LEAST(version - $1::bigint, (SELECT version FROM lease WHERE name = 'sweep')))
		 WHERE one = 1 AND version - $1::bigint > trimmed`, int64(KeptChanges))
	if err == nil {
		_, err = p.Pool.Exec(ctx, `DELETE FROM fact_change WHERE version <= (SELECT trimmed FROM facts WHERE one = 1)`)
	}
	if err == nil {
		_, err = p.Pool.Exec(ctx, `DELETE FROM node WHERE seen_at < `+databaseSeconds+` - $1`, int64(keptNodes/time.Second))
	}
	if err != nil {
		return engine.Unavailable("sweep", p.lost(err))
	}
	return nil
}

// ClientUses counts rows.
func (p *Engine) ClientUses(ctx context.Context) (map[string]engine.ClientUse, error) {
	defer p.Timed("client_uses", time.Now())
	rows, err := p.DB.QueryContext(ctx, `
		SELECT a.client, COUNT(*), MAX(a.used_at)
		  FROM approval a
		 WHERE a.phase = `+engine.SQLLive+`
		 GROUP BY a.client`)
	out := map[string]engine.ClientUse{}
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id string
		var use engine.ClientUse
		err := r.Scan(&id, &use.Live, &use.LastUsed)
		out[id] = use
		return err
	})
	return out, engine.Unavailable("uses", err)
}
