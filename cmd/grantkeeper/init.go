package main

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/fault"
)

// initOptions are the flags of init.
type initOptions struct {
	dir, config, baseURL, name string // config is "" for grantkeeper.toml in dir
	database, databaseURLFile  string // where the rows are, or the file that says it
	behind                     devserver.Behind
	force, json                bool
}

func initCommand(g *global) *cobra.Command {
	o := initOptions{}
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration, a secret key and the operators' password",
		Example: `  grantkeeper init --base-url https://app.example.com
  grantkeeper init --base-url http://127.0.0.1:8080 --dir ./here     # to try serve
  grantkeeper init --base-url https://app.example.com --database-url-file /etc/grantkeeper/database.url
  grantkeeper init --base-url https://app.example.com --key-file gk.key --rules rules.toml \
    --upstream http://127.0.0.1:9000 --mcp http://127.0.0.1:9000/mcp   # before your service`,
		Args: cobra.NoArgs,
		Long: `Nothing is written over. With --force the configuration and the password are
written anew, and a secret key that is there stays: it seals what is in the database.`,
		Annotations: map[string]string{"next": "grantkeeper config check, then grantkeeper serve"},
		RunE: func(c *cobra.Command, _ []string) (err error) {
			o.config, o.json = g.config, g.json
			if o.config != "" && !c.Flag("dir").Changed {
				o.dir = filepath.Dir(o.config)
			}
			if err := o.oneDatabase(g.data); err != nil {
				return err
			}
			if g.data != "" {
				if o.database, err = dataURL(g.data); err != nil {
					return err
				}
			}
			return runInit(o, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "dir", filepath.Dir(config.DefaultFile), "folder to write into")
	f.StringVar(&o.baseURL, "base-url", "", "the host that is served, as a URL (required)")
	f.StringVar(&o.name, "name", "", "the service's name, which people read on every page (default: made of the host)")
	f.StringVar(&o.database, "database", "", "sqlite:///path or postgres://user@host/database (default: a file in /var/lib/grantkeeper; with --dir, in that folder)")
	f.StringVar(&o.databaseURLFile, "database-url-file", "", "the file with that URL, where a password is in it; nobody but its owner may read it")
	f.StringVar(&o.behind.Upstream, "upstream", "", "`URL` of your service, scheme and host, which answers API v5")
	f.StringVar(&o.behind.MCP, "mcp", "", "whole `URL` of your MCP server")
	f.StringVar(&o.behind.KeyFile, "key-file", "", "`FILE` with the key that signs what your service is told; it is made when it is not there")
	f.StringVar(&o.behind.Rules, "rules", "", "`FILE` with [[rules]], which are copied into the configuration")
	f.BoolVar(&o.force, "force", false, "write over a configuration and a password, never over a secret key")
	return c
}

// configText is the file that init writes: what must be decided, and what
// often is.
const configText = `# Grantkeeper. Unknown settings are errors.
base_urls = [%q]
secret_key_file = %q

[service]
name = %q # people read it on every page
%s
[http]
listen = %q
# Who terminates TLS before this, and may say who the client is:
# trusted_proxies = ["127.0.0.1/32"]

[operator]
listen = "127.0.0.1:8081"
password_file = %q

[database]
%s = %q

%s# [[clients]]                     # preregistered, public, PKCE only
# id = "assistant-connector"
# name = "Assistant Connector"
# redirect_uris = ["https://assistant.example/callback"]
%s`

func runInit(o initOptions, stdout io.Writer) error {
	if o.baseURL == "" {
		return fault.WrongUse("grantkeeper init --base-url https://app.example.com", "--base-url is missing")
	}
	hosts, err := config.ParseHosts([]string{o.baseURL})
	if err != nil {
		return fault.WrongUse("grantkeeper init --base-url https://app.example.com", "--base-url: %v", err)
	}
	name := cmp.Or(o.name, serviceNameOf(hosts.List()[0]))
	if err := config.CheckServiceName(name); err != nil {
		return fault.WrongUse("grantkeeper init --name Example", "--name: %v", err)
	}
	dir, file, err := o.settle()
	if err != nil {
		return err
	}
	behind, err := o.behind.Settings()
	if err != nil {
		return err
	}
	databaseKey, database := o.databaseSetting()
	key, password := filepath.Join(dir, "secret.key"), filepath.Join(dir, "operator.password")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.CannotOpen("run it as a user who may, or choose --dir", "%v", err)
	}
	_, err = os.Lstat(key)
	keep := o.force && err == nil
	for _, name := range []string{file, key, password} {
		if _, err := os.Lstat(name); !o.force && !errors.Is(err, fs.ErrNotExist) {
			return &fault.Error{Code: fault.State, What: name + " is there already, nothing was written", Hint: "move it away, or choose --dir"}
		}
	}
	for _, f := range []struct {
		name string
		mode os.FileMode
		text string
	}{
		{key, 0o600, base64.StdEncoding.EncodeToString(random(32)) + "\n"},
		{password, 0o600, base64.RawURLEncoding.EncodeToString(random(18)) + "\n"},
		{file, 0o644, fmt.Sprintf(configText, hosts.List()[0], key, name, behind.Service, listenFor(hosts.List()[0]), password, databaseKey, database, behind.Upstreams, behind.Rules)},
	} {
		if f.name == key && keep {
			continue
		}
		if o.force {
			os.Remove(f.name) // what cannot be removed cannot be written
		}
		if err := config.WriteNew(f.name, f.mode, []byte(f.text)); err != nil {
			return fault.CannotOpen("run it as a user who may, or choose --dir", "%v", err)
		}
	}
	if behind.Service != "" {
		if err := devserver.MakeKey(o.behind.KeyFile); err != nil {
			return err
		}
	}
	return o.tell(stdout, file, key, password, keep)
}

// oneDatabase refuses two flags that say where the database is.
func (o *initOptions) oneDatabase(data string) error {
	var said []string
	for _, flag := range [][2]string{{"--data", data}, {"--database", o.database}, {"--database-url-file", o.databaseURLFile}} {
		if flag[1] != "" {
			said = append(said, flag[0])
		}
	}
	if len(said) > 1 {
		return fault.WrongUse("name one of them", "both %s say where the database is", strings.Join(said, " and "))
	}
	return nil
}

// databaseSetting is the line of the file that says where the rows are.
func (o *initOptions) databaseSetting() (key, value string) {
	if o.databaseURLFile != "" {
		return "url_file", o.databaseURLFile
	}
	return "url", o.database
}

// serviceNameOf makes a name of a base URL's host: Example of app.example.com.
func serviceNameOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // it was parsed before
	}
	host := u.Hostname()
	labels := strings.Split(host, ".")
	if len(labels) > 2 && slices.Contains([]string{"app", "apps", "www", "api", "auth", "login", "id", "my", "portal"}, labels[0]) {
		labels = labels[1:]
	}
	first := labels[0]
	if len(labels) < 2 || strings.HasPrefix(first, "xn--") || strings.Trim(first, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return host // an address, or nothing that reads as a name
	}
	return strings.ToUpper(first[:1]) + first[1:]
}

// listenFor is where serve listens: behind a proxy that does TLS, or, of a base
// URL over http, which is for this machine alone, at its own address.
func listenFor(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return "127.0.0.1:8080"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
}

// settle says where things go, the database too if that was left open.
func (o *initOptions) settle() (dir, file string, err error) {
	if dir, err = filepath.Abs(o.dir); err != nil {
		return "", "", fault.CannotOpen("", "%v", err)
	}
	checked, flag := config.Checked{}, "--database"
	switch {
	case o.databaseURLFile != "":
		flag = "--database-url-file"
		if o.databaseURLFile, err = filepath.Abs(o.databaseURLFile); err != nil {
			return "", "", fault.CannotOpen("", "%v", err)
		}
		checked.Database.URLFile = o.databaseURLFile
	case o.database == "":
		o.database = config.Defaults().Database.URL
		if o.dir != filepath.Dir(config.DefaultFile) {
			o.database = "sqlite://" + filepath.ToSlash(filepath.Join(dir, "grantkeeper.db"))
		}
	}
	if o.databaseURLFile == "" {
		checked.Database.URL = o.database
	}
	var bad *fault.Error
	if errors.As(checked.CheckDatabase(), &bad) {
		what := strings.TrimPrefix(strings.TrimPrefix(bad.What, "database.url: "), "database.url_file: ")
		return "", "", fault.WrongUse(bad.Hint, "%s: %s", flag, what)
	}
	if o.databaseURLFile == "" && config.WithoutPassword(o.database) != o.database {
		return "", "", fault.WrongUse("write the URL into a file that its owner alone may read, and name it: --database-url-file", "--database: it has a password, which others would see")
	}
	o.database = config.WithoutPassword(checked.Database.URL) // to be shown
	if o.config == "" {
		return dir, filepath.Join(dir, "grantkeeper.toml"), nil
	}
	if file, err = filepath.Abs(o.config); err != nil {
		return "", "", fault.CannotOpen("", "%v", err)
	}
	return dir, file, nil
}

// tell says what is where, and the commands to go on with as they are typed.
func (o initOptions) tell(w io.Writer, file, key, password string, kept bool) error {
	if o.json {
		return writeDocument(w, map[string]any{"config": file, "secret_key_file": key, "password_file": password, "database": o.database, "key_kept": kept})
	}
	with := " -c " + file
	if file == config.DefaultFile {
		with = ""
	}
	was := ""
	if kept {
		was = " (it was there)"
	}
	widest := max(len(file), len(key), len(password))
	made := "The database " + strings.TrimPrefix(o.database, "sqlite://") + " is made at the first start."
	if !strings.HasPrefix(o.database, "sqlite:") {
		made = "The tables in " + o.database + " are made at the first start; the database has to be there."
	}
	_, err := fmt.Fprintf(w, initText, widest, file, widest, key, was, widest, password, made, with, with, with, with)
	return err
}

const initText = `Written:
  %-*s   the configuration
  %-*s   seals tokens: keep it, and keep it apart from backups of the database%s
  %-*s   the operators' password

%s

Next:
  grantkeeper config check%s
  grantkeeper serve%s
  grantkeeper directory import directory.json%s   # people and organizations: docs/operator-api.md
  grantkeeper doctor%s
`

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
