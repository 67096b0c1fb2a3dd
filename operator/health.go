package operator

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// readyWithin bounds how long /readyz waits for the database.
const readyWithin = 3 * time.Second

type healthObject struct {
	Status string `json:"status"`
}

// live answers /livez: the process is there.
func (s *Server) live(Call) (any, error) { return healthObject{"ok"}, nil }

// notReady is the body of the 503 of /readyz: what is missing, in words.
type notReady struct {
	Status  string   `json:"status"`
	Missing []string `json:"missing"`

	Reference string `json:"reference"`
}

// ready answers /readyz: the database takes a write and has the schema of this
// release, and the process is not draining.
func (s *Server) ready(c Call) (any, error) {
	if missing := s.Missing(c); len(missing) > 0 {
		return withStatus{http.StatusServiceUnavailable, notReady{"not ready", missing, c.Reference}}, nil
	}
	return healthObject{"ok"}, nil
}

// Missing says in words what keeps the process from being ready; empty is ready. It
// makes the database write.
func (s *Server) Missing(c Call) []string {
	missing := []string{}
	if s.Draining != nil && s.Draining() {
		missing = append(missing, "the server is draining")
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyWithin)
	defer cancel()
	if err := s.Store.Ready(ctx); err != nil {
		s.Log.WarnContext(c.Context(), "not ready", "request_id", c.Reference, "err", err)
		text := "the database does not answer a write"
		if why := s.Store.WhyNot(err); why != "" {
			text += ": " + why
		}
		missing = append(missing, text)
	} else if schema, err := s.Store.Schema(ctx); err != nil {
		s.Log.WarnContext(c.Context(), "not ready", "request_id", c.Reference, "schema", schema.Version, "err", err)
		missing = append(missing, "the schema of the database is not one that this release works on")
	} else if err := s.Store.Opens(); err != nil {
		missing = append(missing, strings.TrimSuffix(err.Error(), ": "+store.ErrUnavailable.Error()))
	}
	return missing
}

func (s *Server) version(Call) (any, error) { return s.Version, nil }
