package main

import (
	"context"
	"time"
)

// watchUnnamed says, once an hour until ctx ends, which calls were denied because
// no rule names them (decision V30).
func (h *house) watchUnnamed(ctx context.Context) {
	t := time.NewTicker(warnAgainEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.tellUnnamed()
		case <-ctx.Done():
			return
		}
	}
}

// mostTold bounds how many lines one hour gives.
const mostTold = 20

func (h *house) tellUnnamed() {
	all := h.unnamed.News()
	for _, one := range all[:min(len(all), mostTold)] {
		h.log.Warn("calls to the service were denied because no rule names them", "count", one.Count, "rule", one.Rule)
	}
	if rest := len(all) - mostTold; rest > 0 {
		h.log.Warn("more calls were denied because no rule names them: ask grantkeeper doctor", "kinds", rest)
	}
}
