package server

import (
	"context"
	"time"
)

// How often the nodes are counted, and how often it is said that each of several
// counts rate limits for itself.
const (
	countNodesEvery = 10 * time.Second
	warnAgainEvery  = time.Hour
)

// watchNodes warns, loudly and again, while several nodes work on the database and
// each counts rate limits in its own memory: then the contract's limits do not hold
// in the sum (decision L1).
func (s *Server) watchNodes(ctx context.Context) {
	if s.limits != nil {
		return
	}
	t := time.NewTicker(countNodesEvery)
	defer t.Stop()
	var warned time.Time
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		n := s.store.LiveNodes()
		if n > 1 && time.Since(warned) >= warnAgainEvery {
			s.log.Warn("several nodes count rate limits each for itself: clients get a multiple of the contract's limits; set limiter.url on every node", "nodes", n)
			warned = time.Now()
		}
	}
}
