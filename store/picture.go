package store

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/directory"
)

// Picture gives the picture of an organization as it is now, or ErrNotFound.
func (s *Store) Picture(ctx context.Context, organization string) (directory.Picture, error) {
	if err := s.fresh(ctx); err != nil {
		return directory.Picture{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[organization]
	if at == nil {
		return directory.Picture{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return directory.PictureOf(at), nil
}

// unlike refuses an event whose sender decided by another picture than the one
// that it would change (decision V42).
func (tx *Tx) unlike(e directory.Event) error {
	if e.Like == nil {
		return nil
	}
	var p directory.Picture
	if o := tx.Memory.Orgs[e.In(&tx.Memory.Facts)]; o != nil {
		p = directory.PictureOf(o)
	}
	if !e.Like(p) {
		return ErrChanged
	}
	return nil
}
