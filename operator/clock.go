package operator

import (
	"context"
	"net/http"
	"time"
)

// A ClockMove is what dev's clock is told, so that a test need not wait for
// what takes time.
type ClockMove struct {
	// By may be negative: the machine's clock is then set back, which the
	// server's time does not follow (decision T12).
	By time.Duration
	// Stop lets the clock stand still, or go again from where it stood; nil
	// leaves it as it is.
	Stop *bool
}

// ClockState is where dev's clock stands.
type ClockState struct {
	Ahead   time.Duration // of the machine's clock, in all
	Stopped bool
}

// MaxAhead bounds one move of dev's clock, and all of them together.
const MaxAhead = 100 * 365 * 24 * time.Hour

// ErrAhead refuses a move that leads beyond MaxAhead.
var ErrAhead = BadRequest("advance_seconds: a hundred years at most, in all")

type clockBody struct {
	reasonBody
	Seconds *int64 `json:"advance_seconds"`
	Stopped *bool  `json:"stopped"`
}

type clockObject struct {
	ID      string `json:"id"`              // always "clock"
	Now     int64  `json:"now"`             // the time of every decision, Unix seconds; it never goes back (decision T12)
	Advance int64  `json:"advance_seconds"` // how far the machine's clock has been moved, in all
	Stopped bool   `json:"stopped"`
}

// readClock tells the time under dev.
func (s *Server) readClock(c Call) (any, error) { return s.clock(c.Context(), ClockMove{}) }

// moveClock moves dev's clock, stops it or lets it go.
func (s *Server) moveClock(c Call, body clockBody) (any, error) {
	if body.Seconds == nil && body.Stopped == nil {
		return nil, BadRequest("advance_seconds or stopped: both are missing")
	}
	m := ClockMove{Stop: body.Stopped}
	if body.Seconds != nil {
		if most := int64(MaxAhead / time.Second); *body.Seconds < -most || *body.Seconds > most {
			return nil, ErrAhead
		}
		m.By = time.Duration(*body.Seconds) * time.Second
	}
	return s.clock(c.Context(), m)
}

func (s *Server) clock(ctx context.Context, m ClockMove) (any, error) {
	if s.Clock == nil {
		return nil, &Error{http.StatusNotFound, "not_found", "only grantkeeper dev has a clock that moves"}
	}
	state, err := s.Clock(ctx, m)
	return clockObject{"clock", s.Store.Now().Unix(), int64(state.Ahead / time.Second), state.Stopped}, err
}
