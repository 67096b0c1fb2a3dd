// Package setup writes what an installation begins with: a configuration, a secret key
// and the operators' password, and what the flags of init and dev say of a service behind.
package setup

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/fault"
)

// Options are the flags of init.
type Options struct {
	Dir, Config, BaseURL, Name string // Config is "" for grantkeeper.toml in Dir
	Database, DatabaseURLFile  string // where the rows are, or the file that says it
	Behind                     Behind
	Force                      bool // writes over a configuration and a password
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
listen = %q
password_file = %q

[database]
%s = %q

%s# [[clients.preregistered]]       # preregistered, public, PKCE only
# id = "assistant-connector"
# name = "Assistant Connector"
# redirect_uris = ["https://assistant.example/callback"]
%s`

// Write writes the files, or none that is there already. The fields that were left open
// are chosen.
func (o *Options) Write() (w Written, err error) {
	base, name, err := o.service()
	if err != nil {
		return w, err
	}
	dir, file, err := o.settle()
	if err != nil {
		return w, err
	}
	behind, err := o.Behind.settings()
	if err != nil {
		return w, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return w, fault.CannotOpen(elsewhere(err), "%v", err)
	}
	w = Written{file, filepath.Join(dir, "secret.key"), filepath.Join(dir, "operator.password"), o.Behind.KeyFile, o.Database, false}
	if w.KeyKept, err = o.mayWrite(w); err != nil {
		return w, err
	}
	if behind.Service != "" { // first: with it alone, init can be run once more
		if err := makeKey(o.Behind.KeyFile); err != nil {
			return w, err
		}
	}
	databaseKey, database := o.databaseSetting()
	return w, o.writeFiles(w, fmt.Sprintf(configText,
		base, w.SecretKey, name, behind.Service, listenFor(base), operatorsBeside(base), w.PasswordFile, databaseKey, database, behind.Upstreams, behind.Rules))
}

const another = "run it as a user who may, or choose --dir"

// elsewhere is what mends a file or folder that cannot be written.
func elsewhere(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return another
	}
	return fault.MendWriting(err) + ": --dir"
}

// service is the base URL as it is written, and what the service is called.
func (o *Options) service() (base, name string, err error) {
	const example = "grantkeeper init --base-url https://app.example.com"
	if o.BaseURL == "" {
		return "", "", fault.WrongUse(example, "--base-url is missing")
	}
	hosts, err := config.ParseHosts([]string{o.BaseURL})
	if err != nil {
		return "", "", fault.WrongUse(example, "--base-url: %v", err)
	}
	base = hosts.List()[0]
	name = cmp.Or(o.Name, serviceNameOf(base))
	if err := config.CheckServiceName(name); err != nil {
		return "", "", fault.WrongUse("grantkeeper init --name Example", "--name: %v", err)
	}
	return base, name, nil
}

// mayWrite refuses to write where something is already. With Force it stays where it is the
// secret key, without which the database would be of no use.
func (o *Options) mayWrite(w Written) (keepKey bool, err error) {
	for _, name := range []string{w.Config, w.SecretKey, w.PasswordFile} {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return false, fault.CannotOpen(another, "%v: nothing was written", err)
		}
		if !o.Force {
			return false, &fault.Error{Code: fault.State, What: name + " is there already, nothing was written", Hint: "move it away, or choose --dir"}
		}
		if name == w.SecretKey {
			if _, err := config.ReadKeysOr(name, config.NoKeyFile+"move it away", config.BadKeyFile); err != nil {
				return false, err // it would stay, and serve would refuse it
			}
			keepKey = true
		}
	}
	return keepKey, nil
}

func (o *Options) writeFiles(w Written, configuration string) error {
	write := durable.WriteNew
	if o.Force {
		write = durable.Replace
	}
	for _, f := range []struct {
		name string
		mode os.FileMode
		text string
	}{
		{w.SecretKey, 0o600, base64.StdEncoding.EncodeToString(random(32)) + "\n"},
		{w.PasswordFile, 0o600, base64.RawURLEncoding.EncodeToString(random(18)) + "\n"},
		{w.Config, 0o644, configuration},
	} {
		if f.name == w.SecretKey && w.KeyKept {
			continue
		}
		if err := write(f.name, f.mode, []byte(f.text)); err != nil {
			return fault.CannotOpen(elsewhere(err), "%v", err)
		}
	}
	return nil
}

// OneDatabase refuses two flags that say where the database is; data is one of them.
func (o *Options) OneDatabase(data string) error {
	var said []string
	for _, flag := range [][2]string{{"--data", data}, {"--database", o.Database}, {"--database-url-file", o.DatabaseURLFile}} {
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
func (o *Options) databaseSetting() (key, value string) {
	if o.DatabaseURLFile != "" {
		return "url_file", o.DatabaseURLFile
	}
	return "url", o.Database
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

// operatorsBeside is where the operators' listener is, which needs a port of its own.
func operatorsBeside(base string) string {
	if strings.HasSuffix(listenFor(base), ":8081") {
		return "127.0.0.1:8082"
	}
	return "127.0.0.1:8081"
}

// settle says where things go, the database too if that was left open.
func (o *Options) settle() (dir, file string, err error) {
	if dir, err = filepath.Abs(o.Dir); err != nil {
		return "", "", fault.CannotOpen("", "%v", err)
	}
	checked, flag := config.Checked{}, "--database"
	switch {
	case o.DatabaseURLFile != "":
		flag = "--database-url-file"
		if o.DatabaseURLFile, err = filepath.Abs(o.DatabaseURLFile); err != nil {
			return "", "", fault.CannotOpen("", "%v", err)
		}
		checked.Database.URLFile = o.DatabaseURLFile
	case o.Database == "":
		o.Database = config.Defaults().Database.URL
		if o.Dir != filepath.Dir(config.DefaultFile) {
			o.Database = "sqlite://" + filepath.ToSlash(filepath.Join(dir, "grantkeeper.db"))
		}
	}
	if o.DatabaseURLFile == "" {
		checked.Database.URL = o.Database
	}
	if bad, ok := errors.AsType[*fault.Error](checked.CheckDatabase()); ok {
		what := strings.TrimPrefix(strings.TrimPrefix(bad.What, "database.url: "), "database.url_file: ")
		return "", "", fault.WrongUse(bad.Hint, "%s: %s", flag, what)
	}
	if o.DatabaseURLFile == "" && config.WithoutPassword(o.Database) != o.Database {
		return "", "", fault.WrongUse("write the URL into a file that its owner alone may read, and name it: --database-url-file", "--database: it has a password, which others would see")
	}
	o.Database = config.WithoutPassword(checked.Database.URL) // to be shown
	if o.Config == "" {
		return dir, filepath.Join(dir, "grantkeeper.toml"), nil
	}
	if file, err = filepath.Abs(o.Config); err != nil {
		return "", "", fault.CannotOpen("", "%v", err)
	}
	return dir, file, nil
}

// Written is what Write has written, and where.
type Written struct {
	Config       string `json:"config"`
	SecretKey    string `json:"secret_key_file"`
	PasswordFile string `json:"password_file"`
	ServiceKey   string `json:"service_key_file,omitempty"` // there is a service behind
	Database     string `json:"database"`                   // its URL, without a password
	KeyKept      bool   `json:"key_kept"`                   // it was there
}

// String says what is where, and the commands to go on with as they are typed.
func (w Written) String() string {
	with := " -c " + w.Config
	if w.Config == config.DefaultFile {
		with = ""
	}
	was := ""
	if w.KeyKept {
		was = " (it was there)"
	}
	widest := max(len(w.Config), len(w.SecretKey), len(w.PasswordFile), len(w.ServiceKey))
	service := ""
	if w.ServiceKey != "" {
		service = fmt.Sprintf("  %-*s   signs what your service is told: it reads this too\n", widest, w.ServiceKey)
	}
	made := "The database " + strings.TrimPrefix(w.Database, "sqlite://") + " is made at the first start."
	if !strings.HasPrefix(w.Database, "sqlite:") {
		made = "The tables in " + w.Database + " are made at the first start; the database has to be there."
	}
	return fmt.Sprintf(writtenText, widest, w.Config, widest, w.SecretKey, was, widest, w.PasswordFile, service, made, with, with, with, with)
}

const writtenText = `Written:
  %-*s   the configuration
  %-*s   seals tokens: keep it, and keep it apart from backups of the database%s
  %-*s   the operators' password
%s
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
