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
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
	"github.com/grantkeeper/grantkeeper/token"
)

// Key is one secret key as the database knows it.
type Key struct {
	Number    int
	Seals     bool
	Retired   bool
	Approvals int // that have not ended and whose current refresh token it sealed
}

// Keys lists them by number.
func (s *Store) Keys(ctx context.Context) ([]Key, error) {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT name FROM meta WHERE name LIKE $1 OR name LIKE $2`, engine.MetaKey+"%", engine.MetaRetired+"%")
	names, err := engine.Column[string](rows, err)
	if err != nil {
		return nil, engine.Unavailable("keys", err)
	}
	all := map[int]Key{}
	for _, name := range names {
		kind, number, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("keys: %s: %w", name, err)
		}
		all[n] = Key{Number: n, Retired: kind+"." == engine.MetaRetired, Seals: s.db.Options.Ring != nil && n == s.db.Options.Ring.Sealing()}
	}
	if err := s.countSealed(ctx, all); err != nil {
		return nil, err
	}
	var out []Key
	for _, n := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[n])
	}
	return out, nil
}

func (s *Store) countSealed(ctx context.Context, all map[int]Key) error {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT key_number, COUNT(*) FROM approval WHERE phase = $1 GROUP BY key_number`, int(approval.Live))
	return engine.Unavailable("keys", engine.EachRow(rows, err, func(r engine.Scanner) error {
		var number, count int
		err := r.Scan(&number, &count)
		if k, ok := all[number]; ok {
			k.Approvals = count
			all[number] = k
		}
		return err
	}))
}

// AddKeys takes keys that are not in the ring yet: from now on they open, and
// every node needs them. A retired one is left out. ErrKeys refuses a number
// that the database knows with another key.
func (s *Store) AddKeys(ctx context.Context, keys []*token.Key, act Act) (added []int, err error) {
	ring := s.db.Options.Ring
	var fresh []*token.Key
	for _, k := range keys {
		if !slices.ContainsFunc(ring.Keys(), func(have *token.Key) bool { return have.Number == k.Number && have.Fingerprint() == k.Fingerprint() }) {
			fresh = append(fresh, k)
		}
	}
	err = s.changeFacts(func(tx *Tx) error {
		var taken []*token.Key
		added = nil // PostgreSQL may have this done again
		for _, k := range fresh {
			known, retired, err := tx.KnownKey(k)
			if err != nil {
				return err
			}
			if retired {
				continue
			}
			taken, added = append(taken, k), append(added, k.Number)
			if known {
				continue
			}
			if err := tx.PutMeta(engine.MetaKey+strconv.Itoa(k.Number), k.Fingerprint()); err != nil {
				return err
			}
			if err := tx.Journal(Event{Kind: journal.KeyChanged, Detail: fmt.Sprintf("key %d added", k.Number)}.By(act)); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() {
			if err := ring.Add(taken...); err != nil {
				s.db.Log.Error("a key was not added", "err", err)
			}
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.db.Engine.SyncKeys(ctx); err != nil { // who rotates next need not wait for the next beat
		s.db.Log.Warn("other nodes hear of the key in a while", "err", err)
	}
	return added, nil
}

// lacking refuses to seal with a key that not every node can open.
type lacking struct{ key, nodes int }

func (e *lacking) Error() string {
	return fmt.Sprintf("key %d is not on every node that lives: %d without it", e.key, e.nodes)
}

func (*lacking) Is(err error) bool { return err == ErrNotAllowed }

// without reports how many of the nodes that live lack a key.
func (s *Store) without(ctx context.Context, key int) (n int, err error) {
	nodes, err := s.Nodes(ctx)
	for _, at := range nodes {
		if at.Key < key && !at.Self {
			n++
		}
	}
	return n, err
}

// RotateKeys lets the newest key seal, and gives its number. ErrNotAllowed: a
// node that lives does not have it yet; the error says how many. kept, where it is not nil,
// is asked whether the next start will have the key, and its error is given as it is.
func (s *Store) RotateKeys(ctx context.Context, act Act, kept func(*token.Key) error) (int, error) {
	ring, newest := s.db.Options.Ring, engine.NewestKey(s.db.Options.Ring)
	if newest == ring.Sealing() {
		return newest, nil
	}
	if kept != nil {
		keys := ring.Keys()
		if err := kept(keys[slices.IndexFunc(keys, func(k *token.Key) bool { return k.Number == newest })]); err != nil {
			return newest, err
		}
	}
	if n, err := s.without(ctx, newest); err != nil {
		return newest, err
	} else if n > 0 {
		return newest, &lacking{newest, n}
	}
	return newest, s.changeFacts(func(tx *Tx) error {
		if err := tx.PutMeta(engine.MetaSealing, strconv.Itoa(newest)); err != nil {
			return err
		}
		if err := tx.Journal(Event{Kind: journal.KeyChanged, Detail: fmt.Sprintf("key %d seals", newest)}.By(act)); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			if err := ring.Seal(newest); err != nil {
				s.db.Log.Error("the newest key does not seal", "err", err)
			}
		})
		return nil
	})
}

// RetireKey ends the approvals whose current refresh token the key sealed, and
// takes it out of use for good: what it sealed opens no more. It gives how
// many ended, and does all of it, whoever waits: a key that leaked is not left in use.
// ErrNotFound: there is no such key. ErrNotAllowed: it seals.
func (s *Store) RetireKey(ctx context.Context, number int, act Act) (ended int, err error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(keys, func(k Key) bool { return k.Number == number })
	switch {
	case at < 0:
		return 0, fmt.Errorf("key %d: %w", number, ErrNotFound)
	case keys[at].Retired:
		return 0, nil
	case keys[at].Seals:
		return 0, fmt.Errorf("key %d seals: %w", number, ErrNotAllowed)
	}
	if ended, err = s.endSealedBy(context.WithoutCancel(ctx), number, act); err != nil {
		return ended, err
	}
	return ended, s.changeFacts(func(tx *Tx) error {
		value, err := tx.Meta(engine.MetaKey + strconv.Itoa(number))
		if err != nil {
			return err
		}
		if err := tx.PutMeta(engine.MetaRetired+strconv.Itoa(number), value); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM meta WHERE name = $1`, engine.MetaKey+strconv.Itoa(number)); err != nil {
			return err
		}
		if err := tx.Journal(Event{Kind: journal.KeyChanged, Detail: fmt.Sprintf("key %d retired, approvals ended: %d", number, ended)}.By(act)); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			if err := s.db.Options.Ring.Drop(number); err != nil {
				s.db.Log.Error("a retired key is in use", "err", err)
			}
		})
		return nil
	})
}

// endSealedBy ends approvals in batches, until there are none: one that is
// refreshed meanwhile is sealed by another key then, and lives.
func (s *Store) endSealedBy(ctx context.Context, number int, act Act) (ended int, err error) {
	for {
		ids, err := s.sealedBy(ctx, number)
		if err != nil || len(ids) == 0 {
			return ended, err
		}
		for batch := range slices.Chunk(ids, query.Batch) {
			n, err := s.MoveBatch(batch, retire(number, s.Now()), act)
			if ended += n; err != nil {
				return ended, err
			}
		}
	}
}

// retire ends an approval whose current refresh token a key sealed.
func retire(number int, now time.Time) approval.Move {
	end := approval.End(approval.KeyRetired, now)
	return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
		if a.State.Key != number {
			return a.State, approval.OK
		}
		return end(a, s)
	}
}

func (s *Store) sealedBy(ctx context.Context, number int) ([]approval.ID, error) {
	ids, err := engine.ApprovalIDs(s.db.Reader.QueryContext(ctx, `SELECT id FROM approval WHERE key_number = $1 AND phase = $2`, number, int(approval.Live)))
	return ids, engine.Unavailable("keys", err)
}
