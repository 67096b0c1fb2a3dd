// Package doctor judges an installation: its configuration, what its running server
// says, what a client sees, and the services that the configuration names. Each
// finding says what is so, and what mends it.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// A Finding is one line of doctor.
type Finding struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, warn or fail
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"` // what mends it
}

func found(format string, args ...any) Finding {
	return Finding{Result: "ok", Text: fmt.Sprintf(format, args...)}
}

func warned(fix, format string, args ...any) Finding {
	return Finding{Result: "warn", Text: fmt.Sprintf(format, args...), Fix: fix}
}

func failed(fix, format string, args ...any) Finding {
	return Finding{Result: "fail", Text: fmt.Sprintf(format, args...), Fix: fix}
}

// failedBy is the finding of a command's error.
func failedBy(err error) Finding {
	f := Finding{Result: "fail", Text: err.Error()}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Fix = e.Hint
	}
	if _, several := errors.AsType[fault.Several](err); several {
		f.Fix = "run: grantkeeper config check"
	}
	return f
}

var colors = map[string]string{"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}

func (f Finding) Line(colored bool) string {
	word := fmt.Sprintf("%-6s", f.Result)
	if colored {
		word = colors[f.Result] + word + "\x1b[0m"
	}
	line := fmt.Sprintf("%s%-18s %s\n", word, f.Name, terminal.Printable(f.Text))
	if f.Fix != "" {
		line += fmt.Sprintf("%25sfix: %s\n", "", terminal.Printable(f.Fix))
	}
	return line
}

// Examination is what was learned of an installation, before it is judged.
type Examination struct {
	Loaded    config.Loaded
	Checked   config.Checked
	ConfigErr error
	Dev       bool // there is no configuration, and the server that answers needs none
	Now       time.Time
	Strict    bool
	Elsewhere bool // --operator named the server that is asked: the configuration may be another's

	Operator  string // URL that is asked, by --operator or, its own, by the console; "" is that of the configuration
	Server    string // URL of the one that answers
	Version   string // of this binary
	Status    Status
	StatusErr error
	Missing   []string // for being ready

	bases   []*asked
	outside []*probe
	beside  []Finding // of the configured database, while a server answers
}

// Status is the answer of GET /v1/status, as far as it is judged.
type Status struct {
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

// A check is one thing to judge. Where it cannot be, it gives the finding of the check that says
// why: asked for alone, it would pass otherwise.
type check struct {
	name string
	run  func(*Examination) []Finding
}

// is reports whether the check is meant: its name may have spaces.
func (k check) is(name string) bool {
	return strings.ReplaceAll(strings.TrimSpace(name), " ", "-") == k.name
}

// meant reports whether the check is among those that are asked for, which are all by default.
func (k check) meant(only []string) bool { return len(only) == 0 || slices.ContainsFunc(only, k.is) }

// Known reports whether there is a check of this name, which may have spaces.
func Known(name string) bool {
	return slices.ContainsFunc(checks, func(k check) bool { return k.is(name) })
}

// Names are the names of all checks, in their order.
func Names() (all []string) {
	for _, k := range checks {
		all = append(all, k.name)
	}
	return all
}

// Findings are those of all checks, or of only these, each once.
func (d *Examination) Findings(only []string) (all []Finding) {
	for _, k := range checks {
		if !k.meant(only) {
			continue
		}
		for _, f := range k.run(d) {
			if f.Name == "" {
				f.Name = k.name
			}
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// within bounds each question to this installation; outsideWithin those to others.
const within = 1500 * time.Millisecond

// Ask asks at once the others that the configuration names, every base URL, and by
// server the running server. That alone where no check but "server" is meant: what
// watches a container runs it every few seconds, and it must not wait for others. The
// database of the configuration is looked at too where the server that answers is its own:
// not that of --operator.
func (d *Examination) Ask(ctx context.Context, bases, only []string, server func(context.Context)) {
	var all sync.WaitGroup
	alone := slices.Equal(only, []string{"server"})
	if alone {
		bases = nil
	}
	if d.ConfigErr == nil && !alone {
		d.outside = Outside{&d.Checked}.probes()
		all.Go(func() { d.askOutside(ctx) })
	}
	soon, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all.Go(func() { server(soon) })
	for _, base := range bases {
		one := &asked{base: strings.TrimSuffix(base, "/"), resources: d.Checked.Resources().All()}
		d.bases = append(d.bases, one)
		all.Go(func() { one.ask(soon) })
	}
	all.Wait()
	if (check{name: "database"}).meant(only) && d.ConfigErr == nil && d.StatusErr == nil && !d.Dev && d.Operator == "" {
		d.beside = examineRunning(ctx, d.Checked)
	}
}
