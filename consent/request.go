package consent

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/token"
)

// maxState is the most bytes that a state may have (decision A4).
const maxState = 4096

// pageLifetime is how long a consent page can be answered before it is shown
// again (ux 5.7: an old page is no error, it asks once more).
const pageLifetime = 30 * time.Minute

// parameters are those of an authorization request by name. What has an empty
// value counts as not sent (decision A6).
type parameters map[string]parameter

type parameter struct {
	values []string
	broken bool // a value with a broken percent escape
}

// parseParameters reads a query. Every string is one: a name that cannot be
// read is unknown, and so ignored like all unknown ones.
func parseParameters(query string) parameters {
	p := parameters{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || value == "" {
			continue
		}
		q := p[name]
		if value, err = url.QueryUnescape(value); err != nil {
			q.broken = true
		}
		q.values = append(q.values, value)
		p[name] = q
	}
	return p
}

// one gives the value of a parameter that was sent once and can be read.
func (p parameters) one(name string) (string, bool) {
	q := p[name]
	if q.broken || len(q.values) != 1 {
		return "", false
	}
	return q.values[0], true
}

// A fault is what is wrong with a request whose client and redirect URI are
// right (decisions A2 and A3). The description fits into the query of a
// redirect: RFC 6749 section 4.1.2.1 allows neither quotes nor backslashes.
type fault struct {
	code, description string
}

// An authorization is a request that is in order (spec 4.1).
type authorization struct {
	Client      string `json:"client"`
	RedirectURI string `json:"redirect_uri"`
	State       []byte `json:"state,omitempty"`
	Challenge   string `json:"challenge"`
	Issuer      string `json:"issuer"` // {base} that was asked
	// Bound is the thumbprint of the key that alone may exchange the code; none is any.
	Bound []byte `json:"bound,omitempty"`
}

// client gives the client ID of a request, whatever else is wrong in it; "" is
// what cannot be an ID.
func (p parameters) client() string {
	id, ok := p.one("client_id")
	if !ok || len(id) > client.MaxID || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return ""
	}
	return id
}

// authorization reads what is left to check once client and redirect URI are
// right. With a fault it still has what the answer to the client needs.
func (p parameters) authorization(clientID, redirectURI, base string, more client.Resources) (authorization, *fault) {
	a := authorization{Client: clientID, RedirectURI: redirectURI, Issuer: base}
	state, wrong := p.state()
	if a.State = state; wrong != nil {
		return a, wrong
	}
	for _, name := range []string{"response_type", "code_challenge", "code_challenge_method", "scope", "dpop_jkt"} {
		switch q := p[name]; {
		case len(q.values) > 1:
			return a, &fault{"invalid_request", name + " is sent more than once"}
		case q.broken:
			return a, &fault{"invalid_request", name + " has a broken percent escape"}
		}
	}
	if wrong := p.responseType(); wrong != nil {
		return a, wrong
	}
	if wrong := p.challenge(); wrong != nil {
		return a, wrong
	}
	a.Challenge, _ = p.one("code_challenge")
	if a.Bound, wrong = p.bound(); wrong != nil {
		return a, wrong
	}
	if scope, sent := p.one("scope"); sent && scope != "api" {
		return a, &fault{"invalid_scope", "the only scope is api"}
	}
	if wrong := p.resource(base, more); wrong != nil {
		return a, wrong
	}
	return a, nil
}

// state gives the bytes that come back to the client (decision A4).
func (p parameters) state() ([]byte, *fault) {
	switch q := p["state"]; {
	case len(q.values) == 0:
		return nil, nil
	case len(q.values) > 1:
		return nil, &fault{"invalid_request", "state is sent more than once"}
	case q.broken:
		return nil, &fault{"invalid_request", "state has a broken percent escape"}
	case len(q.values[0]) > maxState:
		return nil, &fault{"invalid_request", "state has more than 4096 bytes"}
	case !org.Storable(q.values[0]):
		return nil, &fault{"invalid_request", "state is not UTF-8 text without NUL"}
	default:
		return []byte(q.values[0]), nil
	}
}

func (p parameters) responseType() *fault {
	switch t, sent := p.one("response_type"); {
	case !sent:
		return &fault{"invalid_request", "response_type is missing; it must be code"}
	case t != "code":
		return &fault{"unsupported_response_type", "the only response_type is code"}
	}
	return nil
}

// challenge checks PKCE, which no client may leave out (spec section 5 item 3,
// decision A8).
func (p parameters) challenge() *fault {
	challenge, sent := p.one("code_challenge")
	if !sent {
		return &fault{"invalid_request", "code_challenge is missing"}
	}
	if len(challenge) != 43 || strings.ContainsFunc(challenge, notBase64URL) {
		return &fault{"invalid_request", "code_challenge must be 43 characters of base64url"}
	}
	switch method, sent := p.one("code_challenge_method"); {
	case !sent:
		return &fault{"invalid_request", "code_challenge_method is missing; it must be S256"}
	case method != "S256":
		return &fault{"invalid_request", "the only code_challenge_method is S256"}
	}
	return nil
}

// bound gives the key that the code shall be bound to (RFC 9449 section 10), if any.
func (p parameters) bound() ([]byte, *fault) {
	text, sent := p.one("dpop_jkt")
	if !sent {
		return nil, nil
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != sha256.Size || len(text) != base64.RawURLEncoding.EncodedLen(sha256.Size) {
		return nil, &fault{"invalid_request", "dpop_jkt must be 43 characters of base64url"}
	}
	return key, nil
}

func notBase64URL(r rune) bool {
	return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// resource may repeat; each must name what this server guards (RFC 8707, decision A7).
func (p parameters) resource(base string, more client.Resources) *fault {
	q := p["resource"]
	if q.broken {
		return &fault{"invalid_request", "resource has a broken percent escape"}
	}
	if _, other := q.otherResource(base, more); other {
		return &fault{"invalid_target", "resource is not an API of this server"}
	}
	return nil
}

// otherResource gives the first that this server does not guard.
func (p parameter) otherResource(base string, more client.Resources) (string, bool) {
	i := slices.IndexFunc(p.values, func(r string) bool { return !more.ServedAt(base, r) })
	if i < 0 {
		return "", false
	}
	return p.values[i], true
}

// path leads to the consent page of this request, by the server's own path.
func (a authorization) path() string {
	params := []string{"response_type", "code", "client_id", a.Client, "redirect_uri", a.RedirectURI,
		"code_challenge", a.Challenge, "code_challenge_method", "S256", "state", string(a.State)}
	if len(a.Bound) > 0 {
		params = append(params, "dpop_jkt", base64.RawURLEncoding.EncodeToString(a.Bound))
	}
	return page.WithQuery("/oauth/authorize", params...)
}

// redirect is where the browser goes with the answer: the registered bytes,
// the answer's parameters, state as it came and iss (decisions A4 and A5).
func (a authorization) redirect(params ...string) string {
	return page.WithQuery(a.RedirectURI, append(params, "state", string(a.State), "iss", a.Issuer)...)
}

// bindsTo is the key of Bound.
func (a authorization) bindsTo() (key approval.Thumbprint) {
	copy(key[:], a.Bound)
	return key
}

// A question is one consent page: the request that it asks about, whom, and the
// nonce from which the approval's handle is derived (decision A12). It travels
// inside the page, so any number of tabs work at once.
type question struct {
	authorization
	Person string `json:"person"`
	Nonce  []byte `json:"nonce"` // 16 random bytes
	Made   int64  `json:"made"`  // Unix seconds
	Key    int    `json:"key"`   // number of the key that handles are derived under: sealing it again changes nothing
}

func (s *Server) sealQuestion(p question) string { return s.Seal(sealedPage, p) }

func (s *Server) openQuestion(sealed string) (p question, ok bool) {
	if !s.Open(sealedPage, sealed, &p) || len(p.Nonce) != 16 {
		return question{}, false
	}
	_, ok = s.Ring.Handle(p.Key, [16]byte(p.Nonce), 0)
	return p, ok
}

// handleOf derives the handles of the approvals that this page leads to.
func (s *Server) handleOf(p question) func(attempt uint32) token.Handle {
	return func(attempt uint32) token.Handle {
		h, _ := s.Ring.Handle(p.Key, [16]byte(p.Nonce), attempt) // openPage has seen the key
		return h
	}
}

func (p question) old(now time.Time) bool {
	return now.Sub(time.Unix(p.Made, 0)) > pageLifetime
}
