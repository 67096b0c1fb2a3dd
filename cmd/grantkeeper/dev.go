package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
	"github.com/grantkeeper/grantkeeper/token"
)

// devOptions are what the command line of dev came to.
type devOptions struct {
	listen, operatorListen string
	data                   string // folder; "" keeps everything in memory
	empty                  bool
	seed                   string // file to import; "" is none
	name                   string // of the service; "" is the default
	behind                 devBehind
	readyFile              string
	open, quiet            bool
	logLevel, logFormat    string

	signals <-chan os.Signal
	ready   func() // from here on signals drain; nil is nobody to tell
}

func devCommand(g *global) *cobra.Command {
	o := devOptions{}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Try it: embedded database, demo data, loopback",
		Example: `  grantkeeper dev
  grantkeeper dev --data ./dev-data              # keep what happens
  grantkeeper dev --upstream http://127.0.0.1:9000 --mcp http://127.0.0.1:9000/mcp \
    --name Bakery --key-file gk.key              # before your own service
  grantkeeper dev --listen 127.0.0.1:0 --ready-file ready.json   # for scripts`,
		Long: `It needs no file, variable or service, and serves demo accounts on loopback
only. Behind API v5 and MCP it has a sample service, or your own: --upstream, --mcp, or
both, and a key that your service checks the signed headers with. The key's file is made
when it is not there. What no rule names is then refused under selected roles, and said
once, as a rule to paste into the file of --rules.

Its operator API has a clock that tests can move, and stop:
  curl -u operator:` + remote.DevPassword + ` -d '{"advance_seconds":1800,"stopped":true}' \
    -H 'Content-Type: application/json' http://` + remote.DevOperators + `/v1/dev/clock`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper demo"},
		RunE: func(c *cobra.Command, _ []string) error {
			o.data, o.quiet = g.data, g.quiet
			level, format := g.logging(c)
			o.logLevel, o.logFormat = cmp.Or(level, "info"), cmp.Or(format, "auto")
			if g.config != "" {
				g.say(c, "dev reads no configuration: --config counts for nothing")
			}
			if names := ofGrantkeeper(os.Environ()); len(names) > 0 {
				g.say(c, "dev reads no environment variables: these count for nothing: "+strings.Join(names, ", ")+
					"\nuse a flag: grantkeeper dev --help; or the server that reads them: grantkeeper serve")
			}
			signal.Ignore(syscall.SIGPIPE) // who reads the log may go away
			tuneMemory(leastHeap, 0)
			o.signals, o.ready = signals()
			return runDev(c.Context(), o, c.ErrOrStderr(), nil)
		},
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", remote.DevListen, "address of the server; port 0 takes a free one")
	f.StringVar(&o.operatorListen, "operator-listen", remote.DevOperators, "address of the operator API")
	f.StringVar(&g.data, "data", "", "folder `DIR` to keep the database and the key in (default: in memory)")
	f.BoolVar(&o.empty, "empty", false, "no demo data")
	f.StringVar(&o.seed, "seed", "", "`FILE` of people and organizations to import at the start, as directory import takes it")
	f.StringVar(&o.name, "name", "", "the service's name, which people read on every page (default: "+config.Defaults().Service.Name+")")
	f.StringVar(&o.behind.upstream, "upstream", "", "`URL` of your service, scheme and host, which answers API v5 in place of the sample")
	f.StringVar(&o.behind.mcp, "mcp", "", "whole `URL` of your MCP server, which answers /api/v5/mcp")
	f.StringVar(&o.behind.preview, "preview", "", "`URL` where your service says how much a choice gives, as service.preview_url")
	f.StringVar(&o.behind.keyFile, "key-file", "", "`FILE` with the key that signs what your service is told; it is made when it is not there")
	f.StringVar(&o.behind.rules, "rules", "", "`FILE` with [[rules]]: what calls to your service touch")
	f.StringVar(&o.readyFile, "ready-file", "", "file to write, as JSON, when requests are answered")
	f.BoolVar(&o.open, "open", false, "open the client's page in a browser")
	return c
}

// ofGrantkeeper are the names of the variables that serve reads, or refuses.
func ofGrantkeeper(environ []string) (names []string) {
	for _, e := range environ {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, config.EnvironmentPrefix) {
			names = append(names, terminal.Printable(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// devReady is what the ready file tells.
type devReady struct {
	Server           string            `json:"server"`
	Operator         string            `json:"operator"`
	OperatorUser     string            `json:"operator_user"`
	OperatorPassword string            `json:"operator_password"`
	People           []string          `json:"people"` // emails
	Password         string            `json:"password"`
	APIKeys          map[string]string `json:"api_keys"` // by email
}

// runDev serves until a signal comes or ctx ends. said is called when everything
// has been told to whoever started it; nil is nobody.
func runDev(ctx context.Context, o devOptions, stderr io.Writer, said func(devReady)) error {
	start := time.Now()
	if ctx == nil {
		ctx = context.Background()
	}
	if err := o.checkListen(); err != nil {
		return err
	}
	log := server.NewLines(stderr)
	defer log.Close()
	checked, err := devChecked(o)
	if err != nil {
		return err
	}
	if err := o.forget(); err != nil { // of an earlier one that was killed
		return err
	}
	service, err := o.serviceOf(&checked)
	if err != nil {
		return err
	}
	defer service.Close()
	clock, d := newDevClock(), &dev{options: o, checked: checked, service: service}
	options := server.Options{Version: version, Command: "grantkeeper dev", Now: clock.now, Drain: 5 * time.Second,
		Dev: &server.Dev{Fill: d.fill, Pages: d.pages, Clock: clock.move, Gateways: service.listener()}}
	server.LogTo(&options, log, checked, stderr, true)
	d.clock, d.log = clock, options.Log
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := server.Start(ctx, checked, options)
	if err != nil {
		return err
	}
	told := newDevReady(o, s, d.keys)
	failed := o.plant(ctx, told)
	if failed == nil {
		failed = o.tellReady(told, stderr, start)
	}
	if failed != nil {
		cancel()
	} else {
		log.Start()
		if o.behind.own() {
			go suggestRules(stop, s.Unnamed(), stderr)
		}
		if said != nil {
			said(told)
		}
	}
	err = server.Until(stop, s, options, server.Ending{Signals: o.signals})
	return errors.Join(failed, err, o.forget())
}

// dev is what a server under dev has beside the rest.
type dev struct {
	options devOptions
	checked config.Checked
	service *devService
	clock   *devClock
	log     *slog.Logger
	client  *devClient
	keys    []store.DirectoryAPIKey // of this start
}

func (o devOptions) checkListen() error {
	for _, address := range []string{o.listen, o.operatorListen} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fault.WrongUse("write 127.0.0.1:9000, or 127.0.0.1:0 for any free port", "%q is not an address and a port", address)
		}
		if !config.LoopbackListen(address) {
			return fault.WrongUse("", "dev serves demo accounts, so it listens on loopback only. Use 'grantkeeper serve'.")
		}
	}
	return nil
}

// plant imports the file of --seed, as an operator would.
func (o devOptions) plant(ctx context.Context, t devReady) error {
	if o.seed == "" {
		return nil
	}
	text, err := readImport(nil, o.seed)
	if err != nil {
		return err
	}
	server := &remote.Server{Base: t.Operator, Password: t.OperatorPassword, HTTP: &http.Client{Timeout: importTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
	err = server.Do(ctx, http.MethodPost, "/v1/directory", url.Values{"reason": {"grantkeeper dev --seed"}}, text, new(json.RawMessage))
	var e *fault.Error
	if errors.As(err, &e) {
		e.What = o.seed + ": " + e.What
	}
	return err
}

// forget removes the ready file: it would tell of a server that is gone.
func (o devOptions) forget() error {
	if o.readyFile == "" {
		return nil
	}
	if err := os.Remove(o.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.CannotOpen("", "ready file: %v", err)
	}
	return nil
}

// devChecked is the configuration of dev. Every loopback name and address is
// believed, on any port (decision M2).
func devChecked(o devOptions) (config.Checked, error) {
	c := config.Checked{Config: config.Defaults(), Password: remote.DevPassword}
	c.Hosts = config.LoopbackHosts()
	c.Log = config.Log{Level: o.logLevel, Format: o.logFormat}
	if err := c.CheckLog(); err != nil {
		return config.Checked{}, err
	}
	if o.name != "" {
		if err := config.CheckServiceName(o.name); err != nil {
			return config.Checked{}, fault.WrongUse(`grantkeeper dev --name "Verksted"`, "--name: %v", err)
		}
		c.Service.Name = o.name
	}
	c.HTTP.Listen, c.Operator.Listen = o.listen, o.operatorListen
	c.SecretKeyFile = ""
	if o.data != "" {
		c.Path = filepath.Join(o.data, "grantkeeper.db")
		c.SecretKeyFile = filepath.Join(o.data, "secret.key")
	}
	key, err := devKey(o.data)
	if err != nil {
		return config.Checked{}, err
	}
	if c.Ring, err = token.NewRing(c.Service.TokenPrefix, key[0].Number, key...); err != nil {
		return config.Checked{}, fault.BadConfig("", "secret key: %v", err)
	}
	return c, nil
}

// devKey gives the key in the folder, which is made when there is none. In
// memory it is a new one.
func devKey(data string) ([]*token.Key, error) {
	var secret [32]byte
	rand.Read(secret[:])
	if data == "" {
		return []*token.Key{token.NewKey(1, secret)}, nil
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fault.CannotOpen("", "%v", err)
	}
	name := filepath.Join(data, "secret.key")
	text := base64.StdEncoding.EncodeToString(secret[:]) + "\n"
	if err := config.WriteNew(name, 0o600, []byte(text)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fault.CannotOpen("", "secret key: %v", err)
	}
	keys, err := config.ReadKeys(name)
	var e *fault.Error
	if errors.As(err, &e) && e.Hint == config.BadKeyFile { // dev makes its own
		return nil, &fault.Error{Code: e.Code, What: e.What, Hint: "move it and the database away, dev makes new ones; or choose another --data"}
	}
	return keys, err
}

// fill fills an empty database, adds dev's own client, and starts the sample.
func (d *dev) fill(ctx context.Context, s *store.Store, public net.Addr) error {
	// A database that was moved to the future goes on from there: time would
	// stand still otherwise (decision T12).
	if ahead := time.Until(s.Now()); ahead > time.Second {
		d.clock.move(operator.ClockMove{By: ahead})
	}
	act := store.Act{Actor: "system", Reason: "grantkeeper dev"}
	people, _, err := s.People(ctx, store.PeopleFilter{Limit: 1})
	if err != nil {
		return err
	}
	if !d.options.empty && len(people) == 0 {
		if err := s.AddDirectory(ctx, demoDirectory(signin.Hash(remote.DevPassword)), act); err != nil {
			return fmt.Errorf("demo data: %w", err)
		}
	}
	if d.keys, err = s.ReplaceAPIKeys(ctx, demoKeys(), act); err != nil {
		return fmt.Errorf("demo keys: %w", err)
	}
	d.client = newDevClient(public.String(), d.log)
	d.client.items = !d.options.empty && !d.options.behind.own()
	// Registration would refuse loopback: this one client is added by code,
	// here and nowhere else (decision R6).
	own := client.Client{ID: devClientID, Name: "Grantkeeper's own client", RedirectURIs: d.client.redirectURIs(), Preregistered: true}
	if err := s.SyncPreregistered(ctx, []client.Client{own}, act); err != nil {
		return err
	}
	return d.service.start(d, s.Now)
}

// pages names the demo's people on the sign-in page, and gives the client's.
func (d *dev) pages(site *page.Site) http.Handler {
	var people []page.DemoPerson
	for _, p := range demoPeople {
		if !d.options.empty {
			people = append(people, page.DemoPerson{Email: p.email, About: p.about})
		}
	}
	site.Demo = &page.Demo{Client: server.DevPath, People: people, Password: remote.DevPassword}
	return d.client.handler(site)
}

func newDevReady(o devOptions, s *server.Server, keys []store.DirectoryAPIKey) devReady {
	t := devReady{
		Server: "http://" + s.PublicAddr().String(), Operator: "http://" + s.OperatorAddr().String(),
		OperatorUser: operator.User, OperatorPassword: remote.DevPassword,
		People: []string{}, Password: remote.DevPassword, APIKeys: map[string]string{},
	}
	for _, p := range demoPeople {
		if o.empty {
			break
		}
		t.People = append(t.People, p.email)
		for _, k := range keys {
			if k.Person == p.id {
				t.APIKeys[p.email] = k.Key
			}
		}
	}
	return t
}

// tellReady waits until requests are answered, and says so on stderr and in
// the ready file.
func (o devOptions) tellReady(t devReady, stderr io.Writer, start time.Time) error {
	probe := &http.Client{Timeout: 10 * time.Second}
	for _, url := range []string{t.Server + "/.well-known/oauth-authorization-server", t.Operator + "/readyz"} {
		r, err := probe.Get(url)
		if err != nil {
			return fault.CannotOpen("", "the server does not answer itself: %v", err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("the server answers itself %s at %s", r.Status, url)
		}
	}
	probe.CloseIdleConnections()
	if o.ready != nil {
		o.ready() // before anybody is told: a signal that comes then shall drain
	}
	if !o.quiet {
		o.banner(stderr, t, time.Since(start))
	}
	if o.open {
		openBrowser(t.Server + server.DevPath)
	}
	if o.readyFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return writeRenamed(o.readyFile, append(text, '\n'))
}

// writeRenamed writes a file that is whole from the moment it is there.
func writeRenamed(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return fault.CannotOpen("", "ready file: %v", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fault.CannotOpen("", "ready file: %v", err)
	}
	return nil
}

func (o devOptions) banner(w io.Writer, t devReady, took time.Duration) {
	data, keep := "in memory, gone at exit", "(keep it: --data ./dev-data)"
	if o.data != "" {
		data, keep = o.data, "(kept)"
	}
	password := "password as below"
	if o.empty {
		password = "password " + remote.DevPassword
	}
	demo := "grantkeeper demo"
	if t.Server != "http://"+remote.DevListen {
		demo += " --base-url " + t.Server
	}
	var b strings.Builder
	fmt.Fprintf(&b, "grantkeeper %s  development mode: loopback only, demo data, http. Not for production.\n\n", version)
	fmt.Fprintf(&b, "  Server       %s\n", t.Server)
	fmt.Fprintf(&b, "  Metadata     %s/.well-known/oauth-authorization-server\n", t.Server)
	fmt.Fprintf(&b, "  MCP          %s/api/v5/mcp\n", t.Server)
	o.behind.banner(&b)
	if host, port, _ := strings.Cut(strings.TrimPrefix(t.Server, "http://"), ":"); host == "127.0.0.1" {
		fmt.Fprintf(&b, "  Passkeys     %-32s (they need a name)\n", "http://localhost:"+port)
	}
	fmt.Fprintf(&b, "  Operator     %-32s (user %s, %s)\n", t.Operator, operator.User, password)
	fmt.Fprintf(&b, "  Data         %-32s %s\n\n", data, keep)
	if !o.empty {
		fmt.Fprintf(&b, "  People       password for all: %s\n", remote.DevPassword)
		for _, p := range demoPeople {
			gap := max(24-len(p.email), 4)
			if gap+len(p.email) > 24 {
				gap = 5
			}
			fmt.Fprintf(&b, "    %s%s%s\n", p.email, strings.Repeat(" ", gap), p.about)
		}
		b.WriteString("\n  API keys     X-Auth-Token; new at each start\n")
		for _, p := range demoPeople {
			if key := t.APIKeys[p.email]; key != "" {
				fmt.Fprintf(&b, "    %-24s%s\n", p.email, key)
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "  Try it\n    in a browser    %s%s\n    in a terminal   %s\n", t.Server, server.DevPath, demo)
	fmt.Fprintf(&b, "    by hand         curl -s %s/.well-known/oauth-authorization-server\n\n", t.Server)
	fmt.Fprintf(&b, "Ready in %d ms. Stop with Ctrl-C.\n", took.Milliseconds())
	_, _ = io.WriteString(w, b.String())
}

// openBrowser tries to. Who sees no page open has its address before them.
func openBrowser(url string) {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	c := exec.Command(command[0], command[1:]...)
	if c.Start() == nil {
		go c.Wait()
	}
}
