package probe

import "strings"

// A challenge is one of WWW-Authenticate (RFC 9110 section 11.6.1).
type challenge struct {
	scheme string
	params map[string]string // by names in small letters
	loose  bool              // a value is neither a token nor quoted, or stands twice
}

func (c challenge) bearer() bool { return strings.EqualFold(c.scheme, "Bearer") }

const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// challenges reads fields as leniently as clients do, and says of each where it took
// leave to.
func challenges(fields []string) (all []challenge) {
	for _, field := range fields {
		s := scan(field)
		var at *challenge
		for s.skip(" \t,"); s != ""; s.skip(" \t,") {
			word := s.take(tokenChars)
			if word == "" { // what no grammar has here
				if s = s[1:]; at != nil {
					at.loose = true
				}
				continue
			}
			rest := s
			if rest.skip(" \t"); at != nil && strings.HasPrefix(string(rest), "=") && !strings.HasPrefix(string(rest), "==") {
				s = rest[1:]
				s.skip(" \t")
				value, plain := s.value()
				at.set(strings.ToLower(word), value, plain)
				continue
			}
			all = append(all, challenge{scheme: word, params: map[string]string{}})
			at = &all[len(all)-1]
			s.token68()
		}
	}
	return all
}

func (c *challenge) set(name, value string, plain bool) {
	if _, twice := c.params[name]; twice {
		c.loose = true
		return
	}
	c.params[name] = value
	c.loose = c.loose || !plain
}

// scan is what is left of a field.
type scan string

func (s *scan) skip(chars string) { *s = scan(strings.TrimLeft(string(*s), chars)) }

func (s *scan) take(chars string) string {
	rest := strings.TrimLeft(string(*s), chars)
	word := string(*s)[:len(*s)-len(rest)]
	*s = scan(rest)
	return word
}

// value reads a token or a quoted string; plain is false where it is neither.
func (s *scan) value() (value string, plain bool) {
	if !strings.HasPrefix(string(*s), `"`) {
		value, rest := string(*s), scan("")
		if i := strings.IndexAny(value, ", \t"); i >= 0 {
			value, rest = value[:i], scan(value[i:])
		}
		*s = rest
		return value, value != "" && strings.Trim(value, tokenChars) == ""
	}
	var b strings.Builder
	text := string(*s)
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			*s = scan(text[i+1:])
			return b.String(), true
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	*s = ""
	return b.String(), false // no quote ends it
}

// token68 leaves out the credentials-like word that some schemes have instead of
// parameters.
func (s *scan) token68() {
	rest := *s
	rest.skip(" ")
	word := rest.take(tokenChars + "/=")
	if rest.skip(" \t"); strings.HasSuffix(word, "=") && (rest == "" || rest[0] == ',') {
		*s = rest
	}
}
