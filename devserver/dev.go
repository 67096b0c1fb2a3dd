// Package devserver is grantkeeper dev: a server on loopback with demo data, a sample
// service or one's own behind it, a clock that can be moved, and a client in the browser.
package devserver

import (
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
	"path/filepath"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/connect"
	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/setup"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Options are what the command line of dev came to.
type Options struct {
	Version                string // of this binary
	Listen, OperatorListen string
	Data                   string // folder; "" keeps everything in memory
	Empty                  bool
	Seed                   string // file to import; "" is none
	Name                   string // of the service; "" is the default
	Behind                 setup.Behind
	ReadyFile              string
	Open, Quiet            bool
	LogLevel, LogFormat    string

	// MetadataDocuments are the hosts whose are taken, and Documents how they are fetched:
	// for tests, which have hosts of their own.
	MetadataDocuments []string
	Documents         document.Options

	Doctor  func(context.Context, net.Addr, string) []operator.Finding // what the console's page Health shows
	Signals <-chan os.Signal
	Ready   func() // from here on signals drain; nil is nobody to tell
}

// Ready is what the ready file tells.
type Ready struct {
	Server           string            `json:"server"`
	Operator         string            `json:"operator"`
	OperatorUser     string            `json:"operator_user"`
	OperatorPassword string            `json:"operator_password"`
	People           []string          `json:"people"` // emails
	Password         string            `json:"password"`
	APIKeys          map[string]string `json:"api_keys"` // by email
}

// Run serves until a signal comes or ctx ends. said is called when everything
// has been told to whoever started it; nil is nobody.
func Run(ctx context.Context, o Options, stderr io.Writer, said func(Ready)) error {
	start := time.Now()
	if ctx == nil {
		ctx = context.Background()
	}
	if err := o.checkListen(); err != nil {
		return err
	}
	log := server.NewLines(stderr)
	defer log.Close()
	checked, err := devChecked(ctx, o)
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
	options := server.Options{Version: o.Version, Command: "grantkeeper dev", Now: clock.now, Drain: 5 * time.Second, Doctor: o.Doctor, Documents: o.Documents,
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
		if o.Behind.Own() {
			go SuggestRules(stop, s.Unnamed(), stderr)
		}
		if said != nil {
			said(told)
		}
	}
	err = server.Until(stop, s, options, server.Ending{Signals: o.Signals})
	return errors.Join(failed, err, o.forget())
}

// dev is what a server under dev has beside the rest.
type dev struct {
	options Options
	checked config.Checked
	service *devService
	clock   *devClock
	log     *slog.Logger
	client  *devClient
	keys    []store.DirectoryAPIKey // of this start
}

func (o Options) checkListen() error {
	for _, address := range []string{o.Listen, o.OperatorListen} {
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
func (o Options) plant(ctx context.Context, t Ready) error {
	if o.Seed == "" {
		return nil
	}
	text, err := remote.ReadImport(nil, o.Seed)
	if err != nil {
		return err
	}
	server := &remote.Server{Base: t.Operator, Password: t.OperatorPassword, HTTP: &http.Client{Timeout: remote.ImportTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
	err = server.Do(ctx, http.MethodPost, "/v1/directory", url.Values{"reason": {"grantkeeper dev --seed"}}, text, new(json.RawMessage))
	if e, ok := errors.AsType[*fault.Error](err); ok {
		e.What = o.Seed + ": " + e.What
	}
	return err
}

// forget removes the ready file: it would tell of a server that is gone.
func (o Options) forget() error {
	if o.ReadyFile == "" {
		return nil
	}
	if info, err := os.Lstat(o.ReadyFile); err == nil && !info.Mode().IsRegular() { // as root, the machine's /dev/null
		return fault.CannotOpen("choose another --ready-file", "ready file: %s is not a regular file", o.ReadyFile)
	}
	if err := os.Remove(o.ReadyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.CannotOpen("", "ready file: %v", err)
	}
	return nil
}

// devChecked is the configuration of dev. Every loopback name and address is
// believed, on any port (decision M2).
func devChecked(ctx context.Context, o Options) (config.Checked, error) {
	c := config.Checked{Config: config.Defaults(), Password: remote.DevPassword}
	c.Hosts = config.LoopbackHosts()
	c.Clients.Desktop = true
	c.Log = config.Log{Level: o.LogLevel, Format: o.LogFormat}
	if err := c.CheckLog(); err != nil {
		return config.Checked{}, err
	}
	if o.Name != "" {
		if err := config.CheckServiceName(o.Name); err != nil {
			return config.Checked{}, fault.WrongUse(`grantkeeper dev --name "Verksted"`, "--name: %v", err)
		}
		c.Service.Name = o.Name
	}
	c.HTTP.Listen, c.Operator.Listen, c.Clients.MetadataDocuments = o.Listen, o.OperatorListen, o.MetadataDocuments
	c.SecretKeyFile = ""
	if o.Data != "" {
		c.Path = databaseIn(o.Data)
		c.SecretKeyFile = filepath.Join(o.Data, "secret.key")
	}
	key, err := devKey(ctx, o.Data)
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
func devKey(ctx context.Context, data string) ([]*token.Key, error) {
	var secret [32]byte
	rand.Read(secret[:])
	if data == "" {
		return []*token.Key{token.NewKey(1, secret)}, nil
	}
	if err := refuseInstallation(ctx, data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fault.CannotOpen("", "%v", err)
	}
	name := filepath.Join(data, "secret.key")
	text := base64.StdEncoding.EncodeToString(secret[:]) + "\n"
	own, _, err := store.HasClient(ctx, databaseIn(data), DevClientID)
	if err != nil || !own { // else it was made with a key, and another one would open nothing of it
		if err := durable.WriteNew(name, 0o600, []byte(text)); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fault.CannotOpen("", "secret key: %v", err)
		}
	}
	const hint = "move it and the database away, dev makes new ones; or choose another --data"
	return config.ReadKeysOr(name, hint, hint)
}

// databaseIn is where dev keeps its database in a folder.
func databaseIn(data string) string { return filepath.Join(data, "grantkeeper.db") }

// refuseInstallation refuses a folder that init has written to, or with a database that dev
// has not made, under whatever name: an installation's would get accounts whose password
// everybody knows, or share its key with such. Dev's own have its client from the first on.
func refuseInstallation(ctx context.Context, data string) error {
	for _, of := range []string{"grantkeeper.toml", "operator.password"} {
		if _, err := os.Lstat(filepath.Join(data, of)); err == nil {
			return &fault.Error{Code: fault.State, What: filepath.Join(data, of) + " is there: the folder is an installation's, and dev would add demo accounts to it", Hint: "choose another --data, or: grantkeeper serve"}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fault.CannotOpen("choose another --data", "%v", err)
		}
	}
	files, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.CannotOpen("choose another --data", "%v", err)
	}
	for _, file := range files {
		name := filepath.Join(data, file.Name())
		own, filled, err := store.HasClient(ctx, name, DevClientID)
		if err == nil && filled && !own { // of what cannot be read so, the start says why
			return &fault.Error{Code: fault.State, What: name + " is a database that dev has not made, and dev adds demo accounts", Hint: "choose another --data, or: grantkeeper serve"}
		}
	}
	return nil
}

// fill adds dev's own client, fills an empty database, and starts the sample.
func (d *dev) fill(ctx context.Context, s *store.Store, public net.Addr) error {
	if err := d.fillStore(ctx, s, public); err != nil {
		return err
	}
	return d.service.start(d, s.Now)
}

func (d *dev) fillStore(ctx context.Context, s *store.Store, public net.Addr) error {
	// A database that was moved to the future goes on from there: time would
	// stand still otherwise (decision T12).
	if ahead := time.Until(s.Now()); ahead > time.Second {
		d.clock.move(operator.ClockMove{By: ahead})
	}
	act := store.Act{Actor: "system", Reason: "grantkeeper dev"}
	d.client = newDevClient(public.String(), d.log)
	d.client.version = d.options.Version
	d.client.items = !d.options.Empty && !d.options.Behind.Own()
	// Registration would refuse loopback: these clients are added by code, the first here
	// and nowhere else (decision R6). They go before all else: by the first, a database is
	// known as dev's.
	own := client.Client{ID: DevClientID, Name: "Grantkeeper's own client", RedirectURIs: d.client.redirectURIs(), Preregistered: true}
	if err := s.SyncPreregistered(ctx, []client.Client{own, client.Desktop(d.client.bases())}, act); err != nil {
		return err
	}
	people, _, err := s.People(ctx, store.PeopleFilter{Limit: 1})
	if err != nil {
		return err
	}
	if !d.options.Empty && len(people) == 0 {
		if err := s.AddDirectory(ctx, demoDirectory(signin.Hash(remote.DevPassword)), act); err != nil {
			return fmt.Errorf("demo data: %w", err)
		}
	}
	if d.keys, err = s.ReplaceAPIKeys(ctx, demoKeys(), act); err != nil {
		return fmt.Errorf("demo keys: %w", err)
	}
	return nil
}

// pages names the demo's people on the sign-in page, and gives the client's.
func (d *dev) pages(site *page.Site) http.Handler {
	var people []page.DemoPerson
	for _, p := range People {
		if !d.options.Empty {
			people = append(people, page.DemoPerson{Email: p.Email, About: p.about})
		}
	}
	site.Demo = &page.Demo{Client: server.DevPath, People: people, Password: remote.DevPassword}
	return d.client.handler(site)
}

func newDevReady(o Options, s *server.Server, keys []store.DirectoryAPIKey) Ready {
	t := Ready{
		Server: "http://" + s.PublicAddr().String(), Operator: "http://" + s.OperatorAddr().String(),
		OperatorUser: operator.User, OperatorPassword: remote.DevPassword,
		People: []string{}, Password: remote.DevPassword, APIKeys: map[string]string{},
	}
	for _, p := range People {
		if o.Empty {
			break
		}
		t.People = append(t.People, p.Email)
		for _, k := range keys {
			if k.Person == p.id {
				t.APIKeys[p.Email] = k.Key
			}
		}
	}
	return t
}

// tellReady waits until requests are answered, and says so on stderr and in
// the ready file.
func (o Options) tellReady(t Ready, stderr io.Writer, start time.Time) error {
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
	if o.Ready != nil {
		o.Ready() // before anybody is told: a signal that comes then shall drain
	}
	if !o.Quiet {
		o.banner(stderr, t, time.Since(start))
	}
	if o.Open {
		_ = connect.OpenBrowser(t.Server + server.DevPath) // who sees no page open has its address before them
	}
	if o.ReadyFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(o.ReadyFile, 0o600, append(text, '\n')); err != nil {
		return fault.CannotOpen("", "ready file: %v", err)
	}
	return nil
}

func (o Options) banner(w io.Writer, t Ready, took time.Duration) {
	data, keep := "in memory, gone at exit", "(keep it: --data ./dev-data)"
	if o.Data != "" {
		data, keep = o.Data, "(kept)"
	}
	password := "password as below"
	if o.Empty {
		password = "password " + remote.DevPassword
	}
	demo := "grantkeeper demo"
	if t.Server != "http://"+remote.DevListen {
		demo += " --base-url " + t.Server
	}
	var b strings.Builder
	fmt.Fprintf(&b, "grantkeeper %s  development mode: loopback only, demo data, http. Not for production.\n\n", o.Version)
	fmt.Fprintf(&b, "  Server       %s\n", t.Server)
	fmt.Fprintf(&b, "  Metadata     %s/.well-known/oauth-authorization-server\n", t.Server)
	fmt.Fprintf(&b, "  MCP          %s/api/v5/mcp\n", t.Server)
	o.bannerBehind(&b)
	if host, port, _ := strings.Cut(strings.TrimPrefix(t.Server, "http://"), ":"); host == "127.0.0.1" {
		fmt.Fprintf(&b, "  Passkeys     %-32s (they need a name)\n", "http://localhost:"+port)
	}
	fmt.Fprintf(&b, "  Operator     %-32s (user %s, %s)\n", t.Operator, operator.User, password)
	fmt.Fprintf(&b, "  Data         %-32s %s\n\n", data, keep)
	if !o.Empty {
		fmt.Fprintf(&b, "  People       password for all: %s\n", remote.DevPassword)
		for _, p := range People {
			gap := max(24-len(p.Email), 4)
			if gap+len(p.Email) > 24 {
				gap = 5
			}
			fmt.Fprintf(&b, "    %s%s%s\n", p.Email, strings.Repeat(" ", gap), p.about)
		}
		b.WriteString("\n  API keys     X-Auth-Token; new at each start\n")
		for _, p := range People {
			if key := t.APIKeys[p.Email]; key != "" {
				fmt.Fprintf(&b, "    %-24s%s\n", p.Email, key)
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "  Try it\n    in a browser    %s%s\n    in a terminal   %s\n", t.Server, server.DevPath, demo)
	fmt.Fprintf(&b, "    an assistant    grantkeeper connect %s/api/v5/mcp\n", t.Server)
	fmt.Fprintf(&b, "    by hand         curl -s %s/.well-known/oauth-authorization-server\n\n", t.Server)
	fmt.Fprintf(&b, "Ready in %d ms. Stop with Ctrl-C.\n", took.Milliseconds())
	_, _ = io.WriteString(w, b.String())
}
