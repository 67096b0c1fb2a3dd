package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// Figures are how much there is at a moment.
type Figures struct {
	Live    int            // approvals that have not ended and whose code was exchanged
	Clients map[string]int // that are known, by the states of ClientFilter
}

// Figures counts. It takes milliseconds with a million approvals, and holds up
// nobody.
func (s *Store) Figures(ctx context.Context) (Figures, error) {
	f := Figures{Clients: map[string]int{"registered": 0, "approved": 0, "disabled": 0, "preregistered": 0}}
	var err error
	if f.Live, err = s.db.Engine.Live(ctx); err != nil {
		return f, err
	}
	m, now := s.db.Memory, s.Now()
	m.RLock()
	defer m.RUnlock()
	for _, c := range m.Clients {
		if c.Known(now) {
			f.Clients[client.Client{Preregistered: c.Preregistered, Approved: c.Approved, Disabled: c.Disabled}.State()]++
		}
	}
	return f, nil
}

// Schema says which schema the database has now, which another process may
// have changed since the start. The error is ErrSchema where this release does
// not work on it any more; what it is is said then too.
func (s *Store) Schema(ctx context.Context) (Schema, error) {
	out, err := schema.Read(ctx, s.db.Reader)
	if err != nil {
		return out, engine.Unavailable("schema", err)
	}
	return out, out.Works()
}

// Size is how many bytes the database takes, with its log of writes; 0 in
// memory.
func (s *Store) Size() (bytes int64) { return s.db.Engine.Size() }

// Integrity reads through the database until ctx ends, and reports whether it
// came to the end. An error says what is damaged. PostgreSQL is left to its own
// pg_amcheck.
func (s *Store) Integrity(ctx context.Context) (whole bool, err error) {
	return s.db.Engine.Integrity(ctx)
}
