package rules

import (
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// reading is one way in which a server may read what is called.
type reading struct {
	name     string   // of a tool, prompt or method; a resource's URI
	segments []string // of a path, decoded, without empty ones
	whole    []string // segments with what this reading cuts off the last one
	part     bool     // what some servers take a URI for: it counts where a rule names it
}

// readings gives the ways to read a call, the plainest first, or false where a
// reader could take it to lead elsewhere.
func (c Call) readings() ([]reading, bool) {
	switch c.kind() {
	case byTool:
		return []reading{{name: c.Tool}}, true
	case byPrompt:
		return []reading{{name: c.Prompt}}, true
	case byMethod:
		return []reading{{name: c.RPC}}, true
	case byResource:
		return readingsOfURI(c.Resource)
	}
	return readingsOfPath(c.Path)
}

// decodings bounds how often a path is decoded to see what it hides.
const decodings = 4

// readingsOfURI are a URI as it came and as often decoded as that changes it; each also
// with single slashes, and without what some servers do not look at: query, fragment,
// and a slash at the end.
func readingsOfURI(uri string) (all []reading, ok bool) {
	if oddURI(uri) {
		return nil, false
	}
	for range decodings {
		if !Plain(uri) {
			return nil, false
		}
		single := singleSlashes(uri)
		cut := strings.IndexAny(single+"#", "?#")
		all = append(all, reading{name: uri}, reading{name: single}, reading{name: strings.TrimRight(single[:cut], "/"), part: true})
		next := Unescaped(uri)
		if next == uri {
			return all, true
		}
		uri = next
	}
	return nil, false
}

// oddURI reports what parsers of URLs write anew: space around it, and of the schemes
// that they know (WHATWG URL section 4.2) other than two slashes, a signed-in person, the
// default port, and a local file's host.
func oddURI(uri string) bool {
	if strings.TrimSpace(uri) != uri {
		return true
	}
	scheme, rest, _ := strings.Cut(uri, ":")
	scheme = strings.ToLower(scheme)
	port, known := map[string]string{"http": ":80", "https": ":443", "ws": ":80", "wss": ":443", "ftp": ":21", "file": ""}[scheme]
	if !known {
		return false
	}
	host, ok := strings.CutPrefix(rest, "//")
	host = strings.ToLower(host[:strings.IndexAny(host+"/", `/\?#`)])
	switch {
	case !ok, (host == "") != (scheme == "file"):
		return true
	}
	return strings.ContainsAny(host, "@%") || strings.HasSuffix(host, ".") || strings.HasSuffix(host, ":") || port != "" && strings.HasSuffix(host, port)
}

// singleSlashes makes one slash of several, of either kind, behind the authority.
func singleSlashes(uri string) string {
	uri = strings.ReplaceAll(uri, `\`, "/")
	begin := 0
	if i := strings.Index(uri, "://"); i >= 0 {
		begin = i + len("://")
	}
	out := []byte(uri[:begin])
	for i := begin; i < len(uri); i++ {
		if uri[i] != '/' || i == begin || uri[i-1] != '/' {
			out = append(out, uri[i])
		}
	}
	return string(out)
}

// readingsOfPath are those of routers that are in use. They part segments before
// they decode or after it, decode once or twice, take a backslash for a slash, cut
// parameters and space off a segment, and a format such as .json off the last one.
func readingsOfPath(raw string) ([]reading, bool) {
	if !strings.HasPrefix(raw, "/") || strings.ContainsAny(raw, "?#") {
		return nil, false
	}
	if _, err := url.PathUnescape(raw); err != nil {
		return nil, false
	}
	if !Plain(raw) {
		return nil, false
	}
	var parted []string // decoded once
	for s := range strings.SplitSeq(raw, "/") {
		parted = append(parted, Unescaped(s))
	}
	var l list
	l.add(parted)
	if !strings.ContainsAny(raw, `%\`) {
		return l.all, true
	}
	decoded := raw
	for range decodings {
		before := decoded
		if decoded = Unescaped(before); !Plain(decoded) {
			return nil, false
		}
		l.add(strings.FieldsFunc(decoded, func(c rune) bool { return c == '/' || c == '\\' }))
		if decoded == before {
			return l.all, true
		}
	}
	return nil, false // nobody escapes as often who does not hide something
}

// list is a list of readings of one path, each once.
type list struct{ all []reading }

// add takes segments, and what is left of them where something is cut off.
func (l *list) add(segments []string) {
	cut := make([]string, len(segments))
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		cut[i] = strings.TrimSpace(s)
	}
	for _, s := range [][]string{segments, cut} {
		s = slices.DeleteFunc(slices.Clone(s), func(s string) bool { return s == "" })
		l.once(reading{segments: s, whole: s})
		if len(s) == 0 {
			continue
		}
		last := s[len(s)-1]
		if format := path.Ext(last); format != "" {
			short := slices.Clone(s)
			if short[len(s)-1] = strings.TrimSpace(strings.TrimSuffix(last, format)); short[len(s)-1] == "" {
				short = short[:len(s)-1]
			}
			l.once(reading{segments: short, whole: s})
		}
	}
}

func (l *list) once(r reading) {
	if !slices.ContainsFunc(l.all, func(o reading) bool { return slices.Equal(o.segments, r.segments) && slices.Equal(o.whole, r.whole) }) {
		l.all = append(l.all, r)
	}
}

// Plain reports whether a reading of a path is text without a dot segment. It takes
// a segment to end wherever some reader lets it end: who cuts parameters out before
// decoding sees other segments than who does it afterwards.
func Plain(reading string) bool {
	if !utf8.ValidString(reading) || strings.ContainsFunc(reading, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	for piece := range strings.FieldsFuncSeq(reading, func(r rune) bool { return strings.ContainsRune(`/\;?#`, r) }) {
		if piece = strings.TrimSpace(piece); piece == "." || piece == ".." {
			return false
		}
	}
	return true
}

// Unescaped decodes once, and leaves what is no escape as it is. Many readers do
// so, where url.PathUnescape decodes nothing.
func Unescaped(reading string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(reading, "%")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		if c, err := hex.DecodeString(after[:min(2, len(after))]); err == nil && len(c) == 1 {
			out.Write(c)
			reading = after[2:]
		} else {
			out.WriteByte('%')
			reading = after
		}
	}
}

// Under reports whether some router may take a raw path to be root or below it, or
// nobody knows what it takes it to be.
func Under(raw, root string) bool {
	all, ok := readingsOfPath(raw)
	p, fault := parsePath(root + "/**")
	return !ok || fault != "" || slices.ContainsFunc(all, func(at reading) bool { _, ok := p.match(at); return ok })
}

// pattern is a path of a rule.
type pattern struct {
	parts []part
	rest  bool // ** at the end
}

// part is one segment: a literal, or the name of a value.
type part struct{ literal, name string }

func parsePath(text string) (p pattern, fault string) {
	if !strings.HasPrefix(text, "/") {
		return p, "its path begins with a slash"
	}
	names := map[string]bool{}
	for s := range strings.SplitSeq(text, "/") {
		name, begins := strings.CutPrefix(s, "{")
		name, ends := strings.CutSuffix(name, "}")
		switch {
		case p.rest:
			return p, "** stands at its end alone"
		case s == "":
		case s == "**":
			p.rest = true
		case begins && ends && isName(name) && !names[name]:
			names[name] = true
			p.parts = append(p.parts, part{name: name})
		case strings.ContainsAny(s, `{}*%\;?#`) || !Plain(s) || strings.TrimSpace(s) != s:
			return p, "a segment of its path is a text as it is without escapes, a {name} that stands once, or ** at the end"
		default:
			p.parts = append(p.parts, part{literal: s})
		}
	}
	return p, ""
}

// isName is for a {name} and where a role comes from.
func isName(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// match gives the values of the names. Literals compare without case, as in
// strings.EqualFold: more routers than not compare so, or can be told to.
func (p pattern) match(at reading) (values map[string]string, ok bool) {
	if len(at.segments) < len(p.parts) || len(at.segments) > len(p.parts) && !p.rest {
		return nil, false
	}
	for i, one := range p.parts {
		switch {
		case one.name == "":
			if !strings.EqualFold(one.literal, at.segments[i]) {
				return nil, false
			}
		case values == nil:
			values = map[string]string{one.name: at.whole[i]}
		default:
			values[one.name] = at.whole[i]
		}
	}
	return values, true
}

// covers reports whether p matches whatever q matches.
func (p pattern) covers(q pattern) bool {
	if len(q.parts) < len(p.parts) || !p.rest && (q.rest || len(q.parts) != len(p.parts)) {
		return false
	}
	for i, one := range p.parts {
		if one.name == "" && (q.parts[i].name != "" || !strings.EqualFold(one.literal, q.parts[i].literal)) {
			return false
		}
	}
	return true
}
