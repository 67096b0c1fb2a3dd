package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/store/schema"
)

const (
	// beatEvery is how often a node shows that it lives, and asks what time
	// the database has (decision T12: at least every 30 s).
	beatEvery = 10 * time.Second
	// nodeLife is how long after its last sign a node counts as alive.
	nodeLife = 35 * time.Second
	// keptNodes is how long a node is kept that has ended without a word.
	keptNodes = 24 * time.Hour
	// sweepLease is how long a node that has begun to sweep is left alone.
	sweepLease = 3 * time.Minute
	// keptChanges is how far back a node may be that loads what has changed, which
	// is 100,000 versions; one that is further back loads everything.
	keptChanges = 100_000 * stride / 2
)

// Node is one process at work on the database.
type Node struct {
	ID        string
	StartedAt int64 // Unix seconds
	SeenAt    int64 // Unix seconds
	Key       int   // number of the newest key that it has
	Version   int64 // of the facts in its memory
	Self      bool
}

// databaseSeconds is the database's time, in Unix seconds.
const databaseSeconds = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)`

// measure is one look at the database's clock.
type measure struct{ database, machine time.Time }

// now is the database's time, as far as this node knows it (decision T12).
func (p *postgresEngine) now() time.Time {
	if p.options.databaseTime != nil {
		return p.options.databaseTime()
	}
	m := p.measured.Load()
	return m.database.Add(p.options.Now().Sub(m.machine))
}

// beat shows that this node lives, and measures how far its clock is from the
// database's.
func (p *postgresEngine) beat(ctx context.Context) error {
	var micros, started, alive, oldest int64
	before := p.options.Now()
	err := p.pool.QueryRow(ctx, `
		INSERT INTO node (id, started_at, seen_at, key_number, version, schema)
		VALUES ($1, `+databaseSeconds+`, `+databaseSeconds+`, $2, $3, $5)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, key_number = excluded.key_number, version = excluded.version
		RETURNING CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT), started_at,
		          (SELECT COUNT(*) FROM node WHERE id <> $1 AND seen_at > `+databaseSeconds+` - $4),
		          (SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'schema_oldest')`,
		p.node, int64(newestKey(p.options.Ring)), p.version(), int64(nodeLife/time.Second), int64(schema.Version)).Scan(&micros, &started, &alive, &oldest)
	if err != nil {
		return p.lost(err)
	}
	took := p.options.Now().Sub(before)
	if took > 2*time.Second {
		return fmt.Errorf("the database took %v to say its time: too long to tell it", took)
	}
	p.measured.Store(&measure{time.UnixMicro(micros), before.Add(took / 2)})
	p.others.Store(alive)
	if p.outgrown.Swap(oldest > schema.Version) != (oldest > schema.Version) {
		p.log.Error("the schema is of a release that this one cannot work beside", "oldest", oldest, "knows", schema.Version)
	}
	return nil
}

// Ready reports whether the database takes a write, and says its time.
func (p *postgresEngine) Ready() error {
	leave, err := p.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := p.beat(ctx); err != nil {
		p.refusals.note(err, p.options.Now())
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if p.options.databaseTime == nil {
		return nil
	}
	return p.settleNotes(ctx)
}

func (p *postgresEngine) tick() {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		select {
		case <-p.stopped:
			p.leave()
			return
		case <-t.C:
			p.warnBehind()
			ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
			if err := p.beat(ctx); err != nil {
				p.refusals.note(err, p.options.Now())
				p.log.Warn("the database's time cannot be read", "err", err)
			}
			if err := p.followKeys(ctx); err != nil && !errors.Is(err, ErrKeys) {
				p.log.Warn("the keys in use cannot be read", "err", err)
			}
			cancel()
		}
	}
}

// SyncKeys is a beat out of turn.
func (p *postgresEngine) SyncKeys(ctx context.Context) error {
	return errors.Join(p.beat(ctx), p.followKeys(ctx))
}

// followKeys lets the ring be as the database has it, where another node has
// rotated or retired keys (decision T11).
func (p *postgresEngine) followKeys(ctx context.Context) error {
	began := moment(time.Now())
	err := p.transact(ctx, func(tx *txn) error { return tx.matchKeyRows(p.options.Ring) })
	if err == nil {
		p.keysAt.Store(began)
	}
	lacks := errors.Is(err, ErrKeys)
	if (err == nil || lacks) && p.lacksKey.Swap(lacks) != lacks && lacks {
		p.log.Error("a key that seals is not in the key file here: copy it from another node, and send SIGHUP", "err", err)
	}
	return err
}

// keysHold is how long after this node has looked at the keys no other can have
// let one seal that it does not have: so long it counts as alive, and a little
// less.
const keysHold = nodeLife - 5*time.Second

// What Opens says, as operators are told it.
var (
	errKeyMissing = fmt.Errorf("a key that seals is not in the key file here: %w", ErrUnavailable)
	errKeysUnsure = fmt.Errorf("which keys seal was not heard for a while: %w", ErrUnavailable)
)

// Opens is nil when a token that the ring does not open was sealed by no node.
// ErrUnavailable: this node was paused or cut off for so long that the others may
// have let a key seal that it does not have (decision T11). Nothing is asked.
func (s *Store) Opens() error { return s.engine.Opens() }

// Opens is nil for as long as this node counts as alive.
func (p *postgresEngine) Opens() error {
	switch {
	case p.options.Ring == nil:
		return nil
	case p.lacksKey.Load():
		return errKeyMissing
	case p.options.databaseTime == nil && moment(time.Now())-p.keysAt.Load() > int64(keysHold):
		return errKeysUnsure
	}
	return nil
}

// leave takes this node out of the list of those who live.
func (p *postgresEngine) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := p.pool.Exec(ctx, `DELETE FROM node WHERE id = $1`, p.node); err != nil {
		p.log.Debug("leaving", "err", err)
	}
	if _, err := p.pool.Exec(ctx, `UPDATE lease SET until = 0 WHERE holder = $1`, p.node); err != nil {
		p.log.Debug("leaving", "err", err)
	}
}

// Nodes lists the processes that work on the database now, this one first. On
// the embedded engine it is alone.
func (s *Store) Nodes(ctx context.Context) ([]Node, error) { return s.engine.Nodes(ctx) }

// Nodes asks for those who were seen a while ago at most.
func (p *postgresEngine) Nodes(ctx context.Context) ([]Node, error) {
	rows, err := p.db.QueryContext(ctx, `
		SELECT id, started_at, seen_at, key_number, version FROM node
		 WHERE seen_at > `+databaseSeconds+` - $1
		 ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END, started_at, id`, int64(nodeLife/time.Second), p.node)
	out, err := listOf(rows, err, func(r scanner, n *Node) error {
		err := r.Scan(&n.ID, &n.StartedAt, &n.SeenAt, &n.Key, &n.Version)
		n.Self = n.ID == p.node
		return err
	})
	return out, unavailable("nodes", err)
}

// counted is how long the number of living approvals is believed: to count
// ten millions of rows takes seconds.
const counted = time.Minute

// Live counts the approvals that live, as their rows say.
func (p *postgresEngine) Live(ctx context.Context) (int, error) {
	p.counting.Lock()
	defer p.counting.Unlock()
	if time.Since(p.countedAt) < counted && p.options.databaseTime == nil {
		return p.living, nil
	}
	if err := p.db.QueryRowContext(ctx, `
		SELECT COUNT(*) FROM approval a
		  JOIN person p ON p.id = a.person AND p.epoch = a.person_epoch
		  JOIN organization o ON o.id = a.organization AND o.epoch = a.organization_epoch
		  JOIN client c ON c.id = a.client AND c.epoch = a.client_epoch
		  JOIN membership m ON m.person = a.person AND m.organization = a.organization AND m.epoch = a.membership_epoch
		 WHERE a.phase = `+sqlLive).Scan(&p.living); err != nil {
		return 0, unavailable("figures", err)
	}
	p.countedAt = time.Now()
	return p.living, nil
}

// LiveNodes counts the processes that work on the database, this one included:
// as it was when the database was last asked, which is every 10 seconds.
func (s *Store) LiveNodes() int { return s.engine.LiveNodes() }

// LiveNodes is as of the last beat.
func (p *postgresEngine) LiveNodes() int { return 1 + int(p.others.Load()) }

// Size is how many bytes the database takes, 0 when it does not say.
func (p *postgresEngine) Size() (bytes int64) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := p.pool.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&bytes); err != nil {
		p.log.Debug("size", "err", err)
	}
	return bytes
}

// --- what one node does for all

// Sweeps reports whether this node is the one that sweeps for all, and then deletes
// what is of nodes and versions.
func (p *postgresEngine) Sweeps(ctx context.Context) (bool, error) {
	if mine, err := p.sweeps(ctx); err != nil || !mine {
		return false, err
	}
	return true, p.trim(ctx)
}

// sweeps reports whether this node has the lease. It has for as long as it goes on
// asking; when it dies, another takes over.
func (p *postgresEngine) sweeps(ctx context.Context) (bool, error) {
	r, err := p.pool.Exec(ctx, `
		UPDATE lease SET holder = $1, until = `+databaseSeconds+` + $2
		 WHERE name = 'sweep' AND (holder = $1 OR until < `+databaseSeconds+`)`,
		p.node, int64(sweepLease/time.Second))
	if err != nil {
		return false, unavailable("sweep", p.lost(err))
	}
	return r.RowsAffected() == 1, nil
}

// trim deletes changes of facts that no node needs, and nodes long gone.
func (p *postgresEngine) trim(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `
		UPDATE facts SET trimmed = GREATEST(trimmed, LEAST(version - $1::bigint, (SELECT version FROM lease WHERE name = 'sweep')))
		 WHERE one = 1 AND version - $1::bigint > trimmed`, int64(keptChanges))
	if err == nil {
		_, err = p.pool.Exec(ctx, `DELETE FROM fact_change WHERE version <= (SELECT trimmed FROM facts WHERE one = 1)`)
	}
	if err == nil {
		_, err = p.pool.Exec(ctx, `DELETE FROM node WHERE seen_at < `+databaseSeconds+` - $1`, int64(keptNodes/time.Second))
	}
	if err != nil {
		return unavailable("sweep", p.lost(err))
	}
	return nil
}

// ClientUses counts rows.
func (p *postgresEngine) ClientUses(ctx context.Context) (map[string]ClientUse, error) {
	defer p.timed("client_uses", time.Now())
	rows, err := p.db.QueryContext(ctx, `
		SELECT a.client, COUNT(*), MAX(a.used_at)
		  FROM approval a
		 WHERE a.phase = `+sqlLive+`
		 GROUP BY a.client`)
	out := map[string]ClientUse{}
	err = eachRow(rows, err, func(r scanner) error {
		var id string
		var use ClientUse
		err := r.Scan(&id, &use.Live, &use.LastUsed)
		out[id] = use
		return err
	})
	return out, unavailable("uses", err)
}
