package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// newMetrics gives the metrics of this process, which stand at zero.
func newMetrics(v operator.Version, now func() time.Time) *metrics.Metrics {
	return metrics.New(metrics.Build{Version: v.Version, Commit: v.Commit, Go: v.Go}, now)
}

// journaled counts what the journal tells, and tells others that are not nil.
// Whatever ended an approval of a drill, it is counted as that: alerts are for
// the rest.
func journaled(m *metrics.Metrics, others ...func(store.Event)) func(store.Event) {
	return func(e store.Event) {
		reason := e.Reason
		if e.Kind == journal.ApprovalEnded && client.Drill(e.Client) {
			reason = "drill"
		}
		m.Journaled(e.Kind, reason, e.Detail)
		for _, tell := range others {
			if tell != nil {
				tell(e)
			}
		}
	}
}

// countChecks counts how credentials were found.
func countChecks(m *metrics.Metrics) func(api.Result) {
	return func(r api.Result) { m.Check(string(r)) }
}

// swept counts what was deleted because its time was over.
func swept(m *metrics.Metrics) func(store.Swept) {
	return func(s store.Swept) {
		for kind, n := range map[string]int{"client": s.Clients, "approval": s.Approvals, "session": s.Sessions, "reset": s.Resets, "event": s.Events, "activity": s.Activity} {
			m.Deleted(kind, n)
		}
	}
}

// countPages counts what the door for people tells.
func countPages(m *metrics.Metrics) func(endpoint, result string) {
	return func(endpoint, result string) {
		if endpoint == "signin" {
			m.SignIn(result)
			return
		}
		m.Limited(endpoint)
	}
}

// gauges is how things stand. With an error, only Ready is right.
func (s *Server) gauges(ctx context.Context) (metrics.Gauges, error) {
	kept := s.activity.Figures()
	g := metrics.Gauges{LimiterAway: s.limits.Away(), ActivityRecorded: kept.Recorded, ActivityCounted: kept.Counted, ActivityLost: kept.Lost, ActivityWaiting: kept.Waiting}
	if err := s.store.Ready(ctx); err != nil {
		return g, err
	}
	schema, err := s.store.Schema(ctx)
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return g, err
	}
	g.Ready, g.Schema = !s.draining.Load() && err == nil, schema.Version
	f, err := s.store.Figures(ctx)
	if err != nil {
		return g, fmt.Errorf("figures: %w", err)
	}
	g.Approvals, g.Clients = f.Live, f.Clients
	at, err := s.store.LastBackup(ctx)
	if err != nil {
		return g, err
	}
	if !at.IsZero() {
		g.LastBackup = at.Unix()
	}
	newest, err := s.store.Anchor(ctx)
	if err != nil {
		return g, err
	}
	g.JournalBlocks, g.JournalSealed = newest.Number, newest.At
	if told := s.anchored.Load(); told != nil {
		g.JournalAnchor = told.String()
	}
	return g, nil
}
