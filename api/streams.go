package api

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// MaxOfOne is how many streams one approval or API key has.
	MaxOfOne   = 64                      // (decision V15)
	askedEvery = 1500 * time.Millisecond // of the 2 s in which what has ended is cut (decision V15)
)

// ErrManyOfOne is one stream more than an approval or API key may have.
var ErrManyOfOne = &Fault{Status: http.StatusTooManyRequests, Code: "too_many_streams", Description: "This client has as many requests under way as it may have at once: 64. End some first."}

var (
	errMany     = &Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server has as many requests under way as it takes. Try again."}
	errDraining = &Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server is stopping. Try again."}
)

// Streams are answers under way. While there are any, one question each 1.5 s is
// about the rights of all of them.
type Streams struct {
	API   *Server
	Most  int           // on this node, with [MaxOfOne] of each credential; 0 bounds neither
	Every time.Duration // between two questions; 0 is 1.5 s

	mu       sync.Mutex
	open     map[*Stream]struct{}
	of       map[string]int // by credential
	watching bool
	draining bool
}

// Stream is one of them. Its right is asked for as long as it lasts.
type Stream struct {
	Told    Rights
	Same    bool        // the right has to be the same (see [Server.Still])
	Endless bool        // nothing but the client's wish ends it
	Cut     func(error) // ends it, from another goroutine; must not wait
}

// Begin lets one more be under way, until End. The error is [ErrManyOfOne] or
// another fault.
func (s *Streams) Begin(x *Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := x.Told.Credential()
	switch {
	case s.Most > 0 && s.of[who] >= MaxOfOne:
		return ErrManyOfOne
	case s.Most > 0 && len(s.open) >= s.Most:
		return errMany
	case s.open == nil:
		s.open, s.of = map[*Stream]struct{}{}, map[string]int{}
	}
	s.open[x] = struct{}{}
	s.of[who]++
	if s.draining && x.Endless {
		x.Cut(errDraining)
	}
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	return nil
}

// End is harmless of one that did not begin.
func (s *Streams) End(x *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, began := s.open[x]; !began {
		return
	}
	delete(s.open, x)
	who := x.Told.Credential()
	if s.of[who]--; s.of[who] == 0 {
		delete(s.of, who)
	}
}

// Watched reports whether any is open, or was when the rights were asked last.
func (s *Streams) Watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watching || len(s.open)+len(s.of) > 0
}

// watch ends the streams whose right has ended, until none is open.
func (s *Streams) watch() {
	t := time.NewTicker(cmp.Or(s.Every, askedEvery))
	defer t.Stop()
	for range t.C {
		all, told, same := s.now()
		if all == nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		for i, err := range s.API.StillAll(ctx, told, same) {
			if err == ErrEnded || err == ErrChanged { // while the database is away, nothing passes either
				all[i].Cut(err)
			}
		}
		stop()
	}
}

// now gives those that are open; nil, and there is no watch any more, when none is.
func (s *Streams) now() (all []*Stream, told []Rights, same []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		s.watching = false
		return nil, nil, nil
	}
	for x := range s.open {
		all, told, same = append(all, x), append(told, x.Told), append(same, x.Same)
	}
	return all, told, same
}

// Drain ends the streams that would last as long as their clients want, and those of
// them that begin later.
func (s *Streams) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for x := range s.open {
		if x.Endless {
			x.Cut(errDraining)
		}
	}
}
