package oauth

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"
)

// The bounds of a form. decision L5.
const (
	maxBody   = 64 << 10 // bytes
	maxFields = 100
)

// param is a parameter of the token or the revocation endpoint.
type param uint8

const (
	clientID param = iota
	clientSecret
	grantType
	code
	redirectURI
	codeVerifier
	refreshToken
	scope
	tokenParam
	tokenTypeHint
	params // how many

	resource // may repeat, so it has no single value
)

var paramNames = [...]string{
	clientID: "client_id", clientSecret: "client_secret", grantType: "grant_type", code: "code",
	redirectURI: "redirect_uri", codeVerifier: "code_verifier", refreshToken: "refresh_token",
	scope: "scope", tokenParam: "token", tokenTypeHint: "token_type_hint", resource: "resource",
}

var paramByName = func() map[string]param {
	m := map[string]param{}
	for p, name := range paramNames {
		if name != "" {
			m[name] = param(p)
		}
	}
	return m
}()

// form is what was sent to one of the two endpoints. A parameter without a
// value counts as not sent (decision A6).
type form struct {
	values    [params]string
	resources []string
}

// readForm reads the body alone; a query string is never looked at (decision
// T3). Its order is the second step of decision T14.
func readForm(r *http.Request) (*form, error) {
	if !isMedia(r, "application/x-www-form-urlencoded") {
		return nil, invalidRequest("Content-Type must be application/x-www-form-urlencoded, in UTF-8")
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	body, fault := readBody(r, maxBody, (*buf)[:0])
	*buf = body
	if fault != "" {
		return nil, invalidRequest(fault)
	}
	f := new(form)
	if fault := f.parse(string(body)); fault != "" {
		return nil, invalidRequest(fault)
	}
	return f, nil
}

// parse takes the fields of a body, and says what is wrong with it, or "".
// The rules hold for names that nobody knows too. Of one known name a second
// value is refused, even the same one; an empty field beside a value is none,
// as at the authorization endpoint (decision A6, RFC 6749 section 3.2).
func (f *form) parse(body string) (fault string) {
	for fields := 0; body != ""; {
		var field string
		field, body, _ = strings.Cut(body, "&")
		if field == "" {
			continue
		}
		if fields++; fields > maxFields {
			return "the body has too many parameters"
		}
		name, value, _ := strings.Cut(field, "=")
		name, ok := unescape(name)
		if !ok {
			return badText
		}
		if value, ok = unescape(value); !ok {
			return badText
		}
		if p, known := paramByName[name]; known && !f.put(p, value) {
			return "a parameter was sent twice: " + name
		}
	}
	return ""
}

const badText = "the body is not form-encoded UTF-8 text"

func (f *form) put(p param, value string) (first bool) {
	switch {
	case value == "":
		return true
	case p == resource:
		f.resources = append(f.resources, value)
		return true
	}
	first = f.values[p] == ""
	f.values[p] = value
	return first
}

// unescape decodes a name or a value. It refuses a broken %, NUL and what is
// not UTF-8.
func unescape(s string) (text string, ok bool) {
	plain := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == 0:
			return "", false
		case c == '%', c == '+', c >= utf8.RuneSelf:
			plain = false
		}
	}
	if plain {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '+':
			b = append(b, ' ')
		case '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return "", false
			}
			c := unhex(s[i+1])<<4 | unhex(s[i+2])
			if c == 0 {
				return "", false
			}
			b = append(b, c)
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b), utf8.Valid(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// isMedia reports whether the body is of the media type, and in UTF-8 as far
// as the header says.
func isMedia(r *http.Request, want string) bool {
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return false
	}
	if types[0] == want {
		return true
	}
	got, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || got != want {
		return false
	}
	charset, named := parameters["charset"]
	return !named || strings.EqualFold(charset, "utf-8")
}

// buffers hold bodies until they have been read.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// readBody appends the body to b, and says what is wrong with it, or "". One
// that says by itself that it has more than limit bytes is not read at all.
func readBody(r *http.Request, limit int, b []byte) (body []byte, fault string) {
	for _, coding := range r.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return b, "Content-Encoding is not supported"
		}
	}
	const tooLarge = "the body is too large"
	if r.ContentLength > int64(limit) {
		return b, tooLarge
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, tooLarge
		case err == io.EOF:
			return b, ""
		case err != nil:
			return b, "the body ended early"
		}
	}
}
