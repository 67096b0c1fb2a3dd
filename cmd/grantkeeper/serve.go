package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
)

// lingering is how long the listener stays open after SIGTERM, while /readyz
// says 503: so long a balancer may take to notice.
const lingering = 2 * time.Second

func serveCommand(g *global) *cobra.Command {
	var baseURLs []string
	drain := 15 * time.Second
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run it",
		Example: `  grantkeeper serve
  grantkeeper serve -c ./grantkeeper.toml
  GRANTKEEPER_BASE_URLS=https://app.example.com grantkeeper serve`,
		Long: `A flag wins over the environment, the environment over the file, the file over
the default.

SIGHUP rereads base_urls, http.trusted_proxies, the certificate, clients,
limiter.networks, api.limits, branding, operator.hosts, the operators' password, the
gateways' keys, log.level and the secret keys; when something is not valid, what was in force stays so,
and the log says why. Other settings need a restart, and the log names those that changed.
SIGTERM lets what was accepted finish.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper demo --base-url URL --steps 1-2"},
		RunE:        func(c *cobra.Command, _ []string) error { return g.serve(c, baseURLs, drain) },
	}
	f := c.Flags()
	f.String("listen", "", "address of the public listener (default :8080)")
	f.String("operator-listen", "", "address of the operators' listener, or off (default 127.0.0.1:8081)")
	f.Bool("migrate", false, "take an older schema forward first")
	f.StringArrayVar(&baseURLs, "base-url", nil, "a host that is served, as a URL; can be repeated")
	f.DurationVar(&drain, "drain-timeout", drain, "how long requests under way may take at the end")
	return c
}

// serve reads the configuration, which SIGHUP does again, and runs the server.
func (g *global) serve(c *cobra.Command, baseURLs []string, drain time.Duration) error {
	flags, err := g.settings(c)
	if err != nil {
		return err
	}
	if c.Flag("base-url").Changed {
		flags["base_urls"] = strings.Join(baseURLs, ",")
	}
	read := func() (config.Checked, string, error) {
		loaded, err := config.Load(g.config, os.Environ(), flags)
		if err != nil {
			return config.Checked{}, "", err
		}
		checked, err := loaded.Check()
		return checked, loaded.File, err
	}
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go away
	checked, file, err := read()
	if err != nil {
		return err
	}
	if checked.Postgres == "" {
		tuneMemory(leastHeap, 0)
	} else {
		tuneMemory(sharedHeap, sharedRoom)
	}
	ch, ready := signals()
	return runServe(c.Context(), serveOptions{
		checked: checked, file: file, drain: drain, signals: ch, ready: ready, again: hangUp(), read: read,
	}, c.ErrOrStderr())
}

// serveOptions are what the command line of serve came to.
type serveOptions struct {
	checked config.Checked
	file    string
	drain   time.Duration
	signals <-chan os.Signal
	ready   func()

	again <-chan os.Signal // to reread the configuration, with read
	read  func() (config.Checked, string, error)
}

func runServe(ctx context.Context, o serveOptions, stderr io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	out := server.NewLines(stderr)
	defer out.Close()
	options := server.Options{Version: version, File: o.file, Now: machineClock(), Linger: lingering, Drain: o.drain,
		Ready: o.ready} // before anybody is answered: a signal that comes then shall drain
	logTo(&options, out, o.checked, stderr, false)
	s, err := server.Start(ctx, o.checked, options)
	if err != nil {
		return err
	}
	out.Start()
	forgetStart()
	return until(ctx, s, options, ending{o.signals, o.again, func() { s.Reread(ctx, o.read) }})
}

// ending says what ends a server, or has it reread its configuration; nil is never.
type ending struct {
	signals, again <-chan os.Signal
	reread         func()
}

// until waits until a signal comes or ctx ends, and then closes the server. A second
// signal ends it at once. The error then says how it ended.
func until(ctx context.Context, s *server.Server, o server.Options, e ending) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Wait() }()
	end, atOnce := context.WithCancel(context.Background())
	defer atOnce()
	for {
		select {
		case err := <-failed:
			atOnce()
			_ = s.Close(end)
			return err
		case <-e.again:
			e.reread()
			continue
		case got := <-e.signals:
			o.Log.Info("stopping", "signal", got.String(), "drain", o.Drain.String())
		case <-ctx.Done():
			o.Log.Info("stopping", "drain", o.Drain.String())
		}
		closed := make(chan struct{})
		go func() {
			_ = s.Close(end) // what was cut off is logged
			close(closed)
		}()
		select {
		case <-closed:
			return nil
		case got := <-e.signals:
			atOnce()
			<-closed
			return interrupted(got)
		}
	}
}

// interrupted is the end by a signal, before ready or by a second one.
func interrupted(by os.Signal) error {
	if by == syscall.SIGTERM {
		return &fault.Error{Code: fault.Terminate, What: "terminated"}
	}
	return &fault.Error{Code: fault.Interrupt, What: "interrupted"}
}

// hangUp gives the signal that asks to reread the configuration.
func hangUp() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	return ch
}

// clockAhead is how far the clock is ahead in a binary that tests link
// (-ldflags "-X main.clockAhead=5m"). What is shipped has the machine's clock.
var clockAhead string

// machineClock is nil for the machine's clock as it is.
func machineClock() func() time.Time {
	ahead, err := time.ParseDuration(clockAhead)
	if err != nil || ahead == 0 {
		return nil
	}
	return func() time.Time { return time.Now().Add(ahead) }
}
