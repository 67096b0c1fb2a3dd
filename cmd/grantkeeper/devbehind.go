package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/rules"
)

// devBehind is what stands behind dev in place of the sample: somebody's own
// service. init writes it into a configuration. The fields are the flags.
type devBehind struct {
	upstream, mcp, preview, keyFile, rules string
}

// own reports whether a service of one's own is named.
func (b devBehind) own() bool { return b.upstream != "" || b.mcp != "" }

// serviceOf puts a service behind dev: the sample, or nil for one of one's own,
// which runs by itself.
func (o devOptions) serviceOf(c *config.Checked) (*devService, error) {
	if err := o.behind.check(c); err != nil {
		return nil, err
	}
	if !o.behind.own() {
		return newDevService(c)
	}
	return nil, nil
}

// check reads the flags as serve reads its settings.
func (b devBehind) check(c *config.Checked) (err error) {
	switch {
	case b.own() && b.keyFile == "":
		return fault.WrongUse("add --key-file gk.key: it is made, and your service reads it too", "there is no --key-file: your service would have nothing to know calls by")
	case !b.own() && b.keyFile+b.preview != "":
		return fault.WrongUse("add --upstream http://127.0.0.1:9000, or --mcp with a whole URL", "--key-file and --preview are for a service of your own, and none is named")
	}
	if b.rules != "" {
		if c.Ruled, err = config.ReadRules(b.rules, ""); err != nil {
			return err
		}
	}
	if !b.own() {
		return nil
	}
	c.API.Upstream, c.MCP.Upstream, c.Service.PreviewURL, c.Service.KeyFile = b.upstream, b.mcp, b.preview, b.keyFile
	if c.Ruled == nil { // else a service over HTTP would decide what it may not know of
		c.Ruled, err = config.CompileRules(nil, "deny", nil)
	}
	for _, check := range []func() error{c.CheckUpstream, c.CheckMCP, c.CheckPreview} {
		if err == nil {
			err = byFlag(check())
		}
	}
	if err == nil {
		err = makeKey(b.keyFile)
	}
	if err == nil {
		err = byFlag(c.CheckServiceKey())
	}
	return err
}

// byFlag says a setting's fault by the flag that it came from.
func byFlag(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	names := strings.NewReplacer("api.upstream", "--upstream", "mcp.upstream", "--mcp", "service.preview_url", "--preview", "service.key_file", "--key-file")
	return fault.WrongUse(names.Replace(e.Hint), "%s", names.Replace(e.What))
}

// serviceText are the parts of a configuration that name a service.
type serviceText struct{ service, upstreams, rules string }

// settings are the flags as init writes them, checked as serve does.
func (b *devBehind) settings() (w serviceText, err error) {
	switch {
	case !b.own() && b.keyFile+b.rules == "":
		return w, nil
	case !b.own():
		return w, fault.WrongUse("add --upstream http://127.0.0.1:9000, or --mcp with a whole URL", "--key-file and --rules are for a service, and none is named")
	case b.keyFile == "":
		return w, fault.WrongUse("add --key-file gk.key: it is made, and your service reads it too", "there is no --key-file: your service would have nothing to know calls by")
	}
	if b.keyFile, err = filepath.Abs(b.keyFile); err != nil {
		return w, fault.CannotOpen("", "%v", err)
	}
	c := config.Checked{Config: config.Defaults()}
	c.API.Upstream, c.MCP.Upstream, c.Service.KeyFile = b.upstream, b.mcp, b.keyFile
	if err := cmp.Or(byFlag(c.CheckUpstream()), byFlag(c.CheckMCP())); err != nil {
		return w, err
	}
	w.service = fmt.Sprintf("key_file = %q # signs what the service is told; the service has it too\n", b.keyFile)
	for _, one := range []struct{ table, at string }{{"api", b.upstream}, {"mcp", b.mcp}} {
		if one.at != "" {
			w.upstreams += fmt.Sprintf("[%s]\nupstream = %q\n\n", one.table, one.at)
		}
	}
	if b.rules == "" {
		return w, nil
	}
	if _, err := config.ReadRules(b.rules, ""); err != nil {
		return w, err
	}
	text, err := os.ReadFile(b.rules)
	if err != nil {
		return w, fault.CannotOpen("", "--rules: %v", err)
	}
	w.rules = "\n" + string(text)
	return w, nil
}

// makeKey writes a new key where there is no file.
func makeKey(name string) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	if err := config.WriteNew(name, 0o600, []byte(hex.EncodeToString(secret)+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.CannotOpen("", "--key-file: %v", err)
	}
	return nil
}

// banner says what stands behind, and whether it answers.
func (b devBehind) banner(w io.Writer) {
	if !b.own() {
		return
	}
	for _, one := range []struct{ name, at, without string }{
		{"Behind API", b.upstream, "nothing: --upstream"}, {"Behind MCP", b.mcp, "nothing: --mcp"},
	} {
		if one.at == "" {
			one.at = one.without
		} else if !listens(one.at) {
			one.at += "   (nobody answers there yet)"
		}
		fmt.Fprintf(w, "  %-12s %s\n", one.name, one.at)
	}
	fmt.Fprintf(w, "  Key          %s\n", b.keyFile)
	file := b.rules
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

// suggestEvery is how soon a developer sees what no rule names.
const suggestEvery = time.Second

// suggestRules writes, until ctx ends, a rule to paste for each kind of call that
// was denied because no rule names it, once.
func suggestRules(ctx context.Context, unnamed *rules.Tally, w io.Writer) {
	t := time.NewTicker(suggestEvery)
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
