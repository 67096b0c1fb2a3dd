package operator

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// readyWithin bounds how long the database may take to answer /readyz.
const readyWithin = 3 * time.Second

type healthObject struct {
	Status string `json:"status"`
}

// live says that the process answers.
func (s *Server) live(Call) (any, error) { return healthObject{"ok"}, nil }

// notReady is the 503 of /readyz: what is missing, in words.
type notReady struct {
	Status  string   `json:"status"`
	Missing []string `json:"missing"`

	Reference string `json:"reference"`
}

// ready says whether requests can be sent here: the database answers a write
// and has the schema of this release, and the process is not about to end.
func (s *Server) ready(c Call) (any, error) {
	if missing := s.Missing(c); len(missing) > 0 {
		return withStatus{http.StatusServiceUnavailable, notReady{"not ready", missing, c.Reference}}, nil
	}
	return healthObject{"ok"}, nil
}

// Missing says what there is not for being ready, in words.
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
