package server

import (
	"context"
	"time"
)

// watchUnnamed says, once an hour until ctx ends, which calls were denied because
// no rule names them (decision V30).
func (s *Server) watchUnnamed(ctx context.Context) {
	t := time.NewTicker(warnAgainEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.tellUnnamed()
		case <-ctx.Done():
			return
		}
	}
}

// mostTold bounds how many lines one hour gives.
const mostTold = 20

func (s *Server) tellUnnamed() {
	all := s.unnamed.News()
	for _, one := range all[:min(len(all), mostTold)] {
		s.log.Warn("calls to the service were denied because no rule names them", "count", one.Count, "rule", one.Rule)
	}
	if rest := len(all) - mostTold; rest > 0 {
		s.log.Warn("more calls were denied because no rule names them: ask grantkeeper doctor", "kinds", rest)
	}
}
