package identity

import (
	"reflect"
	"strings"
	"testing"
)

func TestItems(t *testing.T) {
	all := []Item{
		{ID: "17", Title: "Büdget “2027” \U0001F4B0 \uFFFF\U00010000", Kind: "order", Did: Changed, Role: "r-orders", Detail: "Text", Private: true},
		{ID: "18", Personal: true, Did: Deleted},
		{Kind: "order", Did: Viewed, Count: 214},
		{},
	}
	text, err := ItemsText(all...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("not in ASCII: %s", text)
	}
	got, err := ReadItems([]byte(text))
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v; want %+v", got, err, all)
	}
	if text, err := ItemsText(); text != "[]" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if got, err := ReadItems([]byte(" [] ")); len(got) != 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestItemsThatAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                          ``,
		"no list":                          `{"title":"a"}`,
		"no object":                        `["a"]`,
		"a member twice":                   `[{"title":"a","title":"b"}]`,
		"a member twice, escaped":          `[{"title":"a","\u0074itle":"b"}]`,
		"another member":                   `[{"titel":"a"}]`,
		"another case":                     `[{"Title":"a"}]`,
		"another type":                     `[{"title":17}]`,
		"null":                             `[{"title":null}]`,
		"deeper":                           `[{"title":{"a":"b"}}]`,
		"text behind":                      `[] []`,
		"a control":                        `[{"title":"a\u0007"}]`,
		"a line feed":                      `[{"detail":"a\nb"}]`,
		"text turned around":               `[{"title":"a\u202eb"}]`,
		"isolated text":                    `[{"kind":"a\u2067b"}]`,
		"nothing to see":                   `[{"title":"\u200b"}]`,
		"not UTF-8":                        "[{\"title\":\"a\xff\"}]",
		"a title of 101 characters":        `[{"title":"` + strings.Repeat("ä", 101) + `"}]`,
		"a kind of 10 KB":                  `[{"kind":"` + strings.Repeat("a", 10<<10) + `"}]`,
		"more than 16 KiB":                 `[{"title":"a"},` + strings.Repeat(" ", 16<<10) + `{}]`,
		"21 items":                         `[` + strings.Repeat(`{},`, 20) + `{}]`,
		"an unknown word":                  `[{"did":"burnt"}]`,
		"a role that is no ID":             `[{"role":"a b"}]`,
		"a role of 65 characters":          `[{"role":"` + strings.Repeat("r", 65) + `"}]`,
		"a count below zero":               `[{"did":"read","count":-1}]`,
		"a count beyond":                   `[{"did":"read","count":1000001}]`,
		"a count that is no whole number":  `[{"did":"read","count":1.5}]`,
		"a count of what is changed":       `[{"did":"changed","count":2}]`,
		"a byte order mark":                "\ufeff[]",
		"an item that is right, one wrong": `[{"title":"a"},{"did":"x"}]`,
	} {
		if got, err := ReadItems([]byte(text)); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
	if _, err := ItemsText(Item{Title: "\x1b[31m"}); err == nil || !strings.Contains(err.Error(), "1 to 100 characters") {
		t.Error("a control is written:", err)
	}
	for _, text := range []string{`[{"title":"` + strings.Repeat("ä", 100) + `"}]`, `[` + strings.Repeat(`{},`, 19) + `{}]`, `[{"did":"read","count":1000000}]`, `[{"did":"changed","count":1}]`, `[{"role":"a~"}]`, `[` + strings.Repeat(" ", 16<<10-2) + `]`, `[{"role":"` + strings.Repeat("r", 64) + `"}]`} {
		if _, err := ReadItems([]byte(text)); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// What is read is written back, and read alike again.
func FuzzItems(f *testing.F) {
	f.Add(`[{"id":"1","title":"a","kind":"order","did":"read","count":3,"private":true}]`)
	f.Add(`[{"title":"\ud83d\udcb0"},{}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadItems([]byte(text))
		if err != nil {
			return
		}
		written, err := ItemsText(all...)
		if err != nil && len(written) <= MaxItemsText {
			t.Fatalf("%q is read and not written: %v", text, err)
		}
		again, err := ReadItems([]byte(written))
		if err == nil && !reflect.DeepEqual(all, again) {
			t.Errorf("%q: %+v, then %+v", text, all, again)
		}
	})
}
