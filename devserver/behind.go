package devserver

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

// Behind is what stands behind dev in place of the sample: somebody's own
// service. init writes it into a configuration. The fields are the flags.
type Behind struct {
	Upstream, MCP, Preview, KeyFile, Rules string
}

// own reports whether a service of one's own is named.
func (b Behind) own() bool { return b.Upstream != "" || b.MCP != "" }

// serviceOf puts a service behind dev: the sample, or nil for one of one's own,
// which runs by itself.
func (o Options) serviceOf(c *config.Checked) (*devService, error) {
	if err := o.Behind.Check(c); err != nil {
		return nil, err
	}
	if !o.Behind.own() {
		return newDevService(c)
	}
	return nil, nil
}

// Check reads the flags as serve reads its settings.
func (b Behind) Check(c *config.Checked) (err error) {
	switch {
	case b.own() && b.KeyFile == "":
		return fault.WrongUse("add --key-file gk.key: it is made, and your service reads it too", "there is no --key-file: your service would have nothing to know calls by")
	case !b.own() && b.KeyFile+b.Preview != "":
		return fault.WrongUse("add --upstream http://127.0.0.1:9000, or --mcp with a whole URL", "--key-file and --preview are for a service of your own, and none is named")
	}
	if b.Rules != "" {
		if c.Ruled, err = config.ReadRules(b.Rules, ""); err != nil {
			return err
		}
	}
	if !b.own() {
		return nil
	}
	c.API.Upstream, c.MCP.Upstream, c.Service.PreviewURL, c.Service.KeyFile = b.Upstream, b.MCP, b.Preview, b.KeyFile
	if c.Ruled == nil { // else a service over HTTP would decide what it may not know of
		c.Ruled, err = config.CompileRules(nil, "deny", nil)
	}
	for _, check := range []func() error{c.CheckUpstream, c.CheckMCP, c.CheckPreview} {
		if err == nil {
			err = byFlag(check())
		}
	}
	if err == nil {
		err = MakeKey(b.KeyFile)
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
type serviceText struct{ Service, Upstreams, Rules string }

// Settings are the flags as init writes them, checked as serve does.
func (b *Behind) Settings() (w serviceText, err error) {
	switch {
	case !b.own() && b.KeyFile+b.Rules == "":
		return w, nil
	case !b.own():
		return w, fault.WrongUse("add --upstream http://127.0.0.1:9000, or --mcp with a whole URL", "--key-file and --rules are for a service, and none is named")
	case b.KeyFile == "":
		return w, fault.WrongUse("add --key-file gk.key: it is made, and your service reads it too", "there is no --key-file: your service would have nothing to know calls by")
	}
	if b.KeyFile, err = filepath.Abs(b.KeyFile); err != nil {
		return w, fault.CannotOpen("", "%v", err)
	}
	c := config.Checked{Config: config.Defaults()}
	c.API.Upstream, c.MCP.Upstream, c.Service.KeyFile = b.Upstream, b.MCP, b.KeyFile
	if err := cmp.Or(byFlag(c.CheckUpstream()), byFlag(c.CheckMCP())); err != nil {
		return w, err
	}
	w.Service = fmt.Sprintf("key_file = %q # signs what the service is told; the service has it too\n", b.KeyFile)
	for _, one := range []struct{ table, at string }{{"api", b.Upstream}, {"mcp", b.MCP}} {
		if one.at != "" {
			w.Upstreams += fmt.Sprintf("[%s]\nupstream = %q\n\n", one.table, one.at)
		}
	}
	if b.Rules == "" {
		return w, nil
	}
	if _, err := config.ReadRules(b.Rules, ""); err != nil {
		return w, err
	}
	text, err := os.ReadFile(b.Rules)
	if err != nil {
		return w, fault.CannotOpen("", "--rules: %v", err)
	}
	w.Rules = "\n" + string(text)
	return w, nil
}

// MakeKey writes a new key where there is no file.
func MakeKey(name string) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	if err := config.WriteNew(name, 0o600, []byte(hex.EncodeToString(secret)+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.CannotOpen("", "--key-file: %v", err)
	}
	return nil
}

// banner says what stands behind, and whether it answers.
func (b Behind) banner(w io.Writer) {
	if !b.own() {
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
