package operator

import (
	"encoding/json"
	"fmt"
	"testing"
)

// What is accepted has only known members, and any other reader of JSON reads
// the same values.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"on":true,"reason":"x"}`, `{"on":null}`, `{"on":true,"on":false}`, `{"ON":true}`, `{"reason":"\ud800"}`, `{"reason":"\u0000"}`,
		`{"on":true}{"on":false}`, ` {"on" : false } `, `{"reaſon":"x"}`, `[{}]`, `{"on":{}}`, "\xef\xbb\xbf{}", `{"on":1e999}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got switchBody
		if strict(text, &got) != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q was taken and is no JSON: %v", text, err)
		}
		for name := range want {
			if name != "on" && name != "reason" {
				t.Fatalf("%q was taken with %q", text, name)
			}
		}
		on := any(nil)
		if got.On != nil {
			on = *got.On
		}
		reason, _ := want["reason"].(string)
		if on != want["on"] || got.Reason != reason {
			t.Fatalf("%q was read as %v %q, and is %v", text, on, got.Reason, want)
		}
	})
}

// A directory is refused or complete, whatever the bytes.
func FuzzDirectory(f *testing.F) {
	for _, s := range []string{
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password":"long enough"}]}`,
		`{"organizations":[{"id":"o","name":"O","ai_integration":true}],"members":[{"organization":"o","person":"a","admin":true}]}`,
		`{"circles":[{"id":"c","organization":"o","parent":"","name":"C"}],"roles":[{"id":"r","organization":"o","circle":"c","name":"R","fillers":["a",""]}]}`,
		`{"api_keys":[{"key":"0123456789abcdef","organization":"o","person":"a","name":"K"}]}`, `{"people":[null]}`, `{"people":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d directoryBody
		if strict(text, &d) != nil || d.check() != nil {
			return
		}
		for _, p := range d.People {
			if p.ID == "" || p.Email == "" || p.Name == "" {
				t.Fatalf("%q was taken with %+v", text, p)
			}
		}
		for _, r := range d.Roles {
			if r.ID == "" || r.Circle == "" || fmt.Sprint(r.Fillers) == "[]" && len(r.Fillers) > 0 {
				t.Fatalf("%q was taken with %+v", text, r)
			}
		}
		for _, k := range d.APIKeys {
			if k.Key != "" && len(k.Key) < 16 || k.Person == "" {
				t.Fatalf("%q was taken with %+v", text, k)
			}
		}
	})
}
