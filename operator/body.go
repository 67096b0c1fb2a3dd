package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
)

// The most bytes of a body (decision L5), and of a directory, which is one body
// so that the whole of it is imported or nothing.
const (
	MaxBody      = 64 << 10
	maxDirectory = 128 << 20
)

// maxReason bounds the text of a reason, in characters.
const maxReason = 1000

// maxDepth bounds how deep arrays and objects are nested.
const maxDepth = 8

// reasonBody is the member that every change's body has, and the whole body of a
// change that needs no other.
type reasonBody struct {
	Reason string `json:"reason"`
}

func (r reasonBody) reason() string { return r.Reason }

// decode reads the body of a change into v: one JSON object in UTF-8 whose members
// v has, each at most once. An empty body is an empty object.
func decode[T interface{ reason() string }](c Call, v *T) error {
	text, err := c.readBody(MaxBody)
	if err != nil || text == nil {
		return err
	}
	if err := strict(text, v); err != nil {
		return BadRequest(err.Error())
	}
	return CheckReason((*v).reason())
}

// readBody returns a body of JSON of at most most bytes, and nil for an empty body.
func (c Call) readBody(most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(c.Body, most+1))
	if err != nil {
		return nil, BadRequest("the body could not be read")
	}
	if int64(len(text)) > most {
		return nil, BadRequest(fmt.Sprintf("the body has more than %d bytes", most))
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, BadRequest("the body needs Content-Type: application/json")
	}
	return text, nil
}

// strict is json.Unmarshal that refuses an unknown, repeated or differently
// spelled member, broken UTF-8, and anything after the object.
func strict(text []byte, v any) error {
	if !utf8.Valid(text) {
		return &faultAt{brokenAt(text), errors.New("the body is not valid UTF-8")}
	}
	if err := checkMembers(text); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		// encoding/json puts the name of an embedded struct before the member.
		member := strings.TrimPrefix(wrong.Field, "reasonBody.")
		return &faultAt{wrong.Offset, fmt.Errorf("%s: it must be of type %s", member, kindOf(wrong))}
	case err != nil && strings.HasPrefix(err.Error(), "json: unknown field "):
		return errors.New("unknown member " + strings.TrimPrefix(err.Error(), "json: unknown field "))
	case err != nil:
		return errors.New("the body is not one JSON object")
	}
	return nil
}

// brokenAt is the offset of the first line that is not UTF-8.
func brokenAt(text []byte) (offset int64) {
	for line := range bytes.Lines(text) {
		if !utf8.Valid(line) {
			return offset
		}
		offset += int64(len(line))
	}
	return offset
}

func kindOf(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "bool", "string":
		return e.Type.Kind().String()
	case "slice":
		return "array"
	case "struct", "map":
		return "object"
	}
	return "number"
}

// checkMembers walks the JSON and refuses what two parsers could read
// differently: a member twice in one object, a member in other than lower-case
// letters, anything before or after the object (RFC 8259 section 4).
func checkMembers(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	fault := func(err error) error { return &faultAt{dec.InputOffset(), err} }
	broken := func(err error) error {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return &faultAt{int64(len(text)), errors.New("the body is cut off")}
		}
		return fault(errors.New("the body is not one JSON object"))
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return broken(err)
	}
	for open := (nesting{object()}); len(open) > 0; {
		t, err := dec.Token()
		if err != nil {
			return broken(err)
		}
		if err := open.take(t); err != nil {
			return fault(err)
		}
	}
	if _, err := dec.Token(); err != io.EOF {
		return fault(errors.New("the body is not one JSON object"))
	}
	return nil
}

// nesting is the stack of open objects and arrays, the innermost last.
type nesting []level

type level struct {
	names  map[string]bool // nil in an array
	atName bool            // the next token is a member's name
}

func object() level { return level{map[string]bool{}, true} }

func (open *nesting) take(t json.Token) error {
	in := &(*open)[len(*open)-1]
	if name, ok := t.(string); ok && in.atName {
		in.atName = false
		return checkName(name, in.names)
	}
	in.atName = in.names != nil // the next token of this object is a name
	switch t {
	case json.Delim('{'):
		*open = append(*open, object())
	case json.Delim('['):
		*open = append(*open, level{})
	case json.Delim('}'), json.Delim(']'):
		*open = (*open)[:len(*open)-1]
	}
	if len(*open) > maxDepth {
		return fmt.Errorf("the body is nested deeper than %d", maxDepth)
	}
	return nil
}

// faultAt is a fault of JSON and the offset at which the parser found it.
type faultAt struct {
	offset int64
	err    error
}

func (f *faultAt) Error() string { return f.err.Error() }

// checkName refuses a name that the object has already, and a name that
// json.Unmarshal would match to a member by folding its case.
func checkName(name string, before map[string]bool) error {
	if before[name] {
		return fmt.Errorf("member %q comes twice", name)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return fmt.Errorf("unknown member %q", name)
	}
	before[name] = true
	return nil
}

// CheckReason refuses a reason that is too long or does not fit on one line.
func CheckReason(text string) error { return checkText("reason", text, maxReason) }

// checkText refuses a text of more than most characters, or that does not fit on
// one line.
func checkText(member, s string, most int) error {
	if err := org.CheckLine(s, most); err != nil {
		return BadRequest(member + ": " + err.Error())
	}
	return nil
}
