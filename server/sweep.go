package server

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/store"
)

// sweepEvery is how often what has expired is deleted. Nothing depends on it:
// expiry is asked and never written.
const sweepEvery = time.Minute

// sweeping deletes what has expired, now and every minute, until ctx ends.
func (s *Server) sweeping(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		s.sweep(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// lookAgain asks for the documents of clients that have given up redirect URIs, now and
// once in store.LeavingFor, until ctx ends: what is approved for these ends at the second
// look (decision R8).
func (s *Server) lookAgain(ctx context.Context) {
	t := time.NewTicker(store.LeavingFor)
	defer t.Stop()
	for {
		ids, err := s.store.LeavingClients(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("documents of clients cannot be looked at again", "err", err)
		}
		for _, id := range ids {
			if err := s.page.LookAgain(ctx, id); err != nil && ctx.Err() == nil {
				s.log.Info("a client's document cannot be looked at again", "client", id, "err", err)
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) sweep(ctx context.Context) {
	swept, err := s.store.Sweep(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.Warn("expired rows cannot be deleted", "err", err)
	case swept != store.Swept{}:
		s.log.Info("swept", "clients", swept.Clients, "ended", swept.Ended,
			"approvals", swept.Approvals, "sessions", swept.Sessions, "resets", swept.Resets, "events", swept.Events, "activity", swept.Activity)
	}
}
