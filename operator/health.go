package operator

import (
	"context"
	"net/http"
	"time"
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
}

// ready says whether requests can be sent here: the database answers a write,
// and the process is not about to end.
func (s *Server) ready(c call) (any, error) {
	missing := []string{}
	if s.Draining != nil && s.Draining() {
		missing = append(missing, "the server is draining")
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyWithin)
	defer cancel()
	if err := s.Store.Ready(ctx); err != nil {
		s.Log.WarnContext(c.Context(), "not ready", "request_id", c.reference, "err", err)
		missing = append(missing, "the database does not answer a write")
	}
	if len(missing) > 0 {
		return answerAs{http.StatusServiceUnavailable, notReady{"not ready", missing}}, nil
	}
	return status{"ok"}, nil
}

func (s *Server) version(call) (any, error) { return s.Version, nil }

// maxAdvance bounds one move of dev's clock, and all of them together.
const maxAdvance = 100 * 365 * 24 * time.Hour

type advancing struct {
	reasoned
	Seconds *int64 `json:"advance_seconds"`
}

// clockObject is where the server's clock stands.
type clockObject struct {
	ID      string `json:"id"`              // always "clock"
	Now     int64  `json:"now"`             // the time of every decision, Unix seconds; it never goes back (decision T12)
	Advance int64  `json:"advance_seconds"` // how far the machine's clock has been moved, in all
}

// clock tells the time under dev.
func (s *Server) clock(c call) (any, error) { return s.moveClock(c, 0) }

// advance moves dev's clock, so that a test need not wait for what takes time.
// A negative move sets the machine's clock back, which the server's time does
// not follow (decision T12).
func (s *Server) advance(c call) (any, error) {
	var body advancing
	if err := decode(c, &body, maxBody); err != nil {
		return nil, err
	}
	most := int64(maxAdvance / time.Second)
	if body.Seconds == nil || *body.Seconds < -most || *body.Seconds > most {
		return nil, badRequest("advance_seconds: a number of seconds, a hundred years at most")
	}
	return s.moveClock(c, time.Duration(*body.Seconds)*time.Second)
}

func (s *Server) moveClock(c call, by time.Duration) (any, error) {
	if s.Advance == nil {
		return nil, &Error{http.StatusNotFound, "not_found", "only grantkeeper dev has a clock that moves"}
	}
	total, err := s.Advance(c.Context(), by)
	if err != nil {
		return nil, err
	}
	return clockObject{"clock", s.Store.Now().Unix(), int64(total / time.Second)}, nil
}
