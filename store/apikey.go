package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// APIKey gives the member that an API key acts as (decision B6), exactly as it
// stands, or ErrNotFound.
func (s *Store) APIKey(ctx context.Context, key string) (org.Member, error) {
	a, err := s.CheckAPIKeyNow(ctx, IdentifyAPIKey(key))
	return a.Member(), err
}

// putAPIKeys adds API keys. One that is there is given another name at most: it stays its
// member's, and ended if it has ended with the membership or the person (decision B6).
// ErrConflict: it is another member's, or comes twice.
func (tx *Tx) putAPIKeys(all []directory.APIKey) error {
	m, now, rows, seen := tx.Memory, tx.Env.Now().Unix(), make([][]any, len(all)), map[[32]byte]bool{}
	for i, k := range all {
		to := facts.APIKeyChange{Hash: sha256.Sum256([]byte(k.Key)), APIKey: facts.APIKey{MemberKey: facts.MemberKey{Person: k.Person, Organization: k.Organization}}}
		if at := m.People.Get(k.Person); at != nil {
			to.PersonEpoch = at.Epoch
		}
		if at := m.Members.Get(to.MemberKey); at != nil {
			to.MembershipEpoch = at.Epoch
		}
		if seen[to.Hash] {
			return fmt.Errorf("API key of %s in %s: it comes twice: %w", k.Person, k.Organization, ErrConflict)
		}
		seen[to.Hash] = true
		if at, there := m.APIKeys[to.Hash]; !there {
			tx.Put(to)
		} else if at.MemberKey != to.MemberKey {
			return fmt.Errorf("API key of %s in %s: it is another member's: %w", k.Person, k.Organization, ErrConflict)
		}
		rows[i] = []any{to.Hash[:], k.Person, k.Organization, k.Name, now, to.MembershipEpoch, to.PersonEpoch}
	}
	return query.Insert(tx.Tx, query.Builder{
		Text: `INSERT INTO api_key (hash, person, organization, name, created_at, membership_epoch, person_epoch)`,
		End:  ` ON CONFLICT (hash) DO UPDATE SET name = excluded.name`,
	}, rows)
}

// ReplaceAPIKeys gives new keys to members: each takes the place of those that
// the member has under the same name. Who has none that stands gets none, since
// nothing brings an ended key back (decision B6). It gives those that were put. ErrConflict:
// one of the keys is there already, or comes twice.
func (s *Store) ReplaceAPIKeys(ctx context.Context, keys []directory.APIKey, act Act) (put []directory.APIKey, err error) {
	standing, err := s.exportKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if slices.Contains(standing, directory.APIKey{Person: k.Person, Organization: k.Organization, Name: k.Name}) {
			put = append(put, k)
		}
	}
	if len(put) == 0 {
		return nil, nil
	}
	return put, s.changeFacts(func(tx *Tx) error {
		if err := tx.removeAPIKeys(put); err != nil {
			return err
		}
		if err := tx.putAPIKeys(put); err != nil {
			return err
		}
		return tx.Changed("", "", fmt.Sprintf("api_keys: %d replaced", len(put)), act)
	})
}

// removeAPIKeys takes from members the keys that they have under the names of others, which
// are to come in their place.
func (tx *Tx) removeAPIKeys(all []directory.APIKey) error {
	for _, k := range all {
		if _, there := tx.Memory.APIKeys[sha256.Sum256([]byte(k.Key))]; there {
			return fmt.Errorf("API key of %s in %s: it is there already: %w", k.Person, k.Organization, ErrConflict)
		}
		old, err := engine.Column[[]byte](tx.Query(`DELETE FROM api_key WHERE person = $1 AND organization = $2 AND name = $3 RETURNING hash`,
			k.Person, k.Organization, k.Name))
		if err != nil {
			return err
		}
		for _, hash := range old {
			tx.Put(facts.APIKeyGone(hash))
		}
	}
	return nil
}

// exportKeys lists the API keys that have not ended.
func (s *Store) exportKeys(ctx context.Context) ([]directory.APIKey, error) {
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT DISTINCT k.person, k.organization, k.name FROM api_key k
		  JOIN person p ON p.id = k.person AND p.epoch = k.person_epoch
		  JOIN membership m ON m.person = k.person AND m.organization = k.organization AND m.epoch = k.membership_epoch
		 ORDER BY k.organization, k.person, k.name`)
	out, err := engine.ListOf(rows, err, func(r engine.Scanner, k *directory.APIKey) error {
		return r.Scan(&k.Person, &k.Organization, &k.Name)
	})
	return out, engine.Unavailable("API keys", err)
}
