package activity

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/identity"
)

// Bounds of a record's texts, in bytes.
const (
	maxPath   = 256
	maxTool   = 128
	maxMethod = 16
	maxReason = 64
)

// Cut stands where something was left out.
const Cut = "…"

// Clean gives a record as it may be kept: each text is within its bound, in UTF-8 and
// without controls, and nothing in it may be a token. It changes nothing of a record that
// it gave.
func Clean(r Record) Record {
	r.Method, r.Tool, r.Reason = visible(r.Method, maxMethod), unsecret(visible(r.Tool, maxTool)), visible(r.Reason, maxReason)
	r.Path = Path(r.Path)
	r.Item = cleanItem(r.Item)
	return r
}

// cleanItem takes out what ReadItems would have refused: a record is made by others too.
func cleanItem(i identity.Item) identity.Item {
	for _, at := range []*string{&i.ID, &i.Title, &i.Kind, &i.Detail} {
		if *at != "" && !identity.Title(*at) {
			*at = ""
		}
		*at = strings.ToValidUTF8(*at, "\uFFFD")
		if hasToken(*at) {
			*at = Cut
		}
	}
	if len(i.Role) > 64 || strings.ContainsFunc(i.Role, func(r rune) bool { return r <= ' ' || r > '~' }) {
		i.Role = ""
	}
	switch i.Did {
	case identity.Created, identity.Changed, identity.Closed, identity.Deleted, identity.Viewed:
	default:
		i.Did = ""
	}
	i.Count = min(max(i.Count, 0), identity.MaxItemCount)
	return i
}

// Path gives what is kept of the target of a request: no query, visible ASCII alone, and a
// segment that is very long or may be a token is left out.
func Path(target string) string {
	if cut := strings.IndexAny(target, "?#"); cut >= 0 {
		target = target[:cut]
	}
	segments := strings.Split(target, "/")
	for i, s := range segments {
		if s == Cut {
			continue
		}
		if s = escaped(s); len(s) > maxSegment || hasToken(s) {
			s = Cut
		}
		segments[i] = s
	}
	path := strings.Join(segments, "/")
	if len(path) <= maxPath {
		return path
	}
	whole := strings.LastIndexByte(path[:maxPath-len("/"+Cut)+1], '/') // segments are shorter than that
	return path[:whole] + "/" + Cut
}

const maxSegment = 100

// escaped writes what is not visible ASCII as a URL does.
func escaped(segment string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(segment) {
		if c > ' ' && c < 0x7F {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// tokenRun is how many letters and digits on end are taken for a secret. Tokens of this
// server, and API keys of dev, have more; a UUID, and an ID of 32 hexadecimal digits, have
// fewer. A directory's API keys are as it makes them.
const tokenRun = 40

// hasToken reports whether a text may hold a token, in its own bytes or unescaped.
func hasToken(text string) bool {
	if longRun(text) {
		return true
	}
	plain, err := url.PathUnescape(text)
	return err == nil && plain != text && longRun(plain)
}

func longRun(text string) bool {
	n := 0
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			if n++; n >= tokenRun {
				return true
			}
		default:
			n = 0
		}
	}
	return false
}

func unsecret(text string) string {
	if hasToken(text) {
		return Cut
	}
	return text
}

// visible gives a text without what does not show or turns text around, cut to a bound.
func visible(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '\uFFFD'
		}
		return r
	}, text)
	if len(text) <= most {
		return text
	}
	cut := most - len(Cut)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + Cut
}
