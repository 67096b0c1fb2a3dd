package devserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/rules"
)

// serviceOf puts a service behind dev: the sample, or nil for one of one's own,
// which runs by itself.
func (o Options) serviceOf(c *config.Checked) (*devService, error) {
	if err := o.Behind.Check(c); err != nil {
		return nil, err
	}
	if !o.Behind.Own() {
		return newDevService(c)
	}
	return nil, nil
}

// bannerBehind says what stands behind, and whether it answers.
func (o Options) bannerBehind(w io.Writer) {
	b := o.Behind
	if !b.Own() {
		return
	}
	for _, one := range []struct{ name, at, without string }{
		{"Behind API", b.Upstream, "nothing: --upstream"}, {"Behind MCP", b.MCP, "nothing: --mcp"},
	} {
		if one.at == "" {
			one.at = one.without
		} else if !listens(one.at) {
			one.at += "   (nobody answers there yet)"
		}
		fmt.Fprintf(w, "  %-12s %s\n", one.name, one.at)
	}
	fmt.Fprintf(w, "  Key          %s\n", b.KeyFile)
	file := b.Rules
	if file == "" {
		file = "none: selected roles give nothing; --rules"
	}
	fmt.Fprintf(w, "  Rules        %s\n", file)
}

// listens reports whether somebody takes connections at a URL.
func listens(at string) bool {
	_, rest, _ := strings.Cut(at, "://")
	host, _, _ := strings.Cut(rest, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, map[bool]string{true: "443", false: "80"}[strings.HasPrefix(at, "https:")])
	}
	c, err := net.DialTimeout("tcp", host, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// SuggestEvery is how soon a developer sees what no rule names.
const SuggestEvery = time.Second

// SuggestRules writes, until ctx ends, a rule to paste for each kind of call that
// was denied because no rule names it, once.
func SuggestRules(ctx context.Context, unnamed *rules.Tally, w io.Writer) {
	t := time.NewTicker(SuggestEvery)
	defer t.Stop()
	said := map[string]bool{}
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		for _, one := range unnamed.All() {
			if one.Rule != "" && !said[one.Rule] {
				said[one.Rule] = true
				fmt.Fprintf(w, "no rule names this call, so selected roles do not give it. Complete, and put into the file of --rules:\n%s", one.Rule)
			}
		}
	}
}
