package config

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
)

// Each bad setting of an operator is refused by its name, and no refusal holds the hash.
func TestOperators(t *testing.T) {
	hash := signin.Hash("a long passphrase")
	ingrid := NamedOperator{Name: "ingrid", Email: "Ingrid@ops.example", PasswordHash: HiddenText(hash), Rights: "act"}
	other := NamedOperator{Name: "ola", Email: "ola@ops.example", PasswordHash: HiddenText(hash), Rights: "read"}
	file := write(t, "hash", hash+"\n", 0o600)
	readable := write(t, "readable", hash+"\n", 0o644)
	for _, tt := range []struct {
		name   string
		change func(*Checked, *NamedOperator)
		want   string // "" is taken
	}{
		{"as it is", func(*Checked, *NamedOperator) {}, ""},
		{"a hash from a file", func(_ *Checked, n *NamedOperator) { n.PasswordHash, n.PasswordHashFile = "", file }, ""},
		{"a provider alone", func(c *Checked, n *NamedOperator) {
			n.PasswordHash, c.Providers, c.ConsoleURL = "", []provider.Config{{ID: "x"}}, "https://ops.example"
		}, ""},
		{"no name", func(_ *Checked, n *NamedOperator) { n.Name = "" }, "the name is not of letters"},
		{"a colon in the name", func(_ *Checked, n *NamedOperator) { n.Name = "a:b" }, "the name is not of letters"},
		{"a name with a bidi mark", func(_ *Checked, n *NamedOperator) { n.Name = "a\u202eb" }, "the name is not of letters"},
		{"no email", func(_ *Checked, n *NamedOperator) { n.Email = "ingrid" }, "is not an email"},
		{"no rights", func(_ *Checked, n *NamedOperator) { n.Rights = "" }, `the rights "" are unknown`},
		{"unknown rights", func(_ *Checked, n *NamedOperator) { n.Rights = "Admin" }, `the rights "Admin" are unknown`},
		{"no hash and no provider", func(_ *Checked, n *NamedOperator) { n.PasswordHash = "" }, "there is no password_hash, and no provider"},
		{"a provider, and no address to come back to", func(c *Checked, n *NamedOperator) {
			n.PasswordHash, c.Providers = "", []provider.Config{{ID: "x"}}
		}, "there is no password_hash, and no provider"},
		{"an address, and no provider", func(c *Checked, n *NamedOperator) { n.PasswordHash, c.ConsoleURL = "", "https://ops.example" }, "there is no password_hash, and no provider"},
		{"a password for a hash", func(_ *Checked, n *NamedOperator) { n.PasswordHash = "a long passphrase" }, "password_hash: it is not a PHC string"},
		{"half a hash", func(_ *Checked, n *NamedOperator) { n.PasswordHash = HiddenText(hash[:40]) }, "password_hash: "},
		{"a weak hash", func(_ *Checked, n *NamedOperator) {
			n.PasswordHash = HiddenText(strings.Replace(hash, "m=19456", "m=1024", 1))
		}, "too weak"},
		{"both hashes", func(_ *Checked, n *NamedOperator) { n.PasswordHashFile = file }, "both password_hash and password_hash_file"},
		{"a file that others read", func(_ *Checked, n *NamedOperator) { n.PasswordHash, n.PasswordHashFile = "", readable }, "others than its owner"},
		{"no file", func(_ *Checked, n *NamedOperator) { n.PasswordHash, n.PasswordHashFile = "", file+"x" }, "there is no file"},
		{"the name of another, in capitals", func(_ *Checked, n *NamedOperator) { n.Name = "OLA" }, "given twice"},
		{"the email of another, in capitals", func(_ *Checked, n *NamedOperator) { n.Email = "OLA@ops.example" }, "given twice"},
	} {
		c, changed := &Checked{}, ingrid
		tt.change(c, &changed)
		c.Config.Operators = []NamedOperator{other, changed}
		err := c.checkOperators()
		switch {
		case tt.want == "" && (err != nil || len(c.Named) != 2 || c.Named[1].Rights != operator.Act):
			t.Errorf("%s: %v, %d operators", tt.name, err, len(c.Named))
		case tt.want != "":
			text, code := refused(t, err)
			if code != 3 || !strings.Contains(text, tt.want) || !strings.Contains(text, "operators[1]") || strings.Contains(text, hash[30:]) {
				t.Errorf("%s: code %d, %q", tt.name, code, text)
			}
		}
	}
	many := &Checked{}
	many.Config.Operators = make([]NamedOperator, mostOperators+1)
	if text, code := refused(t, many.checkOperators()); code != 3 || !strings.Contains(text, "more than 200") {
		t.Errorf("too many: %d %q", code, text)
	}
}

// operator.public_url is a host of https, or loopback, and is answered as the
// others are.
func TestOperatorPublicURL(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "https://Ops.example": "https://ops.example ops.example", "https://ops.example:443": "https://ops.example ops.example",
		"https://ops.example:8443": "https://ops.example:8443 ops.example", "http://127.0.0.1:8081": "http://127.0.0.1:8081 127.0.0.1",
	} {
		c := &Checked{}
		c.Operator.PublicURL = given
		if err := c.readPublicURL(); err != nil || strings.TrimSpace(c.ConsoleURL+" "+strings.Join(c.OperatorHosts, " ")) != want {
			t.Errorf("%q: %v, %q %v", given, err, c.ConsoleURL, c.OperatorHosts)
		}
	}
	for _, bad := range []string{"ops.example", "http://ops.example", "https://ops.example/", "https://ops.example/x", "https://u@ops.example", "https://ops.example?x", "https://ops.example#x", "https://1", "ftp://ops.example"} {
		c := &Checked{}
		c.Operator.PublicURL = bad
		if text, code := refused(t, c.readPublicURL()); code != 3 || !strings.Contains(text, "operator.public_url") {
			t.Errorf("%q: code %d, %q", bad, code, text)
		}
	}
}

// config show says that there is a hash, and not which.
func TestOperatorsAreShownWithoutHash(t *testing.T) {
	hash := signin.Hash("a long passphrase")
	file := write(t, "x.toml", fmt.Sprintf("base_urls = [\"https://a.example\"]\n[[operators]]\nname = \"ingrid\"\nemail = \"ingrid@ops.example\"\npassword_hash = %q\nrights = \"admin\"\n", hash), 0o600)
	l, err := Load(file, os.Environ(), nil)
	if err != nil || string(l.Operators[0].PasswordHash) != hash {
		t.Fatalf("%v: %v", err, l.Operators)
	}
	var shown strings.Builder
	if err := l.Show(&shown, false); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(l.Shown())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{shown.String(), string(asJSON)} {
		if strings.Contains(text, "argon2id") || !strings.Contains(text, "(set)") || !strings.Contains(text, "ingrid@ops.example") {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestListenerURL(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8081": "http://127.0.0.1:8081", ":8081": "http://127.0.0.1:8081", "0.0.0.0:1": "http://127.0.0.1:1",
		"[::]:8081": "http://[::1]:8081", "[::1]:8081": "http://[::1]:8081", "localhost:8081": "http://localhost:8081", "192.0.2.7:81": "http://192.0.2.7:81",
		"off": "", "8081": "",
	} {
		if got, _, err := ListenerURL(listen); got != want || (err != nil) != (want == "") || err != nil && fault.CodeOf(err) != fault.Config {
			t.Errorf("%s: %q, %v; want %q", listen, got, err, want)
		}
	}
}
