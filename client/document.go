package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The bounds of a client ID metadata document (draft-ietf-oauth-client-id-metadata-document,
// decision R8). The draft recommends 5 kB for its size; what it says of caching lets a
// server set bounds of its own.
const (
	MaxDocumentURL = 256     // characters of a client ID that is the URL of one
	MaxDocument    = 8 << 10 // bytes
	LeastKept      = 5 * time.Minute
	UsuallyKept    = time.Hour // where it says nothing of how long it is good for
	MostKept       = 24 * time.Hour
)

// AnyHost stands for every public host where hosts of documents are listed.
const AnyHost = "any"

// IsURL reports whether a client ID is meant as the URL of a document. No ID that is
// made here begins so.
func IsURL(id string) bool { return strings.HasPrefix(id, "https://") }

// CheckDocumentHost says why no document can be at a host: it is an address, or none
// that is public, or not written as the host of a client ID is, in lower case and in
// A-labels. ownHosts are the hosts of the service itself: no client lives there.
func CheckDocumentHost(host string, ownHosts []string) error {
	if err := CheckRuleHost(host); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return errors.New("it is an address, which names nobody")
	}
	return checkHost(host, ownHosts)
}

// DocumentHost gives the host of a client ID that is the URL of a document; or it says
// what is wrong, in words that hold nothing of the URL. Client IDs are compared byte
// for byte, so what has two spellings of one place is refused: a port, and a host in
// capitals. A query the draft advises against.
func DocumentHost(id string, ownHosts []string) (string, error) {
	if len(id) > MaxDocumentURL {
		return "", fmt.Errorf("it has more than %d characters", MaxDocumentURL)
	}
	if err := CheckBytes(id); err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(id, "https://")
	if !ok {
		return "", errors.New("it must begin with https://")
	}
	host, path, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(id, "?"):
		return "", errors.New("a query is not allowed")
	case path == "":
		return "", errors.New("it needs a path")
	case strings.ContainsAny(path, "[]"):
		return "", errors.New("brackets are not allowed")
	case hasDotSegment(path):
		return "", errors.New("the path has a segment of one or two dots")
	case strings.Contains(host, "@"):
		return "", errors.New("user information is not allowed")
	case strings.Contains(host, ":") && !strings.HasPrefix(host, "["):
		return "", errors.New("a port is not allowed")
	}
	if err := CheckDocumentHost(host, ownHosts); err != nil {
		return "", fmt.Errorf("the host: %w", err)
	}
	return host, nil
}

// A DocumentFault is what a document cannot be believed for.
type DocumentFault uint8

const (
	NotJSON        DocumentFault = iota + 1 // no strict JSON, or a member of another type
	OtherClient                             // it has no client_id, or another than its URL
	NotPublic                               // it speaks of a secret, or of authentication
	NoRedirectURI                           // none of them can be taken here, or too many
	NotThisGrant                            // it does without the code that all is about here
	NameNotAllowed                          // its name is none
)

// A BadDocument says what is wrong with a document, in words that hold nothing of it.
type BadDocument struct {
	Fault  DocumentFault
	Detail string
}

func (b *BadDocument) Error() string { return b.Detail }

// ParseDocument reads the document at the URL id. It is written for all servers and
// not for this one, so what cannot be done here is left out: grant types, response types,
// and redirect URIs that CheckRedirectURI refuses, such as those on loopback. What is
// left of them has to be 1 to MaxRedirectURIs. But a document that declares authentication,
// and not that its client does without where a server has none, is refused: all clients
// are public here, and one that says private_key_jwt alone must not be let in without it
// (section 8.2 of the draft). Members that are not known
// are ignored, and null counts as not sent.
func ParseDocument(id string, text []byte, ownHosts []string) (Metadata, *BadDocument) {
	bad := func(f DocumentFault, format string, args ...any) (Metadata, *BadDocument) {
		return Metadata{}, &BadDocument{f, fmt.Sprintf(format, args...)}
	}
	members, err := readObject(text)
	if err != nil {
		return bad(NotJSON, "%s", strings.Replace(err.Error(), "the body", "the document", 1))
	}
	if hasLoneSurrogate(text) {
		return bad(NotJSON, "the document holds half of a surrogate pair")
	}
	if said, ok := parseString(members["client_id"]); !ok || said != id {
		return bad(OtherClient, "client_id: it is not the document's URL, byte for byte")
	}
	for _, secret := range []string{"client_secret", "client_secret_expires_at"} {
		if _, sent := members[secret]; sent {
			return bad(NotPublic, "%s: a public document has no secret", secret)
		}
	}
	if !public(members) {
		return bad(NotPublic, "token_endpoint_auth_method: it must be none, or not there, or token_endpoint_auth_methods_supported must have none: all clients are public here")
	}
	for member, needed := range map[string]string{"grant_types": "authorization_code", "response_types": "code"} {
		if err := includes(members, member, needed); err != nil {
			return bad(NotThisGrant, "%v", err)
		}
	}
	uris, err := documentRedirects(members["redirect_uris"], ownHosts)
	if err != nil {
		return bad(NoRedirectURI, "redirect_uris: %v", err)
	}
	var name string
	if raw, sent := members["client_name"]; sent {
		var ok bool
		if name, ok = parseString(raw); !ok {
			return bad(NameNotAllowed, "client_name: it must be a string")
		}
		if err := CheckName(name); err != nil {
			return bad(NameNotAllowed, "client_name: %v", err)
		}
	}
	return Metadata{Name: reported(name), RedirectURIs: uris}, nil
}

// public reports whether a client does without authentication: by its one method, or as
// one of those that it supports, among which a server chooses (OpenID Connect Relying
// Party Metadata Choices 1.0).
func public(members map[string]json.RawMessage) bool {
	raw, sent := members["token_endpoint_auth_method"]
	if method, ok := parseString(raw); !sent || ok && method == "none" {
		return true
	}
	if !isMethod(raw) {
		return false
	}
	choices, ok := parseStrings(members["token_endpoint_auth_methods_supported"])
	return ok && slices.Contains(choices, "none")
}

// isMethod reports whether a member names a method that needs no shared secret, which no
// document may (section 4.1 of the draft).
func isMethod(raw json.RawMessage) bool {
	method, ok := parseString(raw)
	return ok && !strings.HasPrefix(method, "client_secret_")
}

// includes refuses a list that was sent without a value.
func includes(members map[string]json.RawMessage, member, needed string) error {
	raw, sent := members[member]
	if !sent {
		return nil
	}
	values, ok := parseStrings(raw)
	switch {
	case !ok:
		return fmt.Errorf("%s: it must be an array of strings", member)
	case !slices.Contains(values, needed):
		return fmt.Errorf("%s: it does without %s", member, needed)
	}
	return nil
}

// documentRedirects leaves the redirect URIs that can be taken here. Without any it
// says what is wrong with the first.
func documentRedirects(raw json.RawMessage, ownHosts []string) (taken []string, err error) {
	if raw == nil {
		return nil, errors.New("it is missing")
	}
	uris, ok := parseStrings(raw)
	if !ok {
		return nil, errors.New("it must be an array of strings")
	}
	for _, uri := range uris {
		wrong := CheckRedirectURI(uri, ownHosts)
		switch {
		case wrong == nil && !slices.Contains(taken, uri):
			taken = append(taken, uri)
		case wrong != nil && err == nil:
			err = fmt.Errorf("none of them can be taken: the first: %w", wrong)
		}
	}
	switch {
	case len(taken) > MaxRedirectURIs:
		return nil, fmt.Errorf("it has more than %d that can be taken", MaxRedirectURIs)
	case len(taken) > 0:
		return taken, nil
	case err == nil:
		return nil, errors.New("it is empty")
	}
	return nil, err
}

// KeptFor says for how long a document that came with these header fields, by their
// canonical names, is good (RFC 9111 sections 4.2 and 5.2.2): between LeastKept, however
// short it is said to be, and MostKept. Dates of the other side are compared with each
// other alone.
func KeptFor(header map[string][]string) time.Duration {
	age, said := fresh(header)
	if !said {
		return UsuallyKept
	}
	return min(max(age-seconds(first(header["Age"])), LeastKept), MostKept)
}

// fresh gives the lifetime that the header fields name, if any.
func fresh(header map[string][]string) (age time.Duration, said bool) {
	directives := map[string]string{}
	for directive := range strings.SplitSeq(strings.Join(header["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		name, value = strings.ToLower(name), strings.Trim(value, `"`)
		if was, twice := directives[name]; twice && was != value {
			value = "0" // RFC 9111 section 4.2.1: two that differ are stale
		}
		directives[name] = value
	}
	for _, none := range []string{"no-store", "no-cache"} {
		if _, ok := directives[none]; ok {
			return 0, true
		}
	}
	for _, name := range []string{"s-maxage", "max-age"} { // what is kept serves everybody
		if value, ok := directives[name]; ok {
			return seconds(value), true
		}
	}
	if expires := first(header["Expires"]); expires != "" {
		until, wrong := time.Parse(time.RFC1123, expires)
		since, none := time.Parse(time.RFC1123, first(header["Date"]))
		if wrong != nil || none != nil {
			return 0, true
		}
		return until.Sub(since), true
	}
	return 0, false
}

// seconds reads a delta of seconds, which is none where it is no number; more than
// MostKept makes no difference.
func seconds(s string) time.Duration {
	n, _ := strconv.ParseUint(s, 10, 64) // the largest there is, where it is larger
	return time.Duration(min(n, uint64(10*MostKept/time.Second))) * time.Second
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
