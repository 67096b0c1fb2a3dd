package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// early is how long before its end an access token is no longer used: a request takes
// time, and clocks differ.
const early = 30 * time.Second

// After a browser was opened, it is not opened again for so long: by an assistant that
// starts, and by a call of one that runs. Otherwise each try of an assistant would be
// another window.
const (
	quietAtStart = time.Minute
	quietInCalls = client.HandoverLifetime
)

// A grant is the access that a person has approved, as all copies on the machine share
// it: the record is read and changed under a lock, and a refresh token is sent by one.
type grant struct {
	Options
	endpoint endpoint
	store    store
	http     *http.Client

	mu      sync.Mutex
	access  string    // as the record had it last
	expires time.Time // of access
	settled time.Time // when it was last tried to revoke what is owed

	exchanging sync.Mutex
	closed     bool

	joining sync.Mutex
	running *attempt
	program string // what the assistant calls itself
}

// A missing access has to be approved; it may be said why.
type missing struct{ why string }

func (m missing) Error() string { return cmp.Or(m.why, "nobody has approved yet") }

// needsApproval tells what a person can mend by approving.
func needsApproval(err error) (why string, yes bool) {
	m, yes := errors.AsType[missing](err)
	return m.why, yes
}

func newGrant(o Options) (*grant, error) {
	e, err := parseEndpoint(o.URL)
	if err != nil {
		return nil, err
	}
	s, err := storeFor(e, o.Store)
	if err != nil {
		return nil, err
	}
	if o.Err == nil {
		o.Err = io.Discard
	}
	return &grant{Options: o, endpoint: e, store: s, http: newSecretHTTP()}, nil
}

// calls notes what the assistant calls itself, for the person to read.
func (g *grant) calls(program string) {
	g.joining.Lock()
	defer g.joining.Unlock()
	g.program = program
}

func (g *grant) assistant() string {
	g.joining.Lock()
	defer g.joining.Unlock()
	return g.program
}

// last is the token that was used last; "" is none.
func (g *grant) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.access
}

// close waits for a refresh or an exchange that is under way: its answer must not be lost.
// No exchange begins any more.
func (g *grant) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.exchanging.Lock()
	defer g.exchanging.Unlock()
	g.closed = true
}

// locked works with the record while no other program does. A request that is called
// off calls nothing off here, and how long it waited for others takes nothing from the
// time that the work has.
func (g *grant) locked(ctx context.Context, work func(context.Context, record) error) error {
	ctx = context.WithoutCancel(ctx)
	waits, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	unlock, err := g.store.lock(waits)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	r, err := g.store.read(g.endpoint)
	if err != nil {
		return err
	}
	return work(ctx, r)
}

// token gives an access token that is good, and another one than was refused.
func (g *grant) token(ctx context.Context, refused string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.access != "" && g.access != refused && time.Now().Before(g.expires.Add(-early)) {
		return g.access, nil
	}
	g.access = ""
	err := g.locked(ctx, func(ctx context.Context, r record) error {
		if len(r.Owed) > 0 && time.Since(g.settled) > time.Minute {
			r, _ = g.settle(ctx, r) // it says what it cannot do
		}
		if r.Access == "" || r.Access == refused || !time.Now().Before(time.Unix(r.Expires, 0).Add(-early)) {
			var err error
			if r, err = g.renew(ctx, r); err != nil {
				return err
			}
		}
		g.access, g.expires = r.Access, time.Unix(r.Expires, 0)
		return nil
	})
	return g.access, err
}

// renew sends the refresh token. That it is sent is on disk before it is: should this
// program end before the answer is on disk too, nobody sends it a second time, which
// would look like theft and end the approval with an alarm (decision T6).
func (g *grant) renew(ctx context.Context, r record) (record, error) {
	switch {
	case r.Refresh == "":
		return r, missing{r.Ended}
	case r.Sent:
		return r, g.forget(ctx, r, "the access could not be kept: a program was cut off while it was renewed")
	}
	r.Sent = true
	if err := g.store.write(r); err != nil {
		return r, err
	}
	a, err := r.Server.refresh(ctx, g.http, g.endpoint, r.Refresh)
	_, nothing := errors.AsType[unsent](err)
	switch {
	case nothing, err == nil && a.busy():
		r.Sent = false
		if failed := g.store.write(r); failed != nil {
			return r, failed
		}
		if err == nil {
			err = cannot(fmt.Sprintf("wait %d seconds", max(1, a.wait)), "%s cannot answer now", g.endpoint.host)
		}
		return r, err
	case err == nil && a.status == http.StatusOK && a.Access != "" && a.Refresh != "":
		return g.keep(r, a), nil
	case err == nil && a.Error == "invalid_grant":
		return r, g.drop(r, "the access has ended: it was revoked, or its time is over")
	case err == nil && a.Error == "invalid_client":
		return r, g.drop(r, g.endpoint.host+" no longer lets assistants on a person's own computer connect this way")
	}
	return r, g.forget(ctx, r, "the access could not be kept: the answer to its renewal was lost")
}

// keep writes what a server gave. Where it cannot be written it is good for this program
// alone, and the record says that the token before was sent.
func (g *grant) keep(r record, a answer) record {
	r.Access, r.Refresh, r.Sent, r.Ended = a.Access, a.Refresh, false, ""
	r.Expires = time.Now().Unix() + max(0, min(a.Seconds, 86400))
	if err := g.store.write(r); err != nil {
		say(g.Err, "the access cannot be kept, and has to be approved again next time: %v", err)
	}
	return r
}

// drop forgets an access that the server has ended.
func (g *grant) drop(r record, why string) error {
	r.lose(why, false)
	if err := g.store.write(r); err != nil {
		return err
	}
	return missing{why}
}

// forget drops an access of which nobody knows whether it was renewed. To revoke it is
// no second use of its token (decision T9), and leaves nothing behind at the server.
func (g *grant) forget(ctx context.Context, r record, why string) error {
	r.lose(why, true)
	if err := g.store.write(r); err != nil {
		return err
	}
	_, _ = g.settle(ctx, r) // it says what it cannot do
	return missing{why}
}

// settle revokes what is owed. What cannot be is kept, and tried again: until it is done
// the access lives on at the server, and nobody else has its token.
func (g *grant) settle(ctx context.Context, r record) (record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	g.settled = time.Now()
	var left []string
	var failed error
	for _, token := range r.Owed {
		if err := r.Server.revoke(ctx, g.http, g.endpoint, token); err != nil {
			left, failed = append(left, token), err
		}
	}
	if failed != nil {
		say(g.Err, "%s still has an access that is over here, and is asked again to end it: %v", g.endpoint.host, failed)
	}
	if len(left) < len(r.Owed) {
		r.Owed = left
		failed = errors.Join(g.store.write(r), failed)
	}
	return r, failed
}

// signOut ends the access, here in any case.
func (g *grant) signOut(ctx context.Context) (was bool, err error) {
	err = g.locked(ctx, func(ctx context.Context, r record) error {
		was = r.Refresh != "" || len(r.Owed) > 0
		r.lose("it was ended by grantkeeper connect --sign-out", true)
		r.Pending, r.Opened = nil, 0
		wrong := g.store.write(r)
		_, failed := g.settle(ctx, r)
		return errors.Join(wrong, failed)
	})
	return was, err
}

// An attempt to have the person approve, of this copy or of another one.
type attempt struct {
	began time.Time
	done  chan struct{}
	err   error // once done

	mu      sync.Mutex
	address string
}

// at is the address that the person has to open; "" where it is not known yet.
func (a *attempt) at() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.address
}

func (a *attempt) found(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.address = address
}

// begin begins an attempt, or gives the one that is under way. It goes on when whoever
// asked has stopped waiting, and ends with the program.
func (g *grant) begin(quiet time.Duration) *attempt {
	g.joining.Lock()
	defer g.joining.Unlock()
	if a := g.running; a != nil {
		select {
		case <-a.done:
		default:
			return a
		}
	}
	a := &attempt{began: time.Now(), done: make(chan struct{})}
	g.running = a
	go func() {
		defer close(a.done)
		a.err = g.approve(a, quiet)
	}()
	return a
}

// approve has the person approve. One copy does, and the others see what comes of it;
// should it end, another one goes on where it was: the same address, the same port.
func (g *grant) approve(a *attempt, quiet time.Duration) error {
	for until := time.Now().Add(client.HandoverLifetime); ; time.Sleep(200 * time.Millisecond) {
		unlock, ok, err := g.store.lockWaiting()
		if err != nil {
			return err
		}
		if ok {
			defer unlock()
			return g.askPerson(a, quiet)
		}
		var now record
		if err := g.locked(context.Background(), func(_ context.Context, r record) error { now = r; return nil }); err != nil {
			return err
		}
		switch {
		case now.Refresh != "":
			return nil
		case now.Pending != nil && a.at() != now.Pending.start():
			a.found(now.Pending.start())
			say(g.Err, "another copy waits for approval at this address:\n%s", now.Pending.start())
		}
		if time.Now().After(until) {
			return missing{"nobody approved within 10 minutes"}
		}
	}
}

// askPerson waits for one answer of the browser.
func (g *grant) askPerson(a *attempt, quiet time.Duration) error {
	ctx := context.Background()
	var r record
	if err := g.locked(ctx, func(_ context.Context, now record) error { r = now; return nil }); err != nil || r.Refresh != "" {
		return err
	}
	l := g.resume(r)
	if l == nil {
		since := time.Since(time.Unix(r.Opened, 0)) // below 0 the clock was ahead then
		if cut := r.Pending != nil && r.Pending.Sent; cut {
			say(g.Err, "what was approved could not be kept: a program was cut off meanwhile")
		} else if since >= 0 && since < quiet {
			return missing{r.Ended}
		}
		var err error
		if l, r, err = g.open(ctx); err != nil {
			return err
		}
	} else {
		say(g.Err, "still waiting for approval at %s", l.pending.start())
	}
	a.found(l.pending.start())
	left := time.NewTimer(time.Until(time.Unix(l.pending.Until, 0)))
	defer left.Stop()
	select {
	case got := <-l.answers:
		says, err := g.answered(ctx, l, r.Server, got)
		l.finish(says)
		return err
	case <-left.C:
		l.close()
		return g.over("nobody approved within 10 minutes")
	}
}

// resume waits where another copy did, which has ended: not where that one was cut off
// with the code, since a second use of it would end what was approved (decision T5), and
// not longer than anybody waits, whatever the clock was then.
func (g *grant) resume(r record) *listener {
	if r.Pending == nil || r.Pending.Sent {
		return nil
	}
	if left := time.Until(time.Unix(r.Pending.Until, 0)); left <= 0 || left > client.HandoverLifetime {
		return nil
	}
	l, err := listen(*r.Pending, r.Server.Issuer)
	if err != nil { // something else has taken the port
		return nil
	}
	l.begins = g.begins
	l.serve(r.Pending.State)
	return l
}

// begins notes that a browser has opened the address, before that one is led on.
func (g *grant) begins() error {
	return g.locked(context.Background(), func(_ context.Context, r record) error {
		if r.Pending == nil {
			return errors.New("nobody waits any more")
		}
		r.Pending.Started = true
		return g.store.write(r)
	})
}

// open asks the server, and opens the browser.
func (g *grant) open(ctx context.Context) (*listener, record, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s, err := discover(ctx, g.http, g.endpoint)
	if err != nil {
		return nil, record{}, err
	}
	p := pending{Verifier: newSecret(), Path: newSecret(), Start: newSecret(), Cookie: newSecret(), Until: time.Now().Add(client.HandoverLifetime).Unix()}
	l, err := listen(p, s.Issuer)
	if err != nil {
		return nil, record{}, err
	}
	p.Port = l.pending.Port
	if p.State, err = s.ask(ctx, g.http, g.endpoint, p, g.assistant()); err != nil {
		l.close()
		return nil, record{}, err
	}
	p.Address = s.address(g.endpoint, p)
	l.pending, l.begins = p, g.begins
	var r record
	err = g.locked(ctx, func(_ context.Context, now record) error {
		r = now
		r.Server, r.Pending, r.Opened = s, &p, time.Now().Unix()
		return g.store.write(r)
	})
	if err != nil {
		l.close()
		return nil, record{}, err
	}
	l.serve(p.State)
	say(g.Err, "open this address to approve, once, in a browser on this computer:\n%s", p.start())
	if !g.NoBrowser && g.Open != nil {
		if err := g.Open(p.start()); err != nil {
			say(g.Err, "%v: open it yourself", err)
		}
	}
	return l, r, nil
}

// answered makes of what the browser brought an access, or what the person is told.
func (g *grant) answered(ctx context.Context, l *listener, s server, got arrived) (says string, err error) {
	if got.twice {
		const why = "the address was opened in two browsers, one of which may be somebody else's"
		say(g.Err, why)
		return "Nothing was approved.", g.over(why)
	}
	if got.code == "" {
		why := "the person did not approve"
		if got.fault != "access_denied" {
			why = fmt.Sprintf("the server did not take the request: %q", terminal.CutTo(got.fault, terminal.MostShown))
		}
		return "Nothing was approved.", g.over(why)
	}
	tokens, err := g.exchange(ctx, l, s, got.code)
	if err != nil {
		return "It did not work. The assistant says more.", err
	}
	who := s.who(ctx, g.http, tokens.Access)
	says = connectedAs(who)
	say(g.Err, "%s: %s", g.endpoint.host, says)
	if who == "" {
		return says, nil
	}
	return says, g.locked(ctx, func(_ context.Context, r record) error {
		if r.Access != tokens.Access { // it was renewed meanwhile, or could not be kept
			return nil
		}
		r.Who = who
		return g.store.write(r)
	})
}

// exchange keeps what a code gives. The program does not end meanwhile: the server would list an
// access that nobody has.
func (g *grant) exchange(ctx context.Context, l *listener, s server, code string) (tokens answer, err error) {
	g.exchanging.Lock()
	defer g.exchanging.Unlock()
	if g.closed {
		return tokens, errEnds
	}
	err = g.locked(ctx, func(_ context.Context, r record) error {
		if r.Pending == nil {
			return missing{"it was ended by grantkeeper connect --sign-out"}
		}
		r.Pending.Sent = true
		return g.store.write(r)
	})
	if err != nil {
		return tokens, err
	}
	if tokens, err = s.exchange(ctx, g.http, g.endpoint, code, l.pending.Verifier); err != nil {
		return tokens, errors.Join(err, g.over("the access that was approved did not come"))
	}
	return tokens, g.locked(ctx, func(_ context.Context, r record) error {
		r.Server, r.Pending, r.Who = s, nil, ""
		g.keep(r, tokens)
		return nil
	})
}

var errEnds = errors.New("this program ends")

// connectedAs says whose access there is now, so that somebody else's is noticed.
func connectedAs(who string) string {
	if who == "" {
		return "Connected."
	}
	return "Connected as " + who + ". Should that be somebody else, end it: grantkeeper connect URL --sign-out"
}

// says is the same of the access that is kept.
func (g *grant) says() string {
	r, err := g.store.read(g.endpoint)
	if err != nil {
		return connectedAs("")
	}
	return connectedAs(r.Who)
}

// over notes that an attempt came to nothing.
func (g *grant) over(why string) error {
	err := g.locked(context.Background(), func(_ context.Context, r record) error {
		r.Pending, r.Ended = nil, why
		return g.store.write(r)
	})
	if err != nil {
		return err
	}
	return missing{why}
}
