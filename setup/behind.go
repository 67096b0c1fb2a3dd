package setup

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
)

// Behind is somebody's own service: init writes it into a configuration, and it stands
// behind dev in place of the sample. The fields are the flags.
type Behind struct {
	Upstream, MCP, Preview, KeyFile, Rules string
}

// Own reports whether a service of one's own is named.
func (b Behind) Own() bool { return b.Upstream != "" || b.MCP != "" }

// Check reads the flags as serve reads its settings.
func (b Behind) Check(c *config.Checked) (err error) {
	if err := b.together("--key-file and --preview", b.KeyFile+b.Preview); err != nil {
		return err
	}
	if b.Rules != "" {
		if c.Ruled, err = config.ReadRules(b.Rules); err != nil {
			return err
		}
	}
	if !b.Own() {
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
		err = makeKey(b.KeyFile)
	}
	if err == nil {
		err = byFlag(c.CheckServiceKey())
	}
	return err
}

// together refuses a service without a key, and flags that are for a service where none
// is named; given is what they say.
func (b Behind) together(flags, given string) error {
	switch {
	case b.Own() && b.KeyFile == "":
		return fault.WrongUse("add --key-file gk.key: it is made, and your service reads it too", "there is no --key-file: your service would have nothing to know calls by")
	case !b.Own() && given != "":
		return fault.WrongUse("add --upstream http://127.0.0.1:9000, or --mcp with a whole URL", "%s are for a service of your own, and none is named", flags)
	}
	return nil
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

// settings are the flags as init writes them, checked as serve does.
func (b *Behind) settings() (w serviceText, err error) {
	if err := b.together("--key-file and --rules", b.KeyFile+b.Rules); err != nil || !b.Own() {
		return w, err
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
	if _, err := os.Lstat(b.KeyFile); err == nil { // before anything is written
		if err := checkKey(b.KeyFile); err != nil {
			return w, err
		}
	}
	if b.Rules == "" {
		return w, nil
	}
	if _, err := config.ReadRules(b.Rules); err != nil {
		return w, err
	}
	text, err := config.ReadText(b.Rules)
	if err != nil {
		return w, fault.CannotOpen("", "--rules: %v", err)
	}
	w.Rules = "\n" + string(text)
	return w, nil
}

// makeKey writes a new key where nothing is. What is there has to be a key: a folder, or a link
// that leads nowhere, is none.
func makeKey(name string) error {
	err := durable.WriteNew(name, 0o600, []byte(hex.EncodeToString(random(32))+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return checkKey(name)
	}
	if err != nil {
		return fault.CannotOpen(fault.MendWriting(err), "--key-file: %v", err)
	}
	return nil
}

// checkKey reads a key as serve does.
func checkKey(name string) error {
	var c config.Checked
	c.Service.KeyFile = name
	return byFlag(c.CheckServiceKey())
}
