package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/operator"
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

` + folded("SIGHUP rereads "+strings.Join(config.Reread(), ", ")+", with the files that they name, and takes new keys from "+
			"secret_key_file; when something is not valid, what was in force stays so, and the log says why. "+
			"Other settings need a restart, and the log names those that changed.") + `
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

// folded breaks a text into lines as the rest of help has them.
func folded(text string) string {
	var b strings.Builder
	width := 0
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case width == 0:
		case width+1+len(word) > 88:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
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
		if err == nil {
			err = checked.CheckPorts()
		}
		return checked, loaded.File, err
	}
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go away
	checked, file, err := read()
	if err != nil {
		return err
	}
	again := func() (config.Checked, string, error) {
		if err := config.ReadableAgain(file); err != nil {
			return config.Checked{}, "", err
		}
		return read()
	}
	server.TuneMemory(checked.Postgres != "")
	ch, ready := signals()
	return runServe(c.Context(), serveOptions{
		checked: checked, file: file, drain: drain, signals: ch, ready: ready, again: hangUp(), read: again, doctor: g.forConsole(c),
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

	doctor func(context.Context, net.Addr, string) []operator.Finding // nil has no checks in the console
}

func runServe(ctx context.Context, o serveOptions, stderr io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	out := server.NewLines(stderr)
	defer out.Close()
	options := server.Options{Version: version, File: o.file, Now: machineClock(), Linger: lingering, Drain: o.drain, Doctor: o.doctor,
		Ready: o.ready} // before anybody is answered: a signal that comes then shall drain
	server.LogTo(&options, out, o.checked, stderr, false)
	s, err := server.Start(ctx, o.checked, options)
	if err != nil {
		return err
	}
	out.Start()
	server.ForgetStart()
	return server.Until(ctx, s, options, server.Ending{Signals: o.signals, Again: o.again, Reread: func() { s.Reread(ctx, o.read) }})
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
