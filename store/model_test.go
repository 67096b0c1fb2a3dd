package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/token"
)

// world is the contract in a hundred lines, told without rows, epochs or
// moves: what every answer of the house is compared with (case F-08).
type world struct {
	now       int64
	clients   map[string]*worldClient
	approvals map[byte]*worldApproval // by page
	active    bool                    // Ada's account
	member    bool                    // Ada in Nordlys
	enabled   bool                    // Nordlys' AI integration
}

type worldClient struct {
	registered         int64
	approved, disabled bool
}

type worldApproval struct {
	client     string
	issued     int64
	exchanged  bool
	over       bool
	generation int64
	attempt    uint32
}

func (w *world) known(id string) bool {
	c := w.clients[id]
	return c != nil && (c.approved || w.now < c.registered+14*24*3600)
}

// end ends all approvals that the condition holds for.
func (w *world) end(condition func(*worldApproval) bool) {
	for _, a := range w.approvals {
		if condition(a) {
			a.over = true
		}
	}
}

func (w *world) approve(page byte, client string) error {
	a := w.approvals[page]
	switch {
	case !w.known(client) || w.clients[client].disabled:
		return ErrNotFound
	case !w.active || !w.member || !w.enabled:
		return ErrNotAllowed
	case a != nil && a.exchanged:
		return ErrAnswered
	case a == nil || a.over:
		next := &worldApproval{client: client, issued: w.now}
		if a != nil {
			next.attempt = a.attempt + 1
		}
		w.approvals[page] = next
	case w.now >= a.issued+300:
		a.issued = w.now
	}
	w.clients[client].approved = true
	return nil
}

func (w *world) cancel(page byte) error {
	a := w.approvals[page]
	if a != nil && a.exchanged {
		return ErrAnswered
	}
	if a != nil {
		a.over = true
	}
	return nil
}

func (w *world) exchange(a *worldApproval, client string, issued int64, proven bool) approval.Verdict {
	switch {
	case a.client != client:
		return approval.WrongClient
	case !proven:
		return approval.WrongVerifier
	case a.over:
		return approval.Over
	case issued < a.issued:
		return approval.Expired
	case a.exchanged:
		a.over = true
		return approval.Reused
	case w.now >= issued+300:
		return approval.Expired
	}
	a.exchanged, a.generation = true, 1
	return approval.OK
}

func (w *world) refresh(a *worldApproval, client string, generation int64) approval.Verdict {
	switch {
	case a.client != client:
		return approval.WrongClient
	case a.over:
		return approval.Over
	case generation < a.generation:
		a.over = true
		return approval.Reused
	}
	a.generation++
	return approval.OK
}

func (w *world) revoke(a *worldApproval, client string) approval.Verdict {
	switch {
	case a.client != client:
		return approval.WrongClient
	case a.over, !a.exchanged && w.now >= a.issued+300:
		a.over = true
		return approval.Over
	}
	a.over = true
	return approval.OK
}

func (w *world) accepts(a *worldApproval) bool { return a.exchanged && !a.over }

// F-08 and F-10: after any sequence of what people, clients and operators do,
// every answer of the house equals the model's, and no token lives whose
// approval, membership, account or client has ended.
func TestF08EveryAnswerEqualsTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		clock := &machine{now: time.Unix(1_800_000_000, 0)}
		h := open(t, "", clock)
		defer h.Close()
		h.furnish(t)
		w := &world{
			now: clock.Now().Unix(), active: true, member: true, enabled: true,
			clients:   map[string]*worldClient{"quill": {registered: clock.Now().Unix()}},
			approvals: map[byte]*worldApproval{},
		}
		s := &steps{h, w, r}
		r.Repeat(map[string]func(*rapid.T){
			"":           s.check,
			"register":   s.register,
			"approve":    s.approve,
			"cancel":     s.cancel,
			"exchange":   s.exchange,
			"refresh":    s.refresh,
			"revoke":     s.revoke,
			"membership": s.membership,
			"account":    s.account,
			"client":     s.client,
			"ai":         s.integration,
			"clock":      s.clock,
			"sweep":      s.sweep,
		})
	})
}

type steps struct {
	house
	w *world
	*rapid.T
}

var ctx = context.Background()

func (s *steps) same(r *rapid.T, what string, got, want error) {
	r.Helper()
	if want == nil && got != nil || want != nil && !errors.Is(got, want) {
		r.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (s *steps) id(page byte, a *worldApproval) approval.ID {
	return approval.ID(s.page(page)(a.attempt).ID())
}

// some draws an approval; it ends the step when there is none.
func (s *steps) some(r *rapid.T) (byte, *worldApproval) {
	var pages []byte
	for p := range byte(4) {
		if s.w.approvals[p] != nil {
			pages = append(pages, p)
		}
	}
	if len(pages) == 0 {
		r.Skip("no approval yet")
	}
	p := rapid.SampledFrom(pages).Draw(r, "page")
	return p, s.w.approvals[p]
}

func (s *steps) someClient(r *rapid.T) string {
	return rapid.SampledFrom([]string{"quill", "quill", "quill", "bridge"}).Draw(r, "client")
}

func (s *steps) check(r *rapid.T) {
	for page, a := range s.w.approvals {
		got := false
		if access, err := s.Check(ctx, s.id(page, a)); err == nil {
			got = access.Approval.Accepts(access.Standing, access.Approval.Generation, s.w.now+1, s.Now())
		}
		if want := s.w.accepts(a); got != want {
			r.Fatalf("page %d is accepted: %v, want %v", page, got, want)
		}
		if got && (!s.w.active || !s.w.member || !s.w.enabled || s.w.clients[a.client].disabled) {
			r.Fatalf("page %d lives on facts that have ended", page)
		}
	}
	for _, id := range []string{"quill", "bridge"} {
		state, _ := s.ClientState(ctx, id)
		want := ClientUnknown
		if s.w.known(id) {
			if want = ClientEnabled; s.w.clients[id].disabled {
				want = ClientDisabled
			}
		}
		if state != want {
			r.Fatalf("client %s: got %v, want %v", id, state, want)
		}
	}
}

func (s *steps) register(r *rapid.T) {
	if s.w.clients["bridge"] != nil {
		r.Skip("registered already")
	}
	s.w.clients["bridge"] = &worldClient{registered: s.w.now}
	c := client.Client{ID: "bridge", RedirectURIs: []string{redirect}, IssuedAt: s.w.now}
	s.same(r, "register", s.AddClient(ctx, c, Origin{}, Act{}), nil)
}

func (s *steps) approve(r *rapid.T) {
	page := rapid.ByteRange(0, 3).Draw(r, "page")
	a := s.answer(page)
	a.Client = s.someClient(r)
	if at := s.w.approvals[page]; at != nil {
		a.Client = at.client // a page is one client's
	}
	_, issued, err := s.Approve(ctx, a, Act{})
	s.same(r, "approve", err, s.w.approve(page, a.Client))
	if err == nil && issued != s.w.approvals[page].issued {
		r.Fatalf("the code's issue time: got %d, want %d", issued, s.w.approvals[page].issued)
	}
}

func (s *steps) cancel(r *rapid.T) {
	page := rapid.ByteRange(0, 3).Draw(r, "page")
	s.same(r, "cancel", s.Cancel(ctx, Cancelled{s.page(page), "quill", "ada"}, Act{}), s.w.cancel(page))
}

func (s *steps) exchange(r *rapid.T) {
	page, a := s.some(r)
	c, proven, v := s.someClient(r), rapid.IntRange(0, 3).Draw(r, "proof") > 0, verifier
	issued := a.issued - rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(r, "older")
	if !proven {
		v = "another-verifier-of-43-characters-or-more-012345"
	}
	_, got, err := s.Apply(ctx, s.id(page, a), approval.Exchange(c, issuer, redirect, v, issued, 1, s.Now()), Act{})
	if want := s.w.exchange(a, c, issued, proven); err != nil || got != want {
		r.Fatalf("exchange: got %v, %v; want %v", got, err, want)
	}
}

func (s *steps) refresh(r *rapid.T) {
	page, a := s.some(r)
	if a.generation == 0 {
		r.Skip("no refresh token yet")
	}
	c := s.someClient(r)
	generation := max(1, a.generation-rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 5}).Draw(r, "older"))
	_, got, err := s.Refresh(ctx, s.id(page, a), c, generation, 1, Act{})
	if want := s.w.refresh(a, c, generation); err != nil || got != want {
		r.Fatalf("refresh: got %v, %v; want %v", got, err, want)
	}
}

func (s *steps) revoke(r *rapid.T) {
	page, a := s.some(r)
	c := s.someClient(r)
	_, got, err := s.ApplyLive(ctx, s.id(page, a), approval.Revoke(c, s.Now()), Act{})
	if want := s.w.revoke(a, c); err != nil || got != want {
		r.Fatalf("revoke: got %v, %v; want %v", got, err, want)
	}
}

func (s *steps) membership(r *rapid.T) {
	if s.w.member = !s.w.member; s.w.member {
		s.same(r, "member", s.SetMember(ctx, "nordlys", "ada", true, Act{}), nil)
		s.same(r, "filler", s.SetFiller(ctx, "treasurer", "ada", true, Act{}), nil)
		return
	}
	s.same(r, "remove", s.RemoveMember(ctx, "nordlys", "ada", Act{}), nil)
	s.w.end(func(*worldApproval) bool { return true })
}

func (s *steps) account(r *rapid.T) {
	s.w.active = !s.w.active
	s.same(r, "account", s.SetActive(ctx, "ada", s.w.active, Act{}), nil)
	s.w.end(func(*worldApproval) bool { return !s.w.active })
}

func (s *steps) integration(r *rapid.T) {
	s.w.enabled = !s.w.enabled
	s.same(r, "AI integration", s.SetIntegration(ctx, "nordlys", s.w.enabled, Act{}), nil)
	s.w.end(func(*worldApproval) bool { return !s.w.enabled })
}

func (s *steps) client(r *rapid.T) {
	id := s.someClient(r)
	if !s.w.known(id) {
		r.Skip("no such client")
	}
	c := s.w.clients[id]
	c.disabled = !c.disabled
	s.same(r, "client", s.SetClientEnabled(ctx, id, !c.disabled, Act{}), nil)
	s.w.end(func(a *worldApproval) bool { return a.client == id && c.disabled })
}

func (s *steps) clock(r *rapid.T) {
	seconds := rapid.SampledFrom([]int64{1, 150, 299, 300, 3600, 7 * 24 * 3600}).Draw(r, "seconds")
	s.house.clock.add(time.Duration(seconds) * time.Second)
	s.w.now += seconds
}

func (s *steps) sweep(r *rapid.T) {
	_, err := s.Sweep(ctx)
	s.same(r, "sweep", err, nil)
	for id := range s.w.clients {
		if !s.w.known(id) && id == "bridge" {
			delete(s.w.clients, id) // and may be registered again
		}
	}
	// A code that expired long ago has ended for good.
	s.w.end(func(a *worldApproval) bool {
		return !a.exchanged && s.w.now >= a.issued+int64(engine.PageLife.Seconds())
	})
}

// --- F-09

type input struct {
	kind       string // exchange, refresh, revoke, check
	generation int64
}

// linear is the model of one approval for the checker: its state is a pair.
var linear = porcupine.Model{
	Init: func() any { return [2]int64{int64(approval.CodeIssued), 0} },
	Step: func(state, in, out any) (bool, any) {
		s, i, v := state.([2]int64), in.(input), out.(approval.Verdict)
		phase, generation := approval.Phase(s[0]), s[1]
		ended := [2]int64{int64(approval.Ended), generation}
		switch {
		case i.kind == "check":
			return (v == approval.OK) == (phase == approval.Live), s
		case phase == approval.Ended:
			return v == approval.Over, s
		case i.kind == "revoke":
			return v == approval.OK, ended
		case i.kind == "exchange" && phase == approval.CodeIssued:
			return v == approval.OK, [2]int64{int64(approval.Live), 1}
		case i.kind == "exchange":
			return v == approval.Reused, ended
		case i.generation == generation:
			return v == approval.OK, [2]int64{int64(approval.Live), generation + 1}
		case i.generation < generation:
			return v == approval.Reused, ended
		}
		return v == approval.Lost, ended
	},
}

// F-09: what eight workers at once are told can be put into one order that
// the contract allows; so there is at most one success for each code and each
// refresh token.
func TestF09HistoriesAreLinearizable(t *testing.T) {
	h := furnished(t)
	for round := range 150 {
		var nonce [16]byte
		nonce[0], nonce[1] = byte(round), byte(round>>8)
		a := h.answer(0)
		a.Handle = func(attempt uint32) token.Handle { hd, _ := h.ring.Handle(1, nonce, attempt); return hd }
		a.Grant = grantset.Set{Kind: grantset.Everything}
		handle, issued, err := h.Approve(ctx, a, Act{})
		if err != nil {
			t.Fatal(err)
		}
		history := h.race(approval.ID(handle.ID()), issued, round)
		if !porcupine.CheckOperations(linear, history) {
			for _, o := range history {
				t.Logf("%d %+v -> %v [%d, %d]", o.ClientId, o.Input, o.Output, o.Call, o.Return)
			}
			t.Fatalf("round %d: not linearizable", round)
		}
	}
}

// race lets eight workers at one approval and writes down what they are told.
func (h house) race(id approval.ID, issued int64, seed int) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	var wg sync.WaitGroup
	for worker := range 8 {
		random, h := rand.New(rand.NewPCG(uint64(seed), uint64(worker))), h
		if len(h.others) > 0 {
			h = h.others[worker%len(h.others)]
		}
		wg.Go(func() {
			next := int64(1)
			for range 6 {
				in := input{kind: [...]string{"exchange", "refresh", "refresh", "refresh", "check", "check", "refresh", "revoke"}[random.IntN(8)]}
				if in.kind == "revoke" && random.IntN(3) > 0 {
					in.kind = "check"
				}
				if in.kind == "refresh" {
					if a, err := h.Check(ctx, id); err != nil || a.Approval.Phase != approval.Live {
						in.kind = "exchange"
					} else {
						next = max(1, a.Approval.Generation-int64(random.IntN(8)/7))
					}
					in.generation = next
				}
				call := time.Since(start).Nanoseconds()
				v := h.ask(id, issued, in)
				end := time.Since(start).Nanoseconds()
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: worker, Input: in, Call: call, Output: v, Return: end})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

func (h house) ask(id approval.ID, issued int64, in input) approval.Verdict {
	var v approval.Verdict
	var err error
	switch in.kind {
	case "exchange":
		v, err = h.exchange(id, issued)
	case "refresh":
		v, err = h.refresh(id, in.generation)
	case "revoke":
		_, v, err = h.ApplyLive(ctx, id, approval.Revoke("quill", h.Now()), Act{})
	case "check":
		a, err := h.Check(ctx, id)
		if err == nil && a.Approval.Accepts(a.Standing, a.Approval.Generation, h.Now().Unix()+1, h.Now()) {
			return approval.OK
		}
		return approval.Over
	}
	if err != nil {
		panic(fmt.Sprint("the store cannot answer: ", err))
	}
	return v
}
