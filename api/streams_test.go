package api_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

// stream is one that tells what it was cut by.
func (h *house) stream(headers ...string) (*api.Stream, chan error) {
	h.t.Helper()
	now, err := h.server.Now(h.t.Context(), h.actor(headers...))
	if err != nil {
		h.t.Fatal(err)
	}
	cut := make(chan error, 1000)
	return &api.Stream{Told: now, Cut: func(err error) { cut <- err }}, cut
}

// So many streams may be under way, and so much of them in memory, of one credential and
// of all; who ends makes room once, and who did not enter makes none.
func TestStreamsAreBounded(t *testing.T) {
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything)
	one, other := h.actor("Authorization", "Bearer "+x.access), h.actor("X-Auth-Token", "key-of-tor-for-tests")
	want := func(err error, want int) {
		t.Helper()
		var f *api.Fault
		if errors.As(err, &f); want == 0 && err != nil || want > 0 && (f == nil || f.Status != want) {
			t.Errorf("%v, want %d", err, want)
		}
	}
	enter := func(s *api.Streams, of api.Actor, status int) *api.Stream {
		t.Helper()
		next := &api.Stream{}
		want(s.Enter(next, of), status)
		return next
	}
	s := &api.Streams{API: h.server, Most: 6, OfOne: 4, Held: 60, HeldOfOne: 40, Every: time.Hour}
	var all []*api.Stream
	for range 4 {
		all = append(all, enter(s, one, 0))
	}
	refused := enter(s, one, 429)
	s.End(refused)
	enter(s, one, 429)
	enter(s, other, 0)
	s.End(all[0])
	s.End(all[0])
	all[0] = enter(s, one, 0)
	enter(s, one, 429)
	last := enter(s, other, 0)
	enter(s, other, 503)

	want(s.Hold(all[0], 30), 0)
	want(s.Hold(all[1], 10), 0)
	want(s.Hold(all[2], 1), 429)
	want(s.Hold(last, 20), 0)
	want(s.Hold(last, 1), 503)
	s.End(all[0])
	want(s.Hold(all[1], 31), 429)
	want(s.Hold(all[1], 30), 0)
	want(s.Hold(last, 1), 503)
	s.End(all[1])
	want(s.Hold(last, 20), 0)
	want(s.Hold(last, 1), 429)
	enter(s, other, 0)

	boundless := &api.Streams{API: h.server, Every: time.Hour}
	boundless.End(&api.Stream{})
	for range 200 {
		want(boundless.Hold(enter(boundless, one, 0), 1<<40), 0)
	}
}

// One organization fills a node only for its own: nine times what it leaves to others, by
// whatever credentials.
func TestStreamsOfOneOrganization(t *testing.T) {
	h := newHouse(t)
	s := &api.Streams{API: h.server, Most: 100, Held: 1000, Every: time.Hour}
	nordlys := []api.Actor{h.actor("X-Auth-Token", "key-of-tor-for-tests"), h.actor("X-Auth-Token", "key-of-ada-for-tests"),
		h.actor("Authorization", "Bearer "+h.live("ada", "nordlys", everything).access)}
	fjell := h.actor("Authorization", "Bearer "+h.live("ada", "fjell", everything).access)
	enter := func(of api.Actor) (*api.Stream, bool) {
		x := &api.Stream{}
		return x, s.Enter(x, of) == nil
	}
	fill := func(of ...api.Actor) (all []*api.Stream) {
		for n := 0; ; n++ {
			x, ok := enter(of[n%len(of)])
			if !ok {
				return all
			}
			all = append(all, x)
		}
	}
	first := fill(nordlys...)
	second := fill(fjell)
	if len(first) != 91 || len(second) != 9 {
		t.Errorf("%d of one, then %d of another", len(first), len(second))
	}
	for range 2 { // who ends makes room for others, and no more than was taken
		for _, x := range first[50:] {
			s.End(x)
		}
	}
	if more := fill(fjell); len(more) != 37 {
		t.Errorf("then %d more of the other", len(more))
	}
	hold := func(x *api.Stream, want int) {
		t.Helper()
		held := 0
		for ; s.Hold(x, 10) == nil; held += 10 {
		}
		if held != want {
			t.Errorf("%d bytes are held, want %d", held, want)
		}
	}
	hold(first[0], 910)
	hold(first[1], 0)
	hold(second[0], 90)
	s.End(first[0])
	hold(first[1], 820)
}

// Of one that has entered and is not watched yet nobody is asked, and nothing is cut.
func TestStreamsThatOnlyEntered(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything)
	s := &api.Streams{API: h.server, Every: time.Millisecond}
	waits, cutWaits := h.stream("Authorization", "Bearer "+x.access)
	waits.Endless = true
	if err := s.Enter(waits, waits.Told.Actor); err != nil || !s.Watched() {
		t.Fatal(err)
	}
	h.Move(x.id, approval.Revoke("client-1", h.store.Now()))
	ends, cutEnds := h.stream("X-Auth-Token", "key-of-tor-for-tests")
	if err := begin(s, ends); err != nil {
		t.Fatal(err)
	}
	if err := h.store.SetActive(t.Context(), "tor", false, store.Act{}); err != nil {
		t.Fatal(err)
	}
	<-cutEnds
	s.Drain()
	if len(cutWaits) > 0 {
		t.Errorf("cut by %v", <-cutWaits)
	}
	s.Watch(waits)
	if err := <-cutWaits; err == api.ErrEnded {
		t.Error("a server that stops has let one begin that would not end")
	}
	if err := <-cutWaits; err != api.ErrEnded {
		t.Errorf("watched: %v", err)
	}
	s.End(waits)
	s.End(ends)
	for s.Watched() {
		time.Sleep(time.Millisecond)
	}
}

// begin is what a door does once it knows the right.
func begin(s *api.Streams, x *api.Stream) error {
	err := s.Enter(x, x.Told.Actor)
	if err == nil {
		s.Watch(x)
	}
	return err
}

// A stream ends with its right and, where it has to be the same, with a change of that;
// and nobody is asked for when none is open.
func TestStreamsAreWatched(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything)
	bearer := []string{"Authorization", "Bearer " + x.access}
	same, cutSame := h.stream(bearer...)
	same.Same = true
	loose, cutLoose := h.stream(bearer...)
	key, cutKey := h.stream("X-Auth-Token", "key-of-ada-for-tests")
	key.Same = true
	s := &api.Streams{API: h.server, Every: time.Millisecond}
	if s.Watched() {
		t.Error("watched before any began")
	}
	for _, one := range []*api.Stream{same, loose, key} {
		if err := begin(s, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.store.EditGrant(t.Context(), x.id, "tor", everything, roles(false, grantset.Pick{Role: "host"}), store.Act{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // in the second round, the first is over
		if err := <-cutSame; err != api.ErrChanged {
			t.Errorf("a change: %v", err)
		}
	}
	s.End(same)
	if len(cutLoose)+len(cutKey) > 0 || !s.Watched() {
		t.Error("a change has cut one that may go on")
	}
	h.Move(x.id, approval.Revoke("client-1", h.store.Now()))
	if err := <-cutLoose; err != api.ErrEnded {
		t.Errorf("an end: %v", err)
	}
	s.End(loose)
	if len(cutKey) > 0 {
		t.Error("the end of another right has cut one")
	}
	if err := h.store.SetActive(t.Context(), "ada", false, store.Act{}); err != nil {
		t.Fatal(err)
	}
	if err := <-cutKey; err != api.ErrEnded {
		t.Errorf("an end of a key: %v", err)
	}
	s.End(key)
	for s.Watched() {
		time.Sleep(time.Millisecond)
	}
	for len(cutLoose) > 0 {
		<-cutLoose
	}
	if err := begin(s, loose); err != nil { // the watch begins anew
		t.Fatal(err)
	}
	if err := <-cutLoose; err != api.ErrEnded {
		t.Errorf("watched again: %v", err)
	}
	s.End(loose)
}

// A server that stops cuts what nothing else ends, also what begins then, and lets the
// others come to their end.
func TestStreamsAreDrained(t *testing.T) {
	h := newHouse(t)
	s := &api.Streams{API: h.server, Every: time.Hour}
	var cuts []chan error
	for _, endless := range []bool{true, false} {
		one, cut := h.stream("X-Auth-Token", "key-of-tor-for-tests")
		one.Endless, cuts = endless, append(cuts, cut)
		if err := begin(s, one); err != nil || len(cut) > 0 {
			t.Fatal(err, len(cut))
		}
	}
	s.Drain()
	for _, endless := range []bool{true, false} {
		one, cut := h.stream("X-Auth-Token", "key-of-tor-for-tests")
		one.Endless, cuts = endless, append(cuts, cut)
		if err := begin(s, one); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for _, cut := range cuts {
		got = append(got, len(cut))
	}
	if want := []int{1, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("cut %d, want %d", got, want)
	}
	if f, _ := api.Told(<-cuts[0]); f.Status != 503 {
		t.Errorf("cut by %v", f)
	}
}
