package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	deep := strings.Repeat("[", 4) + strings.Repeat("]", 4)
	for text, want := range map[string]error{
		`{}`: nil, " {\t} \n": nil, `{"a":1,"A":2,"\u0061b":3}`: nil, `{"a":{"b":1},"c":{"b":2}}`: nil, `{"a":null}`: nil, `{"a":` + deep + `}`: nil,
		`{"a":1,"a":1}`: ErrTwice, `{"a":1,"\u0061":1}`: ErrTwice, `{"x":[{"a":1,"a":2}]}`: ErrTwice, `{"":1,"":2}`: ErrTwice,
		``: ErrJSON, `{`: ErrJSON, `{}{}`: ErrJSON, `{"a":1,}`: ErrJSON, "{\"a\":\"\xff\"}": ErrUTF8,
		`[]`: ErrObject, `null`: ErrObject, `"{"`: ErrObject, `7`: ErrObject,
	} {
		if _, err := Object([]byte(text), 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if _, err := Object([]byte(`{"a":`+deep+`}`), 4); err == nil || !strings.Contains(err.Error(), "deeper than 4") {
		t.Errorf("too deep: %v", err)
	}
	if m, err := Object([]byte(`{"a" :null, "A": [1, 2] ,"b":"}"}`), 5); err != nil || !reflect.DeepEqual(m, Members{"a": json.RawMessage("null"), "A": json.RawMessage("[1, 2]"), "b": json.RawMessage(`"}"`)}) {
		t.Errorf("%q, %v", m, err)
	}
}

// Any value will do, and what is refused of an object is refused of each in it.
func TestCheck(t *testing.T) {
	for text, want := range map[string]error{
		`[{"a":1},{"a":1}]`: nil, `[{"a":1,"a":1}]`: ErrTwice, `x`: ErrJSON, `7`: nil, `[{"a":{"b":1,"\u0062":2}}]`: ErrTwice,
		`{"a":{"c":{"b\"":1,"b\"":2}}}`: ErrTwice, "\"\xff\"": ErrUTF8, `[] []`: ErrJSON,
	} {
		if err := Check([]byte(text), 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if deep := strings.Repeat("[", 32) + strings.Repeat("]", 32); Check([]byte(deep), Depth) != nil || Check([]byte("["+deep+"]"), Depth) == nil {
		t.Error("the usual depth is not 32")
	}
	if err := Check([]byte(`[[[]]]`), 2); err == nil || Check([]byte(`[[[]]]`), 3) != nil {
		t.Errorf("too deep: %v", err)
	}
}

// Where another reader goes by encoding/json, two names that it takes for one are
// one, at any depth.
func TestFolded(t *testing.T) {
	for text, want := range map[string]error{
		`{"nonce":1,"Nonce":2}`: ErrTwice, `{"sub":1,"\u017fub":2}`: ErrTwice, `{"keys":[{"kid":1,"\u212aid":2}]}`: ErrTwice, `{"\u0130":1,"i":2}`: nil, `{"Nonce":1}`: nil,
	} {
		if _, err := Folded([]byte(text), Depth); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// Members may have any name but one that a reader would take for a known one.
func TestOnly(t *testing.T) {
	for text, want := range map[string]error{
		`{}`: nil, `{"id":1,"other":2,"OTHER":3}`: nil, `{"params":{"ID":1}}`: nil,
		`{"ID":1}`: ErrCase, `{"id":1,"Id":2}`: ErrCase, `{"param\u017f":1}`: ErrCase,
	} {
		m, err := Object([]byte(text), Depth)
		if err != nil || !errors.Is(m.Only("id", "params"), want) {
			t.Errorf("%s: %v, %v, want %v", text, err, m.Only("id", "params"), want)
		}
	}
}

func TestInto(t *testing.T) {
	type flat struct {
		By   string          `json:"impersonated_by,omitempty"`
		Time int64           `json:"iat"`
		Any  json.RawMessage `json:"act"`
	}
	for text, want := range map[string]bool{
		`{"impersonated_by":"x","iat":1,"other":[{"Impersonated_By":1}]}`: true, `{}`: true, `{"iat":null}`: true,
		`{"impersonated_by":"x","Impersonated_By":""}`: false, `{"Impersonated_By":"x"}`: false, `{"imper\u017fonated_by":"x"}`: false,
		`{"impersonated_by":"x","impersonated_by":""}`: false, `{"impersonated_by":7}`: false, `{"iat":"1"}`: false, `{"iat":1.5}`: false, `[]`: false,
	} {
		var into flat
		if err := Into([]byte(text), &into); (err == nil) != want {
			t.Errorf("%s: %+v, %v", text, into, err)
		}
	}
	var into flat
	if err := Into([]byte(`{"act":{"sub":"s"},"iat":7,"impersonated_by":"x"}`), &into); err != nil || into.By != "x" || into.Time != 7 || string(into.Any) != `{"sub":"s"}` {
		t.Errorf("%+v, %v", into, err)
	}
}

// Two names are one to fold exactly when encoding/json takes both for one field.
func FuzzFold(f *testing.F) {
	for _, name := range []string{"kid", "KID", "\u212aid", "\u017fub", "sub", "k\u0130d", "\u00df", "\u1e9e", "", "\ufffd"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text, err := json.Marshal(map[string]int{name: 1})
		if err != nil || !json.Valid(text) {
			return
		}
		var seen map[string]int
		if json.Unmarshal(text, &seen) != nil || seen[name] != 1 {
			return // broken UTF-8
		}
		var at struct {
			Kid, Sub, ImpersonatedBy int
		}
		if json.Unmarshal(text, &at) != nil {
			return
		}
		for field, got := range map[string]int{"Kid": at.Kid, "Sub": at.Sub, "ImpersonatedBy": at.ImpersonatedBy} {
			if (fold(field) == fold(name)) != (got == 1) {
				t.Errorf("%q for %s: %d", name, field, got)
			}
		}
		twice := bytes.Replace(text, []byte("}"), append([]byte(","), text[1:]...), 1)
		if _, err := Object(twice, Depth); json.Valid(twice) && !errors.Is(err, ErrTwice) {
			t.Errorf("%s: %v", twice, err)
		}
	})
}

// Fields takes each member once, by its exact name and of its type, and no other.
func TestFields(t *testing.T) {
	var n int
	var s string
	read := func(text string) error {
		n, s = 1, "as it was"
		return Fields([]byte(text), 1, map[string]any{"n": &n, "s": &s})
	}
	if err := read(`{"x":2}`); err == nil || err.Error() != `unknown member "x"` {
		t.Error(err)
	}
	if err := read(`{"n":2}`); err != nil || n != 2 || s != "as it was" {
		t.Errorf("%d, %q, %v", n, s, err)
	}
	for _, text := range []string{`{"N":2}`, `{"x":2}`, `{"n":"2"}`, `{"n":null}`, `{"n":2,"n":3}`, `{"n":{}}`, `[]`, ``, `{"n":2}}`} {
		if err := read(text); err == nil {
			t.Errorf("%s: taken, n is %d", text, n)
		}
	}
}
