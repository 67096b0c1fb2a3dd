// Package server starts the authorization server from its configuration: listeners,
// doors, store, sweeping, mail, metrics and traces. Start is all that a program needs.
package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// Options are what a configuration does not say. The zero value is good.
type Options struct {
	Version string           // of the release; "" is what go.mod has of it
	File    string           // that the configuration was read from, for the log
	Command string           // that errors propose, such as grantkeeper dev; "" is grantkeeper serve
	Now     func() time.Time // nil is the machine's clock

	Log      *slog.Logger   // nil discards
	Level    *slog.LevelVar // of Log, where rereading may change it; nil leaves it
	Requests io.Writer      // takes the lines about requests, as NewLogger gives it; nil is Log

	Linger time.Duration // how long listeners stay open at the end, while /readyz says 503
	Drain  time.Duration // how long requests under way may take then; 0 is DefaultDrain

	// Ready, unless nil, is called when all is open, before anybody is answered.
	Ready func()

	// Doctor runs the checks of the installation, whose operators' listener is at an
	// address and has a password, for the console; nil has no page for them.
	Doctor func(ctx context.Context, operators net.Addr, password string) []operator.Finding

	// Documents are how metadata documents of clients are fetched; a server has the zero
	// value, and tests have hosts of their own.
	Documents document.Options

	Dev *Dev // under dev alone
}

// DefaultDrain is how long requests under way may take at the end.
const DefaultDrain = 15 * time.Second

// Dev is what dev adds to a server, and nothing else may.
type Dev struct {
	// Fill fills the store, before anybody is answered. public is the server's address.
	Fill func(ctx context.Context, s *store.Store, public net.Addr) error

	Pages    func(*page.Site) http.Handler                        // answers at DevPath
	Clock    func(operator.ClockMove) (operator.ClockState, bool) // moves the clock of Options.Now; false is beyond where it may go
	Gateways net.Listener                                         // where the sample asks; nil without one
}

// DevPath is the page of dev's own client.
const DevPath = "/dev/client"

// A Server is all doors, wired, behind their listeners.
type Server struct {
	settings // as it was started

	options   Options
	version   operator.Version
	store     *store.Store
	limits    *limit.Valkey // nil counts in memory
	log       *slog.Logger
	metrics   *metrics.Metrics
	traces    *traces // nil without a collector
	mail      *mailer // nil sends none
	draining  atomic.Bool
	page      *consent.Server              // for pages in its look
	calls     *api.Server                  // whose guard gateways ask
	activity  *store.Recorder              // nil keeps nothing
	proxies   map[string]*mcp.Server       // of MCP endpoints, by their path
	seen      *seenAddresses               // of requests to public
	attempts  attempt.Gatherer             // what doors have seen of clients, and nobody has written
	unnamed   rules.Tally                  // calls that no rule names
	requested hourly                       // letters to admins that a request waits
	anchored  atomic.Pointer[chain.Anchor] // of the journal, as it was told last
	unsure    sync.Once                    // that a trusted proxy writes Forwarded was logged

	reread    atomic.Pointer[config.Checked] // the configuration since it was reread; nil before
	networked []*limit.Addresses             // the contract's limits, whose networks can change

	on      listeners
	servers []*http.Server
	failed  chan error         // of a listener
	stop    context.CancelFunc // what runs beside requests
	running sync.WaitGroup     // all of it, and what accepts connections
	closing sync.Once
	ended   chan struct{} // is closed when nothing is left
}

type settings = config.Checked

// Start starts a server, and returns when it answers. ctx is for the start alone:
// Close ends it. Every error is a fault.Error, or of ctx.
func Start(ctx context.Context, c config.Checked, o Options) (*Server, error) {
	s := newServer(c, o)
	if err := s.open(ctx); err != nil {
		s.release()
		return nil, err
	}
	if o.Ready != nil {
		o.Ready()
	}
	s.serve(context.WithoutCancel(ctx))
	if o.Dev == nil {
		s.announce()
	}
	return s, nil
}

func newServer(c config.Checked, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	o.Command = cmp.Or(o.Command, "grantkeeper serve")
	s := &Server{settings: c, options: o, version: Build(o.Version), log: o.Log, failed: make(chan error, 3), stop: func() {}, ended: make(chan struct{})}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	s.metrics = newMetrics(s.version, now)
	return s
}

// open opens everything that is released at the end.
func (s *Server) open(ctx context.Context) (err error) {
	if s.options.Dev == nil {
		if s.traces, err = newTraces(ctx, s.log, s.version.Version); err != nil {
			return err
		}
	}
	if err = s.listen(); err != nil {
		return err
	}
	s.mail = newMailer(s.MailServer, s.log)
	if err = s.openStore(ctx); err != nil {
		return err
	}
	if s.options.Dev != nil {
		if err := s.record(); err != nil {
			return err
		}
		return s.options.Dev.Fill(ctx, s.store, s.PublicAddr())
	}
	if s.Counters != nil {
		s.limits = limit.Connect(s.Counters, limit.ValkeyOptions{Log: s.log, Nodes: s.store.LiveNodes})
	}
	if err := s.record(); err != nil {
		return err
	}
	act := store.Act{Actor: "system", Reason: "configuration"}
	return s.refusedClients(s.store.SyncPreregistered(ctx, s.Preregistered, act))
}

// refusedClients says what to do where the store has not taken the configured clients.
func (s *Server) refusedClients(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, store.ErrUnavailable) {
		return s.unavailable("clients: %v", err)
	}
	return fault.BadConfig("take another id", "clients: %v", err)
}

// unavailable says what to do where the database takes nothing.
func (s *Server) unavailable(format string, err error) error {
	hint := "see that there is room for the database"
	if why := s.store.WhyNot(err); why == store.MovedFile || why != "" && s.Postgres != "" {
		hint = MendDatabase(why)
	}
	return fault.CannotOpen(hint, format, err)
}

// record begins to keep what calls do, before anybody is answered; or notes that nothing is.
func (s *Server) record() (err error) {
	if s.Activity.Keep > 0 {
		s.activity, err = s.store.RecordActivity()
	} else {
		err = s.store.StopActivity()
	}
	if err == nil {
		return nil
	}
	return s.unavailable("%v", err)
}

func (s *Server) openStore(ctx context.Context) (err error) {
	s.store, err = store.Open(ctx, store.Options{
		Path: s.Path, URL: s.Postgres, Migrate: s.Database.AutoMigrate, Release: s.version.Version, MaxStaleness: time.Duration(s.Database.MaxStaleness),
		Ring: s.Ring, Now: s.options.Now, Log: s.log,
		Impersonal:  !s.Service.PersonalItems,
		SessionIdle: time.Duration(s.Session.Idle), SessionMax: time.Duration(s.Session.Max),
		MaxDays:        s.Approvals.MaxDays,
		EndUnusedAfter: time.Duration(s.Approvals.EndUnusedAfter), JournalRetention: time.Duration(s.Journal.Retention), ActivityKeep: time.Duration(s.Activity.Keep),
		AttemptsKeep: time.Duration(s.Attempts.Keep), AttemptsMax: s.Attempts.Max,
		Journaled: journaled(s.metrics, s.noticing()), Took: s.metrics.Query, Swept: swept(s.metrics),
	})
	if err != nil {
		return OpenError(err)
	}
	return nil
}

// serve answers on the listeners, and does beside it what a server does.
func (s *Server) serve(ctx context.Context) {
	s.answer(s.on.public, s.public())
	if dev := s.options.Dev; dev != nil && s.on.gateways != nil {
		s.answer(s.on.gateways, s.forSample())
	} else if s.on.gateways != nil {
		s.answer(s.on.gateways, s.gateways())
	}
	if s.on.operators != nil {
		s.answer(s.on.operators, s.operators())
	}
	ctx, s.stop = context.WithCancel(ctx)
	for _, run := range []func(context.Context){s.sweeping, s.lookAgain, s.sealing, s.metrics.Run, s.watchNodes, s.watchUnnamed, s.writeAttempts} {
		s.running.Go(func() { run(ctx) })
	}
}

// answer has a handler answer on a listener.
func (s *Server) answer(l net.Listener, handler http.Handler) {
	server := s.server(handler)
	for _, proxy := range s.proxies {
		server.RegisterOnShutdown(proxy.Drain)
	}
	s.servers = append(s.servers, server)
	s.running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fault.CannotOpen("", "the listener failed: %v", err)
		}
	})
}

// PublicAddr is the address of the public listener.
func (s *Server) PublicAddr() net.Addr { return s.on.public.Addr() }

// OperatorAddr is the address of the operators' listener; nil when it is off.
func (s *Server) OperatorAddr() net.Addr { return addrOf(s.on.operators) }

// GatewayAddr is the address of the gateways' listener; nil when it is off.
func (s *Server) GatewayAddr() net.Addr { return addrOf(s.on.gateways) }

// Unnamed are the calls that were denied because no rule names them.
func (s *Server) Unnamed() *rules.Tally { return &s.unnamed }

// Wait waits until the server has ended, or a listener has failed, which is the
// error: then the server is still to be closed.
func (s *Server) Wait() error {
	select {
	case err := <-s.failed:
		return err
	case <-s.ended:
		return nil
	}
}

// Close ends the server, and returns when nothing of it is left. It lets what was
// accepted finish, for Options.Drain at most and as long as ctx lasts: the error is
// that requests were cut off.
func (s *Server) Close(ctx context.Context) (err error) {
	s.closing.Do(func() {
		err = s.drain(ctx)
		s.release()
		close(s.ended)
	})
	<-s.ended
	return err
}

// drain says 503 at /readyz at once, so that no balancer sends more; the listener
// stays open for a while for those who have not noticed; then no connection is
// taken and those under way end.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Store(true)
	lingered := time.NewTimer(s.options.Linger)
	defer lingered.Stop()
	select {
	case <-lingered.C:
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(ctx, s.options.Drain)
	defer cancel()
	var errs []error
	for _, server := range s.servers { // the operators' last: /readyz answers longest
		errs = append(errs, server.Shutdown(within))
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	if ctx.Err() == nil {
		s.log.Warn("requests were cut off", "after", s.options.Drain.String())
	}
	for _, server := range s.servers {
		_ = server.Close()
	}
	return errors.New("requests were cut off")
}

// release closes what open and serve have opened, as far as they came.
func (s *Server) release() {
	s.stop()
	s.on.Close()
	s.running.Wait()
	if s.limits != nil {
		s.limits.Close()
	}
	if err := s.activity.Close(); err != nil {
		s.log.Warn("what calls did last could not be written: the record will say from when to when it may be missing", "err", err)
	}
	s.mail.Close() // before the store, which letters are made from
	if s.store != nil {
		s.store.Close()
	}
	s.traces.close()
}
