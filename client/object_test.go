package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
	"unicode/utf8"
)

// readSlowly is readObject by encoding/json's own tokens.
func readSlowly(body []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errors.New("not JSON in UTF-8")
	}
	if err := checkSlowly(json.NewDecoder(bytes.NewReader(body)), 1); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, errors.New("not an object")
	}
	for name, raw := range members {
		if string(raw) == "null" {
			delete(members, name)
		}
	}
	return members, nil
}

func checkSlowly(dec *json.Decoder, depth int) error {
	dec.UseNumber()
	token, err := dec.Token()
	if err == io.EOF || err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth > maxDepth {
		return errors.New("too deep")
	}
	names := map[string]bool{}
	for dec.More() {
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return err
			}
			if name := token.(string); names[name] {
				return errors.New("twice")
			} else {
				names[name] = true
			}
		}
		if err := checkSlowly(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// The walk reads what encoding/json reads.
func FuzzF03ObjectsAgree(f *testing.F) {
	deep := bytes.Repeat([]byte("["), maxDepth)
	for _, seed := range []string{
		`{}`, ` { } `, `[]`, `[{}]`, `null`, `"{"`, `0`, "\t{\r\n\"a\" :\t1 , \"b\": [ ] }\n", `{"a":null}`, `{"a":null,"a":1}`,
		`{"a":{"a":{"a":1}},"b":{"a":2}}`, `{"a":{"b":1,"b":2}}`, `[{"b":1,"b":2}]`, `{"a":[{"b":1},{"b":2}]}`,
		`{"\u0061":1,"a":2}`, `{"a\"":1,"a\\":2,"a":3}`, `{"":1,"":2}`, `{"a":"}","b":"]","c":"\"","d":"\\"}`,
		`{"a":1e999,"b":-0.5E+3,"c":true,"d":false}`, `{"a":1}x`, `{"a":1,}`, `{"\ud800":1,"\ufffd":2}`, "{\"\xff\":1}",
		`{"redirect_uris":["https://a.example/"],"client_name":"x"}`,
		string(deep), string(deep) + `[`, `{"a":` + string(deep) + string(bytes.Repeat([]byte("]"), maxDepth)) + `}`,
		string(deep) + string(bytes.Repeat([]byte("]"), maxDepth)), `{"a":` + string(deep[1:]) + string(bytes.Repeat([]byte("]"), maxDepth-1)) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := readObject(body)
		want, wantErr := readSlowly(body)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", body, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, encoding/json: %q", body, got, want)
		}
	})
}

func BenchmarkParseMetadata(b *testing.B) {
	body := []byte(`{"client_name":"An assistant","redirect_uris":["https://assistant.example/callback"],` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := ParseMetadata(body, nil); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
