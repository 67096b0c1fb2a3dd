package sample

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// etag is the entity tag of an object as this actor sees it, without its
// quotes: two objects have the same one when their JSON is the same.
func etag(object any) string {
	body, err := json.Marshal(object)
	if err != nil {
		panic(err) // of types that are written here
	}
	return tagOf(body)
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// conditions are what a request makes itself depend on (RFC 9110 section 13.1).
// They are never required: a client that sends none writes over what somebody
// else wrote meanwhile, as it says. The zero conditions always hold.
type conditions struct {
	match, noneMatch *tags // nil when the header was not sent
}

// untagged is the tag of an object that cannot be read by itself: a space
// stands in no tag, so that * alone matches it.
const untagged = " "

// tags is the value of If-Match or If-None-Match.
type tags struct {
	any    bool // *
	strong []string
	weak   []string // with W/, which If-Match never matches
}

// ifMatch gives the condition that an object still has a tag; an empty one is
// no condition.
func ifMatch(tag string) conditions {
	if tag == "" {
		return conditions{}
	}
	return conditions{match: &tags{strong: []string{tag}}}
}

func conditionsOf(h http.Header) (c conditions, err error) {
	if c.match, err = readTags("If-Match", h["If-Match"]); err != nil {
		return c, err
	}
	c.noneMatch, err = readTags("If-None-Match", h["If-None-Match"])
	return c, err
}

// readTags refuses what is not well-formed: a condition that is not understood
// must not count as none.
func readTags(name string, lines []string) (*tags, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	wrong := badRequest(name + " is * or a list of entity tags in double quotes, as ETag has them.")
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		return &tags{any: true}, nil
	}
	t := &tags{}
	for {
		rest = strings.TrimLeft(rest, " \t,") // RFC 9110 section 5.6.1.2: empty elements are ignored
		if rest == "" {
			break
		}
		opaque, weak := strings.CutPrefix(rest, "W/")
		if opaque == "" || opaque[0] != '"' {
			return nil, wrong
		}
		tag, behind, closed := strings.Cut(opaque[1:], `"`)
		rest = strings.TrimLeft(behind, " \t")
		if !closed || rest != "" && rest[0] != ',' || strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return nil, wrong
		}
		if weak {
			t.weak = append(t.weak, tag)
		} else {
			t.strong = append(t.strong, tag)
		}
	}
	if t.strong == nil && t.weak == nil {
		return nil, wrong
	}
	return t, nil
}

// stale reports whether If-Match does not hold of an object with this tag, or
// of none when it is empty.
func (c conditions) stale(tag string) bool {
	return c.match != nil && (tag == "" || !c.match.any && !slices.Contains(c.match.strong, tag))
}

// unmodified reports whether If-None-Match does not hold: the client has the
// object, or does not want one to be there.
func (c conditions) unmodified(tag string) bool {
	t := c.noneMatch
	return t != nil && tag != "" && (t.any || slices.Contains(t.strong, tag) || slices.Contains(t.weak, tag))
}

// check refuses a change whose conditions do not hold of the object as it
// stands.
func (c conditions) check(tag string) error {
	if c.stale(tag) || c.unmodified(tag) {
		return errStale
	}
	return nil
}
