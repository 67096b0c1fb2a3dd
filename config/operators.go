package config

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/org"
)

// NamedOperator is one operator who signs in at the console (decision O6).
type NamedOperator struct {
	Name             string     `toml:"name" doc:"their name in the journal, in letters and digits; what they do there is done by operator:NAME"`
	Email            string     `toml:"email" doc:"what they sign in with; at a provider, the email that it vouches for"`
	PasswordHash     HiddenText `toml:"password_hash" doc:"the hash of their password, as grantkeeper operator hash-password writes it; without one they sign in at a provider alone"`
	PasswordHashFile string     `toml:"password_hash_file" doc:"or the file with it, that nobody but its owner may read"`
	Rights           string     `toml:"rights" doc:"read (look at everything), act (end or mend single things as well) or admin (all else as well)"`
}

// HiddenText is a text that config show does not show.
type HiddenText string

// UnmarshalText takes any text.
func (h *HiddenText) UnmarshalText(text []byte) error {
	*h = HiddenText(text)
	return nil
}

// MarshalText says whether there is one.
func (h HiddenText) MarshalText() ([]byte, error) {
	if h == "" {
		return nil, nil
	}
	return []byte(hidden), nil
}

// mostOperators bounds the list: every sign-in goes through the hashes of all.
const mostOperators = 200

// checkOperators reads who signs in at the console by name.
func (c *Checked) checkOperators() error {
	if len(c.Config.Operators) > mostOperators {
		return fault.BadConfig("leave those who need it", "operators: more than %d", mostOperators)
	}
	names, emails := map[string]bool{}, map[string]bool{}
	for i, one := range c.Config.Operators {
		what := fmt.Sprintf("operators[%d] %q", i, one.Name)
		named, err := c.checkOperator(what, one)
		if err != nil {
			return err
		}
		name, email := org.LowerASCII(one.Name), org.EmailKey(one.Email)
		if names[name] || emails[email] {
			return fault.BadConfig("give each operator a name and an email of their own", "%s: the name or the email is given twice", what)
		}
		names[name], emails[email] = true, true
		c.Named = append(c.Named, named)
	}
	return nil
}

func (c *Checked) checkOperator(what string, one NamedOperator) (operator.Named, error) {
	n := operator.Named{Name: one.Name, Email: one.Email, Hash: string(one.PasswordHash), Rights: operator.ReadRights(one.Rights)}
	switch {
	case !operator.PlainName(one.Name):
		return n, fault.BadConfig(`write name = "ingrid"`, "%s: the name is not of letters, digits and . _ - @", what)
	case org.CheckEmail(one.Email) != nil:
		return n, fault.BadConfig(`write email = "ingrid@example.com"`, "%s: %q is not an email", what, one.Email)
	case n.Rights == 0:
		return n, fault.BadConfig("use read, act or admin", "%s: the rights %q are unknown", what, one.Rights)
	case n.Hash != "" && one.PasswordHashFile != "":
		return n, fault.BadConfig("take one of them out", "%s: both password_hash and password_hash_file are set", what)
	case one.PasswordHashFile != "":
		b, err := readSecret(what+" password_hash_file", one.PasswordHashFile, "run: (umask 077; grantkeeper operator hash-password > "+one.PasswordHashFile+")")
		if err != nil {
			return n, err
		}
		n.Hash = strings.TrimRight(string(b), "\r\n")
	case n.Hash == "" && (len(c.Providers) == 0 || c.ConsoleURL == ""):
		return n, fault.BadConfig("run: grantkeeper operator hash-password; or add [[signin.providers]] and operator.public_url",
			"%s: there is no password_hash, and no provider to sign in at", what)
	case n.Hash == "":
		return n, nil
	}
	h, err := identity.ReadPasswordHash(n.Hash)
	if err == nil {
		err = h.CheckImported()
	}
	if err != nil {
		return n, fault.BadConfig("run: grantkeeper operator hash-password", "%s: password_hash: %v", what, err)
	}
	return n, nil
}

// readPublicURL reads where browsers reach the console, and adds its host to those
// that are answered.
func (c *Checked) readPublicURL() error {
	if c.Operator.PublicURL == "" {
		return nil
	}
	base, _, name, err := ParseBase(c.Operator.PublicURL)
	if err == nil {
		err = askedAs(name)
	}
	if err != nil {
		return fault.BadConfig(`write public_url = "https://operators.example.com"`, "operator.public_url: %v", err)
	}
	c.ConsoleURL, c.OperatorHosts = base, append(c.OperatorHosts, name)
	return nil
}
