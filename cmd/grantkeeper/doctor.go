package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/rules"
)

// A finding is one line of doctor.
type finding struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, warn or fail
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"` // what mends it
}

func found(format string, args ...any) finding {
	return finding{Result: "ok", Text: fmt.Sprintf(format, args...)}
}

func warned(fix, format string, args ...any) finding {
	return finding{Result: "warn", Text: fmt.Sprintf(format, args...), Fix: fix}
}

func failed(fix, format string, args ...any) finding {
	return finding{Result: "fail", Text: fmt.Sprintf(format, args...), Fix: fix}
}

// failedBy is the finding of a command's error.
func failedBy(err error) finding {
	f := finding{Result: "fail", Text: err.Error()}
	var e *fault.Error
	if errors.As(err, &e) {
		f.Fix = e.Hint
	}
	if _, several := errors.AsType[fault.Several](err); several {
		f.Fix = "run: grantkeeper config check"
	}
	return f
}

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	baseURLs []string
	only     []string
	strict   bool
}

func doctorCommand(g *global) *cobra.Command {
	o := doctorOptions{}
	var at *operatorOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Is this installation healthy? Each line says so, or what mends it",
		Example: `  grantkeeper doctor
  grantkeeper doctor --base-url https://eu.example.com
  grantkeeper doctor --strict --json                     # before and after a deployment
  grantkeeper doctor --only backup,clock`,
		Long: `It reads the configuration as serve does, asks the running server through the
operators' listener, and asks every base URL as a client would. It also asks
api.upstream, mcp.upstream and service.preview_url, each OpenID provider, the hand-off
and the mail server, changes and sends nothing there, and follows no redirect; --only
provider means all of them. A preview is asked about nobody.

The exit code is 1 when there is a fault; with --strict, a warning is one.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "mend what it names, and run it again"},
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range o.only {
				if !slices.ContainsFunc(checks, func(k check) bool { return k.is(name) }) {
					return fault.WrongUse("known are: "+strings.Join(checkNames(), ", "), "--only: there is no check %q", name)
				}
			}
			d := g.examine(c, *at, o.baseURLs)
			d.strict = o.strict
			return o.tell(c.OutOrStdout(), d.findings(o.only), g.json, g.colored(c.OutOrStdout()))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.baseURLs, "base-url", nil, "ask this one instead of the configured ones; can be repeated")
	f.StringSliceVar(&o.only, "only", nil, "only these checks, with commas: "+strings.Join(checkNames(), ", "))
	f.BoolVar(&o.strict, "strict", false, "a warning is a fault")
	at = operatorFlags(g, c)
	return c
}

// tell writes the findings. The error says with which code it ends.
func (o doctorOptions) tell(w io.Writer, all []finding, asJSON, colored bool) error {
	count := map[string]int{}
	for _, f := range all {
		count[f.Result]++
	}
	if asJSON {
		if err := writeDocument(w, map[string]any{"checks": all, "warnings": count["warn"], "faults": count["fail"]}); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		for _, f := range all {
			b.WriteString(f.line(colored))
		}
		fmt.Fprintf(&b, "%s, %s.\n", plural(count["warn"], "warning"), plural(count["fail"], "fault"))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	if count["fail"] > 0 || o.strict && count["warn"] > 0 {
		return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("not healthy: %s, %s", plural(count["fail"], "fault"), plural(count["warn"], "warning")), Hint: ""}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

var colors = map[string]string{"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}

func (f finding) line(colored bool) string {
	word := fmt.Sprintf("%-6s", f.Result)
	if colored {
		word = colors[f.Result] + word + "\x1b[0m"
	}
	line := fmt.Sprintf("%s%-18s %s\n", word, f.Name, printable(f.Text))
	if f.Fix != "" {
		line += fmt.Sprintf("%25sfix: %s\n", "", printable(f.Fix))
	}
	return line
}

// doctor is what was learned, before it is judged.
type doctor struct {
	loaded    config.Loaded
	checked   config.Checked
	configErr error
	dev       bool // there is no configuration, and the server that answers needs none
	now       time.Time
	strict    bool

	operator  string // URL that --operator gave; "" is that of the configuration
	server    *operatorClient
	status    serverStatus
	statusErr error
	missing   []string // for being ready

	bases   []*asked
	outside []*probe
}

// serverStatus is the answer of GET /v1/status, as far as it is judged.
type serverStatus struct {
	Version    operator.Version `json:"version"`
	Now        int64            `json:"now"`
	Schema     int              `json:"schema"`
	Oldest     int              `json:"schema_oldest"`
	Bytes      int64            `json:"bytes"`
	Integrity  string           `json:"integrity"`
	LastBackup int64            `json:"last_backup"`
	Overdue    int              `json:"overdue"`
	Seen       operator.Seen    `json:"seen"`
	Nodes      int              `json:"nodes"`
	Limits     string           `json:"limits"`

	Refused  *operator.RefusedObject `json:"refused"`
	WentBack int64                   `json:"went_back"`
	Unnamed  []rules.Unnamed         `json:"unnamed"`
}

// doctorWithin bounds each question to this installation; outsideWithin those
// to others.
const doctorWithin = 1500 * time.Millisecond

// examine gathers everything at once.
func (g *global) examine(c *cobra.Command, at operatorOptions, baseURLs []string) *doctor {
	d := &doctor{operator: at.url}
	none := false
	if d.loaded, d.configErr = g.load(c); d.configErr == nil {
		d.checked, d.configErr = whole(c.Context(), d.loaded)
		none = d.loaded.File == "" && len(d.loaded.BaseURLs) == 0
	}
	if len(baseURLs) == 0 && d.configErr == nil {
		baseURLs = d.checked.Hosts.List()
	}
	var all sync.WaitGroup
	if d.configErr == nil {
		d.outside = outside{&d.checked}.probes()
		all.Go(func() { d.askOutside(c.Context()) })
	}
	ctx, cancel := context.WithTimeout(c.Context(), doctorWithin)
	defer cancel()
	all.Go(func() {
		if d.server, d.statusErr = at.connect(ctx, g.config, os.Environ()); d.statusErr == nil {
			all.Go(func() { d.missing = d.server.missing(ctx) })
			d.statusErr = d.server.do(ctx, http.MethodGet, "/v1/status", nil, nil, &d.status)
			d.now = time.Now()
			var clock json.RawMessage // dev alone has one
			d.dev = none && d.statusErr == nil && d.server.do(ctx, http.MethodGet, "/v1/dev/clock", nil, nil, &clock) == nil
		}
	})
	for _, base := range baseURLs {
		one := &asked{base: strings.TrimSuffix(base, "/"), resources: d.checked.Resources().All()}
		d.bases = append(d.bases, one)
		all.Go(func() { one.ask(ctx) })
	}
	all.Wait()
	return d
}

// A check is one thing to judge. It gives no finding where it cannot be.
type check struct {
	name string
	run  func(*doctor) []finding
}

// is reports whether the check is meant: its name may have spaces.
func (k check) is(name string) bool {
	return strings.ReplaceAll(strings.TrimSpace(name), " ", "-") == k.name
}

func checkNames() (all []string) {
	for _, k := range checks {
		all = append(all, k.name)
	}
	return all
}

func (d *doctor) findings(only []string) (all []finding) {
	for _, k := range checks {
		if len(only) > 0 && !slices.ContainsFunc(only, k.is) {
			continue
		}
		for _, f := range k.run(d) {
			if f.Name == "" {
				f.Name = k.name
			}
			all = append(all, f)
		}
	}
	return all
}
