package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBody is the greatest body of a request, in bytes.
const maxBody = 64 << 10

// Bounds of what people write, in characters.
const (
	maxTitle = 200
	maxText  = 20_000
	maxName  = 100 // of an organization, circle or role
)

// readBody reads the JSON object of a request into a struct of pointers, as
// readObject does.
func readBody(r *http.Request, into any) error {
	if !isJSON(r) {
		return &fault{Status: 415, Code: "invalid_request", Description: "Content-Type must be application/json, in UTF-8, and the body not compressed."}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case len(body) > maxBody:
		return &fault{Status: 413, Code: "invalid_request", Description: fmt.Sprintf("A body has at most %d bytes.", maxBody)}
	case err != nil:
		return badRequest("The body cannot be read.")
	}
	return readObject(body, into)
}

// isJSON takes JSON. What is merged into an object may be called that (RFC 7396).
func isJSON(r *http.Request) bool {
	return hasType(r.Header, "application/json") || r.Method == http.MethodPatch && hasType(r.Header, "application/merge-patch+json")
}

// hasType reports whether a body says that it is of the media type: once, in
// UTF-8 as far as it says, and with nothing around it.
func hasType(h http.Header, want string) bool {
	types := h["Content-Type"]
	if len(types) != 1 || h.Get("Content-Encoding") != "" {
		return false
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	charset, named := parameters["charset"]
	return err == nil && media == want && (!named || strings.EqualFold(charset, "utf-8"))
}

// readObject reads one JSON object into a struct of pointers. What the struct
// does not have is refused, and so are a member that stands twice, another
// type, NUL, half a surrogate pair and what is not UTF-8: whatever a reader
// would ignore or repair would look as if it had been taken as it was sent.
// null is for strings that may be empty, and empties them (RFC 7396).
func readObject(body []byte, into any) error {
	switch {
	case !utf8.Valid(body):
		return badRequest("The JSON is not UTF-8.")
	case !json.Valid(body):
		return badRequest("This is not one JSON value.")
	case hasLoneSurrogate(body):
		return badRequest("The JSON has half of a surrogate pair.")
	}
	known := fieldsOf(reflect.ValueOf(into).Elem())
	members, twice, ok := membersOf(body)
	switch _, isKnown := known[twice]; {
	case !ok:
		return badRequest("This is not a JSON object.")
	case isKnown:
		return badRequest(twice + " stands there twice.")
	case twice != "":
		return badRequest("There is a member that cannot be sent here." + known.names())
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, ok := known[name]
		if !ok {
			return badRequest("There is a member that cannot be sent here." + known.names())
		}
		if err := field.set(members[name]); err != nil {
			return badRequest(name + " " + err.Error() + ".")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, sent := members[name]; known[name].required && !sent {
			return badRequest(name + " is missing.")
		}
	}
	return nil
}

// membersOf gives the members of valid JSON that is an object, and one that stands
// there twice.
func membersOf(body []byte) (members map[string]json.RawMessage, twice string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if first, _ := d.Token(); first != json.Delim('{') {
		return nil, "", false
	}
	members = map[string]json.RawMessage{}
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, "", false
		}
		if _, there := members[name.(string)]; there {
			return nil, name.(string), true
		}
		members[name.(string)] = value
	}
	return members, "", true
}

// A field is a pointer in a struct, to be set when its member was sent.
type field struct {
	value    reflect.Value
	nullable bool // null empties it
	required bool // the tag has no omitempty
}

type fields map[string]field

func fieldsOf(into reflect.Value) fields {
	all := fields{}
	for _, f := range reflect.VisibleFields(into.Type()) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			all[name] = field{into.FieldByIndex(f.Index), f.Tag.Get("merge") == "null", option != "omitempty"}
		}
	}
	return all
}

// names says what can be sent.
func (f fields) names() string {
	if len(f) == 0 {
		return ""
	}
	return " These can: " + strings.Join(slices.Sorted(maps.Keys(f)), ", ") + "."
}

func (f field) set(raw json.RawMessage) error {
	value := reflect.New(f.value.Type().Elem())
	if bytes.Equal(raw, []byte("null")) {
		if !f.nullable {
			return fmt.Errorf("cannot be null")
		}
		f.value.Set(value)
		return nil
	}
	if err := json.Unmarshal(raw, value.Interface()); err != nil {
		return fmt.Errorf("is %s", kinds[value.Elem().Kind()])
	}
	if s, ok := value.Elem().Interface().(string); ok && strings.Contains(s, "\x00") {
		return fmt.Errorf("has a NUL character")
	}
	f.value.Set(value)
	return nil
}

var kinds = map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number"}

// checkLine says what is wrong with what stands in one line: a title or name.
func checkLine(member, s string, most int) error {
	switch n := utf8.RuneCountInString(s); {
	case strings.TrimSpace(s) == "" || n > most:
		return badRequest(fmt.Sprintf("%s has 1 to %d characters, not only spaces.", member, most))
	case strings.ContainsFunc(s, unicode.IsControl):
		return badRequest(member + " has a control character or a line break.")
	}
	return nil
}

// hasLoneSurrogate says whether valid JSON has an escape of half a surrogate
// pair, for which encoding/json puts U+FFFD in silence.
func hasLoneSurrogate(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		if i++; body[i] != 'u' {
			continue
		}
		high := surrogate(body[i+1:])
		i += 4
		if high == 0 {
			continue
		}
		low := byte(0)
		if next := body[i+1:]; len(next) >= 6 && next[0] == '\\' && next[1] == 'u' {
			low = surrogate(next[2:])
		}
		if high != 'h' || low != 'l' {
			return true
		}
		i += 6
	}
	return false
}

// surrogate tells 'h', the first half of a pair, from 'l', the second, and
// from 0, neither, by the four digits of an escape: D800 to DBFF, DC00 to DFFF.
func surrogate(digits []byte) byte {
	switch digits[1] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return half(digits[0], 'h')
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return half(digits[0], 'l')
	}
	return 0
}

func half(first, which byte) byte {
	if first != 'd' && first != 'D' {
		return 0
	}
	return which
}
