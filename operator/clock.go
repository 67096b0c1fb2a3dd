package operator

import (
	"context"
	"net/http"
	"time"
)

// A ClockMove changes dev's clock, so that tests need no sleep.
type ClockMove struct {
	// By is added to the machine's clock. It may be negative: that sets the clock
	// back, and the server's time does not follow (decision T12).
	By time.Duration
	// Stop stops the clock, or starts it again at the time of the stop; nil
	// changes nothing.
	Stop *bool
}

// ClockState is the state of dev's clock.
type ClockState struct {
	Ahead   time.Duration // of the machine's clock: the sum of all moves
	Stopped bool
}

// MaxAhead bounds one move of dev's clock, and their sum.
const MaxAhead = 100 * 365 * 24 * time.Hour

// ErrAhead refuses a move beyond MaxAhead.
var ErrAhead = BadRequest("advance_seconds: a hundred years at most, in all")

type clockBody struct {
	reasonBody
	Seconds *int64 `json:"advance_seconds"`
	Stopped *bool  `json:"stopped"`
}

type clockObject struct {
	ID      string `json:"id"`              // always "clock"
	Now     int64  `json:"now"`             // the time of every decision, Unix seconds; it never goes back (decision T12)
	Advance int64  `json:"advance_seconds"` // the sum of all moves of the machine's clock
	Stopped bool   `json:"stopped"`
}

// readClock returns the state of dev's clock.
func (s *Server) readClock(c Call) (any, error) { return s.clock(c.Context(), ClockMove{}) }

// moveClock moves, stops or starts dev's clock.
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
