package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// AddPerson adds a person, with the PHC string of a password or "". Somebody
// who has email and name already is given as they are; ErrConflict: ID or
// email are another's.
func (s *Store) AddPerson(_ context.Context, p org.Person, hash string, act Act) (org.Person, error) {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		if at := m.byEmail[strings.ToLower(p.Email)]; at != nil && at.Name == p.Name {
			p = at.Person
			return nil, nil
		} else if at != nil || m.people[p.ID] != nil {
			return nil, fmt.Errorf("person: %w", ErrConflict)
		}
		after, err := w.putPerson(p)
		if err != nil {
			return nil, err
		}
		if hash != "" {
			if err := w.putPassword(p.ID, hash); err != nil {
				return nil, err
			}
		}
		return after, w.changed(p.ID, "", "person added", act)
	})
	return p, err
}
