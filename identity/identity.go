// Package identity is what Grantkeeper and services tell each other of people.
//
// A service behind it is told about a call: for whom it is made and how far it
// may go, as signed HTTP headers. A service written in Go calls [Verify], or has
// httpidentity do it; for others contrib/verify has files to copy and test vectors,
// and docs/integrating.md says what is signed.
//
// Before a person approves, a service is asked what that would give: a
// [PreviewQuestion].
//
// A service where people have their accounts says who is signed in there, as
// an [Assertion]; for other languages see docs/signin.md.
//
// It imports nothing of the server, so a service that uses it links none of it.
package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers. A value that is empty is not sent.
const (
	HeaderPerson       = "X-Grantkeeper-Person"
	HeaderOrganization = "X-Grantkeeper-Organization"
	HeaderApproval     = "X-Grantkeeper-Approval"
	HeaderClient       = "X-Grantkeeper-Client"
	HeaderGrant        = "X-Grantkeeper-Grant"
	HeaderAuthority    = "X-Grantkeeper-Authority"
	HeaderSignature    = "X-Grantkeeper-Signature"
)

// Prefix is how the name of each of them begins, and of no other header.
const Prefix = "X-Grantkeeper-"

// signed are the headers under the signature, in its order.
var signed = [...]string{HeaderPerson, HeaderOrganization, HeaderApproval, HeaderClient, HeaderGrant, HeaderAuthority}

// Tolerance is how far the signature's time may be from the reader's clock, in
// either direction. A copy of the headers is worth nothing after it.
const Tolerance = time.Minute

// MinKey is the least length of a key, in bytes.
const MinKey = 32

// Identity is who a call is made for. The zero Identity is nobody.
type Identity struct {
	Person       string // ID
	Organization string // ID: the only one that the call may touch
	Approval     string // ID; empty when an API key was sent
	Client       string // client ID; empty when an API key was sent
	Grant        string // what the person chose (spec 2.4) and the organization lets stand: roles, everything or organization

	// What that leaves of the person's rights at this moment (decision P6).
	// What every member of the organization sees may be read in any case.
	Admin    bool   // circles, roles, fillers and members may be changed
	Personal bool   // the person's own items may be read and changed
	Roles    []Role // under the grant roles alone: through these, by ID

	// Limits that the organization sets for all apps (decision V64). Under them Admin
	// and Personal are false where the limit would be passed over by who asks no more.
	ReadOnly      bool     // nothing may be changed
	Never         []string // IDs, under the other grants: not through these roles
	AdminWithin   bool     // as Admin, but for items of the roles in Never, and under ReadOnly to read
	PersonalReads bool     // the person's own items may be read, and not changed
}

// Role is one that may be acted through.
type Role struct {
	ID     string
	Change bool // else read only
}

// Acts gives "none", "read" or "change": what may be done through a role that
// the person fills. Under the grants everything and organization that is all
// that the person may do; whether they fill it, the service knows.
func (i Identity) Acts(role string) string {
	acts := "none"
	if i.Grant == "everything" || i.Grant == "organization" {
		acts = "change"
	}
	for _, r := range slices.Backward(i.Roles) { // the first counts
		if r.ID == role {
			acts = r.access()
		}
	}
	switch {
	case slices.Contains(i.Never, role):
		return "none"
	case i.ReadOnly && acts == "change":
		return "read"
	}
	return acts
}

func (r Role) access() string {
	if r.Change {
		return "change"
	}
	return "read"
}

// authority writes what the header of that name says: words with commas
// between them, readonly, admin, personal, and role=read, role=change or role=none.
// Neither sign can stand in the ID of a role. Readers that do not know readonly and
// role=none refuse them.
func (i Identity) authority() string {
	var words []string
	for _, w := range []struct {
		said bool
		word string
	}{{i.ReadOnly, "readonly"}, {i.Admin || i.AdminWithin, "admin"}, {i.Personal || i.PersonalReads, "personal"}} {
		if w.said {
			words = append(words, w.word)
		}
	}
	for _, r := range i.Roles {
		words = append(words, r.ID+"="+r.access())
	}
	for _, role := range i.Never {
		words = append(words, role+"=none")
	}
	return strings.Join(words, ",")
}

func (i *Identity) readAuthority(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		role, access, _ := strings.Cut(word, "=")
		switch {
		case s == "":
		case word == "readonly":
			i.ReadOnly = true
		case word == "admin":
			i.Admin = true
		case word == "personal":
			i.Personal = true
		case role != "" && (access == "read" || access == "change"):
			i.Roles = append(i.Roles, Role{role, access == "change"})
		case role != "" && access == "none":
			i.Never = append(i.Never, role)
		default:
			return fmt.Errorf("%s: unknown word %q", HeaderAuthority, word)
		}
	}
	if i.Admin && (i.ReadOnly || i.Never != nil) {
		i.Admin, i.AdminWithin = false, true
	}
	if i.Personal && i.ReadOnly {
		i.Personal, i.PersonalReads = false, true
	}
	return nil
}

// Sign gives the headers that say who this is, signed with a key of at least
// MinKey bytes at a time. A value that could not stand in a header safely is
// an error.
func (i Identity) Sign(key []byte, now time.Time) (map[string]string, error) {
	if len(key) < MinKey {
		return nil, fmt.Errorf("a key has at least %d bytes, not %d", MinKey, len(key))
	}
	values := [len(signed)]string{i.Person, i.Organization, i.Approval, i.Client, i.Grant, i.authority()}
	headers := make(map[string]string, len(signed)+1)
	for n, v := range values {
		if !visible(v) {
			return nil, fmt.Errorf("%s: %q has more than visible ASCII characters", signed[n], v)
		}
		if v != "" {
			headers[signed[n]] = v
		}
	}
	t := strconv.FormatInt(now.Unix(), 10)
	headers[HeaderSignature] = "t=" + t + ",v1=" + hex.EncodeToString(mac(key, t, values))
	return headers, nil
}

// mac is HMAC-SHA256 over lines, each ended by a line feed: v1, the time, and
// the values in order, an empty line for one that is not sent.
func mac(key []byte, t string, values [len(signed)]string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("v1\n" + t + "\n"))
	for _, v := range values {
		h.Write([]byte(v + "\n"))
	}
	return h.Sum(nil)
}

// visible reports whether s has visible ASCII characters only, and no space.
func visible(s string) bool {
	for n := range len(s) {
		if s[n] < 0x21 || s[n] > 0x7e {
			return false
		}
	}
	return true
}

// Verify reads the headers of a request, for instance its http.Header. They
// must be signed with one of the keys, at most Tolerance from now, and each
// sent once. Several keys are for the time in which one takes the place of
// another. The error says why it is nobody, and holds no secret.
func Verify(header map[string][]string, now time.Time, keys ...[]byte) (Identity, error) {
	signature, err := one(header, HeaderSignature)
	if err != nil {
		return Identity{}, err
	}
	t, sum, err := readSignature(signature)
	if err != nil {
		return Identity{}, err
	}
	var values [len(signed)]string
	for n, name := range signed {
		if values[n], err = one(header, name); err != nil {
			return Identity{}, err
		}
	}
	if !signedByOne(keys, t, values, sum) {
		return Identity{}, errors.New(HeaderSignature + ": not signed by a known key")
	}
	at, err := strconv.ParseInt(t, 10, 64)
	if away := now.Unix() - at; err != nil || strconv.FormatInt(at, 10) != t || away > int64(Tolerance/time.Second) || -away > int64(Tolerance/time.Second) {
		return Identity{}, errors.New(HeaderSignature + ": signed at another time than now")
	}
	i := Identity{Person: values[0], Organization: values[1], Approval: values[2], Client: values[3], Grant: values[4]}
	if err := i.readAuthority(values[5]); err != nil {
		return Identity{}, err
	}
	return i, nil
}

// one gives the only value of a header, empty when it is not there. It stands
// under its canonical name, which no other spelling may join.
func one(header map[string][]string, name string) (string, error) {
	switch values := header[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		if !visible(values[0]) {
			return "", fmt.Errorf("%s: more than visible ASCII characters", name)
		}
		return values[0], nil
	}
	return "", fmt.Errorf("%s: sent twice", name)
}

// readSignature reads t=<Unix seconds>,v1=<64 hexadecimal digits>.
func readSignature(s string) (t string, sum []byte, err error) {
	if s == "" {
		return "", nil, errors.New(HeaderSignature + ": missing")
	}
	t, digits, _ := strings.Cut(strings.TrimPrefix(s, "t="), ",v1=")
	sum, ok := digest(digits)
	if !ok || "t="+t+",v1="+digits != s {
		return "", nil, errors.New(HeaderSignature + ": not t=<time>,v1=<signature>")
	}
	return t, sum, nil
}

// digest reads 64 hexadecimal digits, in the one form that is written.
func digest(s string) (sum []byte, ok bool) {
	sum, err := hex.DecodeString(s)
	return sum, err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == s
}

func signedByOne(keys [][]byte, t string, values [len(signed)]string, sum []byte) bool {
	good := false
	for _, key := range keys {
		if len(key) >= MinKey && hmac.Equal(mac(key, t, values), sum) {
			good = true
		}
	}
	return good
}
