// Package strictjson reads JSON that decides something: one object in UTF-8, its
// members by their exact names, none of them twice. encoding/json takes a member
// for a field of a struct whose name differs in case, and the last of two: a
// text that two readers can read differently says whatever the one wants who
// wrote it (RFC 8259 section 4).
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Depth is how deep objects and arrays may stand in each other, where a caller
// has no bound of its own.
const Depth = 32

// What is wrong with a text.
var (
	ErrUTF8   = errors.New("it is not valid UTF-8")
	ErrJSON   = errors.New("it is not one JSON value")
	ErrObject = errors.New("it is not a JSON object")
	ErrTwice  = errors.New("it has a member name twice")
	ErrCase   = errors.New("it has a member name in another case")
)

// Members are those of an object, by their exact names.
type Members map[string]json.RawMessage

// Only says ErrCase where the name of a member differs from one of these in case
// alone: another reader takes it for that one.
func (m Members) Only(names ...string) error {
	for other := range m {
		for _, name := range names {
			if other != name && fold(other) == fold(name) {
				return ErrCase
			}
		}
	}
	return nil
}

// Twice is ErrTwice, with the name.
type Twice struct{ Name string }

func (Twice) Error() string        { return ErrTwice.Error() } // nothing of what was sent
func (Twice) Is(target error) bool { return target == ErrTwice }

// Object gives the members of one JSON object in which no name stands twice, at
// any depth down to the given one. null is a member like any other.
func Object(text []byte, depth int) (Members, error) {
	top := Members{}
	if err := walkOver(text, walk{depth: depth, key: exact, top: top}); err != nil {
		return nil, err
	}
	return top, nil
}

// Folded is Object for a text that a reader will see which goes by encoding/json:
// no two names of an object are alike to it either.
func Folded(text []byte, depth int) (Members, error) {
	top := Members{}
	if err := walkOver(text, walk{depth: depth, key: fold, top: top}); err != nil {
		return nil, err
	}
	return top, nil
}

// Into reads one flat JSON object into a struct: each field by the exact name of
// its tag. A name that differs from one of them in case alone is ErrCase: who
// wrote it meant the field. Other members are left alone.
func Into(text []byte, at any) error {
	members, err := Object(text, Depth)
	if err != nil {
		return err
	}
	into := reflect.ValueOf(at).Elem()
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		if err := members.Only(name); err != nil {
			return err
		}
		if raw, sent := members[name]; sent {
			if err := json.Unmarshal(raw, into.Field(i).Addr().Interface()); err != nil {
				return fmt.Errorf("%s is of another type", name)
			}
		}
	}
	return nil
}

// Fields reads an object whose members are these and no other, by their exact names and
// each of its type, at most so deep; null is none. One that is not sent is left as it is.
func Fields(text []byte, depth int, into map[string]any) error {
	members, err := Object(text, depth)
	if err != nil {
		return err
	}
	for name, value := range members {
		at, known := into[name]
		if !known {
			return fmt.Errorf("unknown member %.40q", name)
		}
		if string(value) == "null" || json.Unmarshal(value, at) != nil {
			return fmt.Errorf("%s: it is of another type", name)
		}
	}
	return nil
}

// fold makes one name of those that encoding/json takes for one.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

// Check reads one JSON value of any kind, and gives what Object would refuse of the
// objects in it.
func Check(text []byte, depth int) error {
	err := walkOver(text, walk{depth: depth, key: exact, top: Members{}})
	if errors.Is(err, ErrObject) {
		return nil
	}
	return err
}

func exact(name string) string { return name }

func walkOver(text []byte, w walk) error {
	switch {
	case !utf8.Valid(text):
		return ErrUTF8
	case !json.Valid(text):
		return ErrJSON
	}
	w.text = text
	w.space()
	object := text[w.at] == '{'
	if err := w.value(1); err != nil {
		return err
	}
	if !object {
		return ErrObject
	}
	return nil
}

// walk goes through JSON that is known to be valid.
type walk struct {
	text  []byte
	at    int
	depth int                 // at most
	key   func(string) string // what a name counts as
	top   Members             // takes the outermost object's members
}

// value goes past the value that begins here, at this depth of nesting.
func (w *walk) value(depth int) error {
	switch w.text[w.at] {
	case '{', '[':
		if depth > w.depth {
			return fmt.Errorf("it is nested deeper than %d", w.depth)
		}
		return w.container(depth)
	case '"':
		w.str()
	default: // a number or a word
		for w.at < len(w.text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(w.text[w.at])) {
			w.at++
		}
	}
	return nil
}

// container goes past an object or an array.
func (w *walk) container(depth int) error {
	object, names := w.text[w.at] == '{', map[string]bool{}
	for w.next(); w.text[w.at] != '}' && w.text[w.at] != ']'; {
		name, err := "", error(nil)
		if object {
			if name, err = w.name(names); err != nil {
				return err
			}
		}
		begin := w.at
		if err := w.value(depth + 1); err != nil {
			return err
		}
		if object && depth == 1 {
			w.top[name] = w.text[begin:w.at]
		}
		if w.space(); w.text[w.at] == ',' {
			w.next()
		}
	}
	w.at++
	return nil
}

// name goes past a member's name and its colon. It must not be among names.
func (w *walk) name(names map[string]bool) (name string, err error) {
	begin := w.at
	if w.str() {
		err = json.Unmarshal(w.text[begin:w.at], &name)
	} else {
		name = string(w.text[begin+1 : w.at-1])
	}
	key := w.key(name)
	if names[key] {
		return "", Twice{name}
	}
	names[key] = true
	w.space()
	w.next()
	return name, err
}

// str goes past a string and reports whether it holds an escape.
func (w *walk) str() (escaped bool) {
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			escaped = true
			w.at++
		}
	}
	w.at++
	return escaped
}

// next goes past one character and the space behind it.
func (w *walk) next() {
	w.at++
	w.space()
}

// space goes past white space. JSON never ends where this is called.
func (w *walk) space() {
	for bytes.IndexByte([]byte(" \t\r\n"), w.text[w.at]) >= 0 {
		w.at++
	}
}
