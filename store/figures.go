package store

import (
	"context"
	"errors"
	"os"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
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
	if s.shared != nil {
		var err error
		if f.Live, err = s.shared.live(ctx); err != nil {
			return f, err
		}
	}
	m, now := s.memory, s.Now()
	m.eachCached(func(_ approval.ID, h *cachedApproval) {
		if h.phase == approval.Live && !h.lost() {
			f.Live++
		}
	})
	m.mu.RLock()
	defer m.mu.RUnlock()
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
	out, err := readSchema(ctx, s.reader)
	if err != nil {
		return out, unavailable("schema", err)
	}
	return out, out.works()
}

// Size is how many bytes the database takes, with its log of writes; 0 in
// memory.
func (s *Store) Size() (bytes int64) {
	if s.shared != nil {
		return s.shared.size()
	}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.options.Path + suffix); err == nil && s.options.Path != "" {
			bytes += info.Size()
		}
	}
	return bytes
}

// Integrity reads through the database until ctx ends, and reports whether it
// came to the end. An error says what is damaged. PostgreSQL is left to its own
// pg_amcheck.
func (s *Store) Integrity(ctx context.Context) (whole bool, err error) {
	if s.shared != nil {
		return false, nil
	}
	var said string
	err = s.reader.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		return false, unavailable("integrity", err)
	case said != "ok":
		return false, errors.New("the database is damaged: " + said)
	}
	return true, nil
}
