package engine

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/grantkeeper/grantkeeper/token"
)

// The rows of meta about the secret keys (decision T11). The check value of a
// key moves from key.N to retired.N when it retires, so that its number is
// never given again and its file can lie about.
const (
	MetaKey     = "key."
	MetaRetired = "retired."
	MetaSealing = "sealing" // number of the key that seals; without it, the first one of the file
)

// NewestKey is the highest number of a ring's keys; 0 without a ring.
func NewestKey(ring *token.Ring) (newest int) {
	if ring != nil {
		for _, k := range ring.Keys() {
			newest = max(newest, k.Number)
		}
	}
	return newest
}

// CheckKeys compares the ring with the check values of the keys that this
// database has been used with, and stores those that are new (decision T11).
func (tx *Tx) CheckKeys() error {
	if tx.Env.Options.Ring == nil {
		return nil
	}
	known, err := tx.KeysKnown()
	if err != nil {
		return err
	}
	return tx.compareKeys(known)
}

// KeysKnown gives the check values of the keys, by their names in meta.
func (tx *Tx) KeysKnown() (map[string]string, error) {
	known := map[string]string{}
	rows, err := tx.Query(`SELECT name, value FROM meta WHERE name LIKE 'key.%'`)
	if err := EachRow(rows, err, func(r Scanner) error {
		var name, value string
		err := r.Scan(&name, &value)
		known[name] = value
		return err
	}); err != nil {
		return nil, fmt.Errorf("database: keys: %w", err)
	}
	return known, nil
}

// NewKeys gives the check values of those keys of the ring that the database
// has none of yet, and refuses a ring that is not the database's.
func NewKeys(ring *token.Ring, known map[string]string) (map[string]string, error) {
	added := map[string]string{}
	for _, k := range ring.Keys() {
		name := "key." + strconv.Itoa(k.Number)
		switch known[name] {
		case k.Fingerprint():
		case "":
			added[name] = k.Fingerprint()
		default:
			return nil, fmt.Errorf("key %d: %w", k.Number, ErrKeys)
		}
		delete(known, name)
	}
	for name := range known {
		return nil, fmt.Errorf("%s is missing: %w", name, ErrKeys)
	}
	return added, nil
}

// compareKeys stores nothing of a ring that is refused: the right one would be
// refused from then on.
func (tx *Tx) compareKeys(known map[string]string) error {
	added, err := NewKeys(tx.Env.Options.Ring, known)
	if err != nil {
		return err
	}
	if len(added) == 0 {
		return nil
	}
	for name, value := range added {
		if _, err := tx.Exec(`
			INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, value); err != nil {
			return fmt.Errorf("database: keys: %w", err)
		}
	}
	return tx.CheckKeys() // another node may have been first, with another key
}

// MatchKeyRows lets the ring be as the database has it: the key seals that was
// rotated to, and what is retired is not used, though the file has it still.
func (tx *Tx) MatchKeyRows(ring *token.Ring) error {
	if ring == nil {
		return nil
	}
	var gone []int
	for _, k := range ring.Keys() {
		_, retired, err := tx.KnownKey(k)
		if err != nil {
			return err
		}
		if retired {
			gone = append(gone, k.Number)
		}
	}
	sealing, err := tx.Meta(MetaSealing)
	if n, bad := strconv.Atoi(sealing); err == nil && bad == nil {
		if err := ring.Seal(n); err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
	} else if !errors.Is(err, sql.ErrNoRows) {
		return errors.Join(err, bad)
	}
	for _, n := range gone {
		tx.Env.Log.Warn("a retired key is in the file still, and is not used", "key", n)
		if err := ring.Drop(n); err != nil {
			return fmt.Errorf("key %d is retired: %w", n, ErrKeys)
		}
	}
	return nil
}

// KnownKey compares a key with what the database has under its number.
func (tx *Tx) KnownKey(k *token.Key) (known, retired bool, err error) {
	for _, prefix := range []string{MetaKey, MetaRetired} {
		value, err := tx.Meta(prefix + strconv.Itoa(k.Number))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		} else if err != nil {
			return false, false, err
		}
		if value != k.Fingerprint() {
			return false, false, fmt.Errorf("key %d: %w", k.Number, ErrKeys)
		}
		return prefix == MetaKey, prefix == MetaRetired, nil
	}
	return false, false, nil
}
