package mcp

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
)

// Bounds of what is under way (decision V15).
const (
	MaxStreams    = 10_000                  // of a node, where nothing else is set
	maxOfOne      = 64                      // of one approval or API key
	askedEvery    = 1500 * time.Millisecond // of the 2 s in which what has ended is cut (decision V15)
	outlastsToken = time.Hour               // a call that began in time
)

var (
	errManyOfOne = &api.Fault{Status: http.StatusTooManyRequests, Code: "too_many_streams", Description: "This client has as many requests under way as it may have at once: 64. End some first."}
	errMany      = &api.Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server has as many requests under way as it takes. Try again."}
	errDraining  = &api.Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server is stopping. Try again."}
)

// streams are the requests that the service answers now. While there are any, one
// question each askedEvery is about all of them.
type streams struct {
	api   *api.Server
	most  int
	every time.Duration // 0 is askedEvery; tests make it short

	mu       sync.Mutex
	open     map[*stream]struct{}
	of       map[string]int // by credential
	watching bool
	draining bool
}

// stream is one of them. Its right is asked for as long as it lasts.
type stream struct {
	who    string
	told   api.Rights
	listen bool // nothing but the client's wish ends it
	cut    context.CancelCauseFunc
}

// begin lets one more be under way.
func (s *streams) begin(x *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[x.who] >= maxOfOne:
		return errManyOfOne
	case len(s.open) >= s.most:
		return errMany
	case s.open == nil:
		s.open, s.of = map[*stream]struct{}{}, map[string]int{}
	}
	s.open[x] = struct{}{}
	s.of[x.who]++
	if s.draining && x.listen {
		x.cut(errDraining)
	}
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	return nil
}

func (s *streams) end(x *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x)
	if s.of[x.who]--; s.of[x.who] == 0 {
		delete(s.of, x.who)
	}
}

// watch ends the streams whose right has ended, until none is open.
func (s *streams) watch() {
	t := time.NewTicker(cmp.Or(s.every, askedEvery))
	defer t.Stop()
	for range t.C {
		all, told, same := s.now()
		if all == nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		for i, err := range s.api.StillAll(ctx, told, same) {
			if err == api.ErrEnded || err == api.ErrChanged { // while the database is away, nothing passes either
				all[i].cut(err)
			}
		}
		stop()
	}
}

// now gives those that are open; nil, and there is no watch any more, when none is.
func (s *streams) now() (all []*stream, told []api.Rights, same []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		s.watching = false
		return nil, nil, nil
	}
	for x := range s.open {
		all, told, same = append(all, x), append(told, x.told), append(same, x.listen)
	}
	return all, told, same
}

// drain ends the streams that would last as long as their clients want.
func (s *streams) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for x := range s.open {
		if x.listen {
			x.cut(errDraining)
		}
	}
}
