package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// MaxBody is the most bytes that a registration may have (decision R1). Who
// reads the request keeps to it.
const MaxBody = 64 << 10

// MaxRedirectURIs is the most entries that redirect_uris may have. spec
// section 8.
const MaxRedirectURIs = 5

// maxDepth bounds how deep objects and arrays may stand in each other. What
// is known needs 2; the rest is for unknown members.
const maxDepth = 32

// The codes of a Refusal. RFC 7591 section 3.2.2; decision R7 says which.
const (
	InvalidRedirectURI    = "invalid_redirect_uri"
	InvalidClientMetadata = "invalid_client_metadata"
)

// Metadata is what is kept of a registration that was accepted. The members
// that every client has alike are not here: see Response.
type Metadata struct {
	Name         string   // "" when none was sent, or none that shows
	RedirectURIs []string // 1 to MaxRedirectURIs, unchanged
}

// A Refusal says why a registration was refused. It is not an error of ours,
// so it does not implement error.
type Refusal struct {
	Code        string // InvalidRedirectURI or InvalidClientMetadata
	Description string // for error_description: in the characters of RFC 6749 section 5.2, and nothing of what was sent
}

// ParseMetadata reads the JSON body of a registration by spec 2.1 and
// decisions R1 to R4. ownHosts are the hosts of the service itself, lower case
// and without port: no client may live there.
//
// Members that are not known are ignored, and null counts as not sent. What a
// client asks for in token_endpoint_auth_method and scope is replaced, so only
// its type is looked at.
func ParseMetadata(body []byte, ownHosts []string) (Metadata, *Refusal) {
	members, err := readObject(body)
	if err != nil {
		return Metadata{}, &Refusal{InvalidClientMetadata, err.Error()}
	}
	uris, err := parseRedirectURIs(members["redirect_uris"], ownHosts)
	if err != nil {
		return Metadata{}, &Refusal{InvalidRedirectURI, err.Error()}
	}
	// After the redirect URIs, because one of these in an entry is that
	// entry's fault: it was read as U+FFFD and refused there.
	if hasLoneSurrogate(body) {
		return Metadata{}, &Refusal{InvalidClientMetadata, "the body holds half of a surrogate pair"}
	}
	name, err := parseRest(members)
	if err != nil {
		return Metadata{}, &Refusal{InvalidClientMetadata, err.Error()}
	}
	return Metadata{Name: name, RedirectURIs: uris}, nil
}

// Named gives what a registration calls its client, also one that is refused, as far as
// it can be read: the name, and the host of the first redirect URI that has a public one.
// What says nothing is "". Nobody has checked more of it than that pages can show it.
func Named(body []byte) (name, host string) {
	members, err := readObject(body)
	if err != nil || hasLoneSurrogate(body) {
		return "", ""
	}
	if text, _ := parseString(members["client_name"]); CheckName(text) == nil {
		name = reported(text)
	}
	uris, _ := parseStrings(members["redirect_uris"])
	for _, uri := range uris {
		uri, _, _ = strings.Cut(uri, "#") // for which it may be refused
		if !strings.HasPrefix(uri, "https://") && !strings.HasPrefix(uri, "http://") || CheckBytes(uri) != nil {
			continue
		}
		if at := HostOf(uri); CheckRuleHost(at) == nil {
			return name, at
		}
	}
	return name, ""
}

// parseRest checks every known member but redirect_uris and gives the name.
func parseRest(members map[string]json.RawMessage) (name string, err error) {
	for _, member := range []string{"client_name", "token_endpoint_auth_method", "scope"} {
		if raw, sent := members[member]; sent {
			if _, ok := parseString(raw); !ok {
				return "", fmt.Errorf("%s: it must be a string", member)
			}
		}
	}
	if err := onlyOf(members, "grant_types", "authorization_code", "refresh_token"); err != nil {
		return "", err
	}
	if err := onlyOf(members, "response_types", "code"); err != nil {
		return "", err
	}
	name, _ = parseString(members["client_name"])
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("client_name: %w", err)
	}
	return reported(name), nil
}

func parseRedirectURIs(raw json.RawMessage, ownHosts []string) ([]string, error) {
	if raw == nil {
		return nil, errors.New("redirect_uris: it is missing")
	}
	uris, ok := parseStrings(raw)
	if !ok {
		return nil, errors.New("redirect_uris: it must be an array of strings")
	}
	return uris, checkRedirectURIs(uris, ownHosts)
}

func checkRedirectURIs(uris, ownHosts []string) error {
	if len(uris) == 0 || len(uris) > MaxRedirectURIs {
		return fmt.Errorf("redirect_uris: it must have 1 to %d entries", MaxRedirectURIs)
	}
	for i, uri := range uris {
		if err := CheckRedirectURI(uri, ownHosts); err != nil {
			return fmt.Errorf("redirect_uris[%d]: %w", i, err)
		}
	}
	return nil
}

// onlyOf refuses a list that holds anything but the allowed strings. An empty
// list asks for nothing that is not allowed, and the answer is always the
// whole of it (decision R4).
func onlyOf(members map[string]json.RawMessage, member string, allowed ...string) error {
	raw, sent := members[member]
	if !sent {
		return nil
	}
	values, ok := parseStrings(raw)
	if !ok {
		return fmt.Errorf("%s: it must be an array of strings", member)
	}
next:
	for i, v := range values {
		for _, a := range allowed {
			if v == a {
				continue next
			}
		}
		return fmt.Errorf("%s[%d]: this value is not supported", member, i)
	}
	return nil
}

// parseString reads a JSON string and nothing else: encoding/json alone would
// take null for "".
func parseString(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func parseStrings(raw json.RawMessage) ([]string, bool) {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return nil, false
	}
	all := make([]string, 0, len(entries))
	for _, e := range entries {
		s, ok := parseString(e)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// readObject is the strict reading of decision R1. It gives the members that were
// sent with something other than null, by their exact names.
func readObject(body []byte) (map[string]json.RawMessage, error) {
	members, err := strictjson.Object(body, maxDepth)
	if err != nil {
		return nil, errors.New("the body " + strings.TrimPrefix(err.Error(), "it "))
	}
	maps.DeleteFunc(members, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
	return members, nil
}

// hasLoneSurrogate says whether valid JSON holds an escape of half a surrogate
// pair, which encoding/json would turn to U+FFFD without a word.
func hasLoneSurrogate(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // the escaped character
		if body[i] != 'u' {
			continue
		}
		first := hex4(body[i+1:])
		i += 4
		if !utf16.IsSurrogate(first) {
			continue
		}
		if !bytes.HasPrefix(body[i+1:], []byte(`\u`)) ||
			utf16.DecodeRune(first, hex4(body[i+3:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// hex4 reads the four digits that valid JSON has after \u.
func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		r = r<<4 | rune(unhex(c))
	}
	return r
}
