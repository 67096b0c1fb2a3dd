package server

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
)

// attemptsEvery is how often what doors have seen of clients is written.
const attemptsEvery = 2 * time.Second

// observe is the Seen of every door: it completes an observation and keeps it in
// memory, where there is room. A machine's address is kept, a person's browser's never.
func (s *Server) observe(address func(*http.Request) netip.Addr) func(*http.Request, attempt.Observation) {
	if s.Attempts.Max == 0 {
		return nil
	}
	return func(r *http.Request, o attempt.Observation) {
		o.At, o.Agent = s.store.Now().UnixMilli(), attempt.AgentOf(r.UserAgent())
		if o.Step < attempt.Authorize || o.Step > attempt.Code {
			o.Address = attempt.AddressOf(address(r))
		}
		if o.Reason != "" {
			s.metrics.Attempt(string(o.Reason))
		}
		s.attempts.Observe(o)
	}
}

// writeAttempts writes what was seen, until ctx ends, and then what is left.
func (s *Server) writeAttempts(ctx context.Context) {
	t := time.NewTicker(attemptsEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.flushAttempts(ctx)
		case <-ctx.Done():
			s.flushAttempts(context.WithoutCancel(ctx))
			return
		}
	}
}

// flushAttempts writes what was seen so far. What cannot be written is lost, and only
// the log says so: nobody waits for it.
func (s *Server) flushAttempts(ctx context.Context) {
	all, counted := s.attempts.Take()
	if len(all) == 0 && len(counted) == 0 {
		return
	}
	if err := s.store.AddAttempts(ctx, all, counted); err != nil {
		s.log.Warn("attempts to connect cannot be written and are lost", "attempts", len(all), "err", err)
	}
}
