package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"github.com/grantkeeper/grantkeeper/org"
)

// Rights say how much an operator may do; each has those before it.
type Rights int

const (
	Read       Rights = iota + 1 // look at everything
	Act                          // end or mend one thing that somebody can begin again
	Administer                   // all else
)

// rightsNames are the rights as the configuration has them.
var rightsNames = map[string]Rights{"read": Read, "act": Act, "admin": Administer}

// ReadRights reads the rights of a configuration; 0 are unknown.
func ReadRights(name string) Rights { return rightsNames[name] }

// Words say the rights after the word may.
func (r Rights) Words() string {
	return [...]string{"do nothing", "read", "read and change", "read, change and administer"}[r]
}

// The bounds of a named operator's password: in characters, and in bytes.
const (
	MinPassword = 12
	MaxPassword = 1000
)

// maxName bounds the name of an operator, in bytes.
const maxName = 64

// PlainName reports whether a name can stand behind operator: in the journal:
// letters and digits of ASCII and a few signs.
func PlainName(name string) bool {
	plain := func(c rune) bool {
		return c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("._-@\\", c))
	}
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(c rune) bool { return !plain(c) })
}

// A Named is an operator who signs in at the console by name (decision O6).
type Named struct {
	Name   string // plain: the journal's actor is operator:NAME
	Email  string
	Hash   string // of the password, a PHC string; "" signs in at a provider alone
	Rights Rights
}

// ByPassword is the way of who signs in with a password; others are IDs of providers.
const ByPassword = "password"

// bound is what a session that began by a way stands on. It is another one as soon
// as the configuration has another email or password, so that the session ends.
func (n Named) bound(way string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{way, n.Name, org.EmailKey(n.Email), n.Hash}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// someNamed reports whether a name is an operator's but for the case of A-Z.
func (s *Server) someNamed(name string) bool {
	for _, n := range s.operators() {
		if org.LowerASCII(n.Name) == org.LowerASCII(name) {
			return true
		}
	}
	return false
}

// named gives the operator of a name, as the configuration has it now.
func (s *Server) named(name string) (Named, bool) {
	for _, n := range s.operators() {
		if n.Name == name {
			return n, true
		}
	}
	return Named{}, false
}

// operators are those who sign in by name; there may be none.
func (s *Server) operators() []Named {
	if s.Operators == nil {
		return nil
	}
	return s.Operators()
}
