package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	baseURLs []string
	only     []string
	strict   bool

	url      string // of another server, which is all that is looked at then
	register bool
	caFile   string
}

func doctorCommand(g *global) *cobra.Command {
	o := doctorOptions{}
	var at *remote.At
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Is this installation healthy? Each line says so, or what mends it",
		Example: `  grantkeeper doctor
  grantkeeper doctor --base-url https://eu.example.com
  grantkeeper doctor --strict --json                     # before and after a deployment
  grantkeeper doctor --only backup,clock
  grantkeeper doctor --url https://mcp.example/mcp       # any other server, as an assistant meets it`,
		Long: `It reads the configuration as serve does, asks the running server through the
operators' listener, and asks every base URL as a client would. The key file, and the
database that the configuration names, are looked at too, but not with --operator: what is
said of the database is what that server says then. It also asks
api.upstream, mcp.upstream and service.preview_url, each OpenID provider, the hand-off
and the mail server, changes and sends nothing there, and follows no redirect; --only
provider means all of them. A preview is asked about nobody. With --only server it asks
the running server alone, for probes of containers. A check of --only that cannot be
made, for want of a configuration, the server or a base URL, fails by saying so.

With --url it looks at that alone, without a configuration: an MCP endpoint, an API or
an issuer, of whomever, as an assistant meets it. Each line is one requirement, with
where it stands, which clients it stops and what mends it. It calls without a token,
reads metadata, and asks a token endpoint for nothing; it goes there directly, and sends
no credential. With --register it also registers two clients, begins with each as far as
the sign-in, and deletes them where the server lets it (RFC 7592); a line says what stays.

The exit code is 1 when there is a fault; with --strict, a warning is one.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "mend what it names, and run it again"},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.checkURL(c); err != nil {
				return err
			}
			if o.url != "" {
				return o.probeURL(c, g)
			}
			for _, name := range o.only {
				if !doctor.Known(name) {
					return fault.WrongUse("known are: "+strings.Join(doctor.Names(), ", "), "--only: there is no check %q", name)
				}
			}
			d := g.examine(c, *at, o.baseURLs, o.only)
			d.Strict = o.strict
			return o.tell(c.OutOrStdout(), d.Findings(o.only), g.json, g.colored(c.OutOrStdout()))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.baseURLs, "base-url", nil, "ask this one instead of the configured ones; can be repeated")
	f.StringSliceVar(&o.only, "only", nil, "only these checks, with commas: "+strings.Join(doctor.Names(), ", "))
	f.StringVar(&o.url, "url", "", "look at this `URL` instead: an MCP endpoint, an API or an issuer, of whomever")
	f.BoolVar(&o.register, "register", false, "with --url: register two clients there, and delete them if it can be done")
	f.StringVar(&o.caFile, "ca-file", "", "with --url: trust the certificates in this `FILE` as well")
	f.BoolVar(&o.strict, "strict", false, "a warning is a fault")
	at = operatorFlags(g, c)
	return c
}

// tell writes the findings. The error says with which code it ends.
func (o doctorOptions) tell(w io.Writer, all []doctor.Finding, asJSON, colored bool) error {
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
			b.WriteString(f.Line(colored))
		}
		fmt.Fprintf(&b, "%s, %s.\n", terminal.Plural(count["warn"], "warning"), terminal.Plural(count["fail"], "fault"))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	if count["fail"] > 0 || o.strict && count["warn"] > 0 {
		return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("not healthy: %s, %s", terminal.Plural(count["fail"], "fault"), terminal.Plural(count["warn"], "warning")), Hint: ""}
	}
	return nil
}

// examine gathers everything at once.
func (g *global) examine(c *cobra.Command, at remote.At, baseURLs, only []string) *doctor.Examination {
	d := g.examineIn(c.Context(), c, at, baseURLs, only)
	d.Elsewhere = at.URL != ""
	return d
}

// forConsole runs all checks against the server of this process. Its operators'
// listener is at an address that is known once it listens, and has the password that
// was read last.
func (g *global) forConsole(c *cobra.Command) func(context.Context, net.Addr, string) []operator.Finding {
	return func(ctx context.Context, operators net.Addr, password string) (all []operator.Finding) {
		at := remote.At{URL: "http://" + operators.String(), Password: password}
		for _, f := range g.examineIn(ctx, c, at, nil, nil).Findings(nil) {
			all = append(all, operator.Finding(f))
		}
		return all
	}
}

func (g *global) examineIn(ctx context.Context, c *cobra.Command, at remote.At, baseURLs, only []string) *doctor.Examination {
	d := &doctor.Examination{Operator: at.URL, Version: version}
	none := false
	if d.Loaded, d.ConfigErr = g.load(c); d.ConfigErr == nil {
		d.Checked, d.ConfigErr = whole(ctx, d.Loaded)
		none = d.Loaded.File == "" && len(d.Loaded.BaseURLs) == 0
	}
	if len(baseURLs) == 0 && d.ConfigErr == nil {
		baseURLs = d.Checked.Hosts.List()
	}
	d.Ask(ctx, baseURLs, only, func(ctx context.Context) {
		client, err := at.Connect(ctx, g.config, os.Environ())
		if d.StatusErr = err; err != nil {
			return
		}
		d.Server = client.Base
		var ready sync.WaitGroup
		ready.Go(func() { d.Missing = client.Missing(ctx) })
		d.StatusErr = client.Do(ctx, http.MethodGet, "/v1/status", nil, nil, &d.Status)
		d.Now = time.Now()
		var clock json.RawMessage // dev alone has one
		d.Dev = none && d.StatusErr == nil && client.Do(ctx, http.MethodGet, "/v1/dev/clock", nil, nil, &clock) == nil
		ready.Wait()
	})
	return d
}
