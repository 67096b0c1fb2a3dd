package server

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/journal/chain"
)

// sealEvery is how often the entries of the journal that are in no block are put into
// one (decision J4).
const sealEvery = time.Minute

// sealing seals the journal, now and every minute, until ctx ends. On PostgreSQL one
// node does it for all.
func (s *Server) sealing(ctx context.Context) {
	t := time.NewTicker(sealEvery)
	defer t.Stop()
	a := anchors{every: time.Duration(s.Journal.AnchorEvery), quiet: s.options.Dev != nil}
	for {
		s.seal(ctx, &a, time.Now())
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// anchors is what was told of the newest block.
type anchors struct {
	every time.Duration // 0 tells nothing
	quiet bool          // not in the log

	newest, told chain.Anchor
	at           time.Time // of told
}

func (s *Server) seal(ctx context.Context, a *anchors, now time.Time) {
	sealed, err := s.store.Seal(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the journal's entries cannot be sealed", "err", err)
	}
	if err != nil || !sealed.Mine {
		return
	}
	is := sealed.Newest
	if is.Number < a.newest.Number || is.Number == a.newest.Number && is != a.newest {
		s.log.Error("the journal does not have the blocks that it had: a backup was put back, or somebody has changed them", "had", a.newest.String(), "has", is.String())
	}
	a.newest = is
	if a.every > 0 && is.Number > 0 && is != a.told && (a.at.IsZero() || now.Sub(a.at) >= a.every) {
		a.told, a.at = is, now
		s.anchored.Store(&is)
		if !a.quiet {
			s.log.Info("the journal's anchor", "anchor", is.String(), "block", is.Number, "entries", is.Total)
		}
	}
}
