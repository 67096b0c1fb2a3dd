package api

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

const askedEvery = 1500 * time.Millisecond // of the 2 s in which what has ended is cut (decision V15)

// ErrManyOfOne is one stream, or more in memory, than an approval or API key may have.
var ErrManyOfOne = &Fault{Status: http.StatusTooManyRequests, Code: "too_many_streams", Description: "This client has as many requests under way, or such large ones, as it may have at once. End some first."}

var (
	errMany     = &Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server has as many requests under way as it takes, or takes of one organization. Try again."}
	errDraining = &Fault{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "The server is stopping. Try again."}
)

// Streams are requests to services that are under way, with their answers. While any is
// watched, one question each 1.5 s is about the rights of all of them. Its fields do not
// change once one has entered; 0 bounds nothing.
type Streams struct {
	API       *Server
	Most      int           // on this node
	OfOne     int           // of one approval or API key
	Held      int           // bytes of bodies in memory, on this node
	HeldOfOne int           // of one approval or API key
	Every     time.Duration // between two questions; 0 is 1.5 s

	mu       sync.Mutex
	open     map[*Stream]struct{}
	of       map[string]share // by credential, and by "organization " and its ID
	all      share
	watching bool
	draining bool
}

// share is what is in use by somebody.
type share struct{ streams, held int }

func (s share) add(streams, held int) share { return share{s.streams + streams, s.held + held} }

func (s share) beyond(streams, held int) bool {
	return streams > 0 && s.streams > streams || held > 0 && s.held > held
}

// leftTo is how many times what it leaves free one organization may use, of streams and of
// bytes (decision V15): whoever fills a node fills it for their own, and others still enter.
const leftTo = 9

// Stream is one of them. Its right is asked for from [Streams.Watch] on, when all that
// is public is set.
type Stream struct {
	Told    Rights
	Same    bool        // the right has to be the same (see [Server.Still])
	Endless bool        // nothing but the client's wish ends it
	Cut     func(error) // ends it, from another goroutine; must not wait

	who     [2]string // of [Streams.of]: the credential, and its organization
	held    int
	watched bool
}

// Enter lets one more of an actor be under way, until End. The error is [ErrManyOfOne] or
// another fault.
func (s *Streams) Enter(x *Stream, who Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.who = [2]string{who.Credential(), "organization " + who.Organization}
	if err := s.take(x.who, 1, 0); err != nil {
		return err
	}
	if s.open == nil {
		s.open = map[*Stream]struct{}{}
	}
	s.open[x] = struct{}{}
	return nil
}

// Hold lets so many bytes more of one that has entered be in memory, until End. The errors
// are Enter's.
func (s *Streams) Hold(x *Stream, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.take(x.who, 0, bytes)
	if err == nil {
		x.held += bytes
	}
	return err
}

func (s *Streams) take(who [2]string, streams, held int) error {
	all, organization := s.all.add(streams, held), s.of[who[1]]
	switch {
	case s.of[who[0]].add(streams, held).beyond(s.OfOne, s.HeldOfOne):
		return ErrManyOfOne
	case all.beyond(s.Most, s.Held),
		s.Most > 0 && streams > 0 && organization.streams > leftTo*(s.Most-s.all.streams),
		s.Held > 0 && held > 0 && organization.held > leftTo*(s.Held-s.all.held):
		return errMany
	}
	s.use(who, streams, held)
	return nil
}

// use counts what is in use from now on, or no more.
func (s *Streams) use(who [2]string, streams, held int) {
	if s.of == nil {
		s.of = map[string]share{}
	}
	s.all = s.all.add(streams, held)
	for _, one := range who {
		if s.of[one] = s.of[one].add(streams, held); s.of[one].streams == 0 {
			delete(s.of, one)
		}
	}
}

// Watch cuts one that has entered once its right has ended.
func (s *Streams) Watch(x *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.watched = true
	if s.draining && x.Endless {
		x.Cut(errDraining)
	}
	if !s.watching {
		s.watching = true
		go s.watch()
	}
}

// End is harmless of one that has not entered.
func (s *Streams) End(x *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, entered := s.open[x]; !entered {
		return
	}
	delete(s.open, x)
	s.use(x.who, -1, -x.held)
}

// Watched reports whether any is open, or was when the rights were asked last.
func (s *Streams) Watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watching || len(s.open)+len(s.of) > 0 || s.all != share{}
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

// now gives those that are watched; nil, and there is no watch any more, when none is.
func (s *Streams) now() (all []*Stream, told []Rights, same []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.open {
		if x.watched {
			all, told, same = append(all, x), append(told, x.Told), append(same, x.Same)
		}
	}
	s.watching = len(all) > 0
	return all, told, same
}

// Drain ends the streams that would last as long as their clients want, and those of
// them that begin later.
func (s *Streams) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for x := range s.open {
		if x.watched && x.Endless {
			x.Cut(errDraining)
		}
	}
}
