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

type status struct {
	Status string `json:"status"`
}

// live says that the process answers.
func (s *Server) live(call) (any, error) { return status{"ok"}, nil }

// notReady is the 503 of /readyz: what is missing, in words.
type notReady struct {
	Status  string   `json:"status"`
	Missing []string `json:"missing"`

	Reference string `json:"reference"`
}

// ready says whether requests can be sent here: the database answers a write
// and has the schema of this release, and the process is not about to end.
func (s *Server) ready(c call) (any, error) {
	if missing := s.missing(c); len(missing) > 0 {
		return answerAs{http.StatusServiceUnavailable, notReady{"not ready", missing, c.reference}}, nil
	}
	return status{"ok"}, nil
}

// missing says what there is not for being ready, in words.
func (s *Server) missing(c call) []string {
	missing := []string{}
	if s.Draining != nil && s.Draining() {
		missing = append(missing, "the server is draining")
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyWithin)
	defer cancel()
	if err := s.Store.Ready(ctx); err != nil {
		s.Log.WarnContext(c.Context(), "not ready", "request_id", c.reference, "err", err)
		text := "the database does not answer a write"
		if why := s.Store.WhyNot(err); why != "" {
			text += ": " + why
		}
		missing = append(missing, text)
	} else if schema, err := s.Store.Schema(ctx); err != nil {
		s.Log.WarnContext(c.Context(), "not ready", "request_id", c.reference, "schema", schema.Version, "err", err)
		missing = append(missing, "the schema of the database is not one that this release works on")
	} else if err := s.Store.Opens(); err != nil {
		missing = append(missing, strings.TrimSuffix(err.Error(), ": "+store.ErrUnavailable.Error()))
	}
	return missing
}

func (s *Server) version(call) (any, error) { return s.Version, nil }
