package main

import (
	"cmp"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func devCommand(g *global) *cobra.Command {
	o := devserver.Options{Version: version}
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
			o.Data, o.Quiet = g.data, g.quiet
			level, format := g.logging(c)
			o.LogLevel, o.LogFormat = cmp.Or(level, "info"), cmp.Or(format, "auto")
			if g.config != "" {
				g.say(c, "dev reads no configuration: --config counts for nothing")
			}
			if names := ofGrantkeeper(os.Environ()); len(names) > 0 {
				g.say(c, "dev reads no environment variables: these count for nothing: "+strings.Join(names, ", ")+
					"\nuse a flag: grantkeeper dev --help; or the server that reads them: grantkeeper serve")
			}
			signal.Ignore(syscall.SIGPIPE) // who reads the log may go away
			server.TuneMemory(false)
			o.Signals, o.Ready = signals()
			o.Doctor = g.forConsole(c)
			return devserver.Run(c.Context(), o, c.ErrOrStderr(), nil)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", remote.DevListen, "address of the server; port 0 takes a free one")
	f.StringVar(&o.OperatorListen, "operator-listen", remote.DevOperators, "address of the operator API")
	f.StringVar(&g.data, "data", "", "folder `DIR` to keep the database and the key in (default: in memory)")
	f.BoolVar(&o.Empty, "empty", false, "no demo data")
	f.StringVar(&o.Seed, "seed", "", "`FILE` of people and organizations to import at the start, as directory import takes it")
	f.StringVar(&o.Name, "name", "", "the service's name, which people read on every page (default: "+config.Defaults().Service.Name+")")
	f.StringVar(&o.Behind.Upstream, "upstream", "", "`URL` of your service, scheme and host, which answers API v5 in place of the sample")
	f.StringVar(&o.Behind.MCP, "mcp", "", "whole `URL` of your MCP server, which answers /api/v5/mcp")
	f.StringVar(&o.Behind.Preview, "preview", "", "`URL` where your service says how much a choice gives, as service.preview_url")
	f.StringVar(&o.Behind.KeyFile, "key-file", "", "`FILE` with the key that signs what your service is told; it is made when it is not there")
	f.StringVar(&o.Behind.Rules, "rules", "", "`FILE` with [[rules]]: what calls to your service touch")
	f.StringVar(&o.ReadyFile, "ready-file", "", "file to write, as JSON, when requests are answered")
	f.BoolVar(&o.Open, "open", false, "open the client's page in a browser")
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
