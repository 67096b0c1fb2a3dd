package identity

import (
	"reflect"
	"strings"
	"testing"
)

var askedPreview = PreviewQuestion{Person: "ada", Organization: "ovn", Language: "en", Titles: 2, Sets: []Identity{
	{Person: "ada", Organization: "ovn", Grant: "roles", Personal: true, Roles: []Role{{"r-orders", true}, {"r-deliveries", false}}},
	{Person: "ada", Organization: "ovn", Grant: "everything", Admin: true, Personal: true},
}}

const askedPreviewText = `{"person":"ada","organization":"ovn","language":"en","titles":2,"sets":[` +
	`{"grant":"roles","authority":"personal,r-orders=change,r-deliveries=read"},{"grant":"everything","authority":"admin,personal"}]}`

func TestPreviewQuestion(t *testing.T) {
	text, err := askedPreview.JSON()
	if err != nil || string(text) != askedPreviewText {
		t.Errorf("%s, %v, want %s", text, err, askedPreviewText)
	}
	q, err := ReadPreviewQuestion(text)
	if err != nil || !reflect.DeepEqual(q, askedPreview) {
		t.Errorf("%+v, %v", q, err)
	}
	if got := q.Sets[0].Acts("r-deliveries"); got != "read" {
		t.Errorf("acts %s, want read", got)
	}
}

func TestPreviewQuestionRefuses(t *testing.T) {
	set := `{"grant":"roles","authority":""}`
	for _, text := range []string{
		``, `null`, `[]`, `{}`,
		`{"sets":[]}`, `{"sets":[` + strings.Repeat(set+",", 4) + set + `]}`, `{"sets":` + set + `}`, `{"sets":[null]}`,
		`{"titles":21,"sets":[` + set + `]}`, `{"titles":-1,"sets":[` + set + `]}`, `{"titles":"2","sets":[` + set + `]}`,
		`{"person":null,"sets":[` + set + `]}`, `{"Person":"ada","sets":[` + set + `]}`, `{"person":"ada","person":"tor","sets":[` + set + `]}`,
		`{"sets":[{"grant":"roles","authority":"all"}]}`, `{"sets":[{"grant":"roles","authority":["personal"]}]}`, `{"sets":[{"grant":"roles","more":1}]}`,
		`{"sets":[{"grant":"all","authority":""}]}`, `{"sets":[{"grant":"Everything","authority":""}]}`, `{"sets":[{"authority":""}]}`,
	} {
		if q, err := ReadPreviewQuestion([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, q)
		}
	}
}

// The bounds themselves are good: a server asks for as many titles as it may.
func TestPreviewQuestionOfTheGreatest(t *testing.T) {
	set := `{"grant":"organization","authority":""}`
	q, err := ReadPreviewQuestion([]byte(`{"titles":20,"sets":[` + strings.Repeat(set+",", PreviewSets-1) + set + `]}`))
	if err != nil || q.Titles != PreviewTitles || len(q.Sets) != PreviewSets || q.Sets[3].Grant != "organization" {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := ReadPreviewQuestion([]byte(`{"sets":[` + set + `]}`)); err != nil { // no titles
		t.Error(err)
	}
}

func TestPreviewAnswer(t *testing.T) {
	for text, want := range map[string]PreviewAnswer{
		`{"sets":[{},{}]}`: {[]Preview{{}, {}}},
		`{"sets":[{"change":{"count":12,"titles":["40 rolls","\u003cb\u003e` + "\u200e" + `"]},"not":{"count":0}},{}]}`: {[]Preview{
			{Change: &PreviewPart{12, []string{"40 rolls", "<b>\u200e"}}, Not: &PreviewPart{}}, {}}},
		`{"sets":[{"personal":{"count":1000000000}},{"read":{"count":1,"titles":["` + strings.Repeat("é", 100) + `","2"]},"more":true}]}`: {[]Preview{
			{Personal: &PreviewPart{Count: PreviewCount}}, {Read: &PreviewPart{1, []string{strings.Repeat("é", 100), "2"}}, More: true}}},
	} {
		a, err := ReadPreviewAnswer([]byte(text), askedPreview)
		if err != nil || !reflect.DeepEqual(a, want) {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
		if again, err := a.JSON(askedPreview); err != nil || string(again) != text {
			t.Errorf("%s is written %s, %v", text, again, err)
		}
	}
}

// A title turns no text around.
func TestTitle(t *testing.T) {
	for title, want := range map[string]bool{
		"Orders": true, "a\u202fb": true, "a\u206ab": true, "a\u202ab": false, "a\u202eb": false, "a\u2066b": false, "a\u2069b": false, "": false, "a\u2028b": false,
	} {
		if Title(title) != want {
			t.Errorf("%q: %t", title, !want)
		}
	}
}

func TestPreviewAnswerRefuses(t *testing.T) {
	part := func(part string) string { return `{"sets":[{"change":` + part + `},{}]}` }
	title := func(title string) string { return part(`{"count":9,"titles":["` + title + `"]}`) }
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"sets":{}}`, `{"sets":[{}]}`, `{"sets":[{},{},{}]}`, `{"sets":[{},null]}`, `{"sets":[{},{}],"sets":[{},{}]}`,
		`{"Sets":[{},{}]}`, `{"sets":[{},{}],"note":1}`, `{"sets":[{},{}]} ` + "\x00", "\xef\xbb\xbf" + `{"sets":[{},{}]}`,
		`{"sets":[{"change":{"count":1},"change":{"count":2}},{}]}`, `{"sets":[{"delete":{"count":1}},{}]}`, `{"sets":[{"more":"yes"},{}]}`,
		part(`null`), part(`7`), part(`{}`), part(`{"titles":[]}`), part(`{"count":null}`), part(`{"count":-1}`), `{"sets":[{"change":{"count":-1},"more":true},{}]}`, part(`{"count":1000000001}`),
		part(`{"count":1.5}`), part(`{"count":"1"}`), part(`{"count":1,"count":2}`), part(`{"count":1,"Titles":[]}`), part(`{"count":1,"more":true}`),
		part(`{"count":9,"titles":["1","2","3"]}`), part(`{"count":1,"titles":["1","2"]}`), part(`{"count":9,"titles":"1"}`), part(`{"count":9,"titles":[1]}`),
		part(`{"count":9,"titles":[null]}`), part(`{"count":9,"titles":[["1"]]}`),
		title(``), title(`  `), title(strings.Repeat("é", 101)), title(`a\nb`), title(`a\u0000`), title(`\u202eabc`), title(`\u2066abc`), title(`\u2028`), title(`\u2029`), title(`\ufeffa`), title("\xff"),
		title(`\u200b`), title(`\u2800 \u3164`), title(`\u00a0\u200f`), title(`\u0301`), title(`\u00ad\ufe0f`), title("\U000e0041"),
	} {
		if a, err := ReadPreviewAnswer([]byte(text), askedPreview); err == nil {
			t.Errorf("%s: %+v", text, a)
		}
	}
	if _, err := (PreviewAnswer{}).JSON(askedPreview); err == nil {
		t.Error("an answer without the sets that were asked is written")
	}
}

func FuzzReadPreviewQuestion(f *testing.F) {
	f.Add([]byte(askedPreviewText))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := ReadPreviewQuestion(text)
		if err != nil {
			return
		}
		again, err := q.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := ReadPreviewQuestion(again); err != nil || !reflect.DeepEqual(same, q) {
			t.Errorf("%s is read back as %+v, %v", again, same, err)
		}
	})
}

func FuzzReadPreviewAnswer(f *testing.F) {
	f.Add([]byte(`{"sets":[{"change":{"count":12,"titles":["40 rolls"]},"read":{"count":3},"more":true},{"personal":{"count":0},"not":{"count":1}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ReadPreviewAnswer(text, askedPreview)
		if err != nil {
			return
		}
		again, err := a.JSON(askedPreview)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := ReadPreviewAnswer(again, askedPreview); err != nil || !reflect.DeepEqual(same, a) {
			t.Errorf("%s is read back as %+v, %v", again, same, err)
		}
	})
}
