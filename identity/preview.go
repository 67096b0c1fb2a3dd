package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Bounds of a preview. A title is counted in code points.
const (
	PreviewSets   = 4
	PreviewTitles = 20
	PreviewTitle  = 100
	PreviewCount  = 1_000_000_000
)

// previewDepth is how deep an answer nests: answer, sets, set, part, titles.
const previewDepth = 5

// A PreviewQuestion asks a service what choices would give that a person is
// about to make: for each set the numbers, and some titles, of what it would
// let a client do. The service decides each of its items by the functions that
// decide calls, and counts nothing that the person does not see.
type PreviewQuestion struct {
	Person       string // ID
	Organization string // ID
	Language     string // BCP 47: of the page that shows the answer
	Titles       int    // at most so many for each part; at most PreviewTitles
	Sets         []Identity
}

type previewQuestion struct {
	Person       string       `json:"person"`
	Organization string       `json:"organization"`
	Language     string       `json:"language"`
	Titles       int          `json:"titles"`
	Sets         []previewSet `json:"sets"`
}

// previewSet is one of the choices: authority is the text of HeaderAuthority.
type previewSet struct {
	Grant     string `json:"grant"`
	Authority string `json:"authority"`
}

// JSON writes the question. Of each set it takes what the headers of a call
// would say under it.
func (q PreviewQuestion) JSON() ([]byte, error) {
	out := previewQuestion{q.Person, q.Organization, q.Language, q.Titles, nil}
	for _, i := range q.Sets {
		out.Sets = append(out.Sets, previewSet{i.Grant, i.authority()})
	}
	return json.Marshal(out)
}

// ReadPreviewQuestion reads a question, whose sets are whom calls under them
// would be made for. Who asks is in the headers: see [VerifyCall].
func ReadPreviewQuestion(text []byte) (PreviewQuestion, error) {
	var said previewQuestion
	var sets []json.RawMessage
	err := strictjson.Fields(text, previewDepth, map[string]any{"person": &said.Person, "organization": &said.Organization,
		"language": &said.Language, "titles": &said.Titles, "sets": &sets})
	q := PreviewQuestion{said.Person, said.Organization, said.Language, said.Titles, nil}
	switch {
	case err != nil:
		return PreviewQuestion{}, err
	case q.Titles < 0 || q.Titles > PreviewTitles:
		return PreviewQuestion{}, fmt.Errorf("titles: 0 to %d", PreviewTitles)
	case len(sets) == 0 || len(sets) > PreviewSets:
		return PreviewQuestion{}, fmt.Errorf("sets: 1 to %d", PreviewSets)
	}
	for _, one := range sets {
		var s previewSet
		if err := strictjson.Fields(one, 1, map[string]any{"grant": &s.Grant, "authority": &s.Authority}); err != nil {
			return PreviewQuestion{}, fmt.Errorf("sets: %w", err)
		}
		if s.Grant != "roles" && s.Grant != "everything" && s.Grant != "organization" {
			return PreviewQuestion{}, fmt.Errorf("grant: unknown word %q", s.Grant)
		}
		i := Identity{Person: q.Person, Organization: q.Organization, Grant: s.Grant}
		if err := i.readAuthority(s.Authority); err != nil {
			return PreviewQuestion{}, err
		}
		q.Sets = append(q.Sets, i)
	}
	return q, nil
}

// A PreviewAnswer has a Preview for each set of the question, in its order.
type PreviewAnswer struct {
	Sets []Preview `json:"sets"`
}

// A Preview says what one set would let a client do. Each item that the person
// sees counts once, in the first part that holds it; a part that is nil is not
// said, and is no zero.
type Preview struct {
	Personal *PreviewPart `json:"personal,omitempty"` // the person's own items, which it may read and change
	Change   *PreviewPart `json:"change,omitempty"`   // may change
	Read     *PreviewPart `json:"read,omitempty"`     // may read
	Not      *PreviewPart `json:"not,omitempty"`      // gets nothing of
	More     bool         `json:"more,omitempty"`     // counting stopped: each number is a least one
}

// A PreviewPart is how many items there are, 0 to PreviewCount, and the titles
// of the first.
type PreviewPart struct {
	Count  int      `json:"count"`
	Titles []string `json:"titles,omitempty"`
}

// JSON writes the answer, and refuses what ReadPreviewAnswer would.
func (a PreviewAnswer) JSON(q PreviewQuestion) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	_, err = ReadPreviewAnswer(text, q)
	return text, err
}

// ReadPreviewAnswer reads what a service answered. What is wrong anywhere makes
// all of it worth nothing.
func ReadPreviewAnswer(text []byte, q PreviewQuestion) (PreviewAnswer, error) {
	var sets []json.RawMessage
	if err := strictjson.Fields(text, previewDepth, map[string]any{"sets": &sets}); err != nil {
		return PreviewAnswer{}, err
	}
	if len(sets) != len(q.Sets) {
		return PreviewAnswer{}, fmt.Errorf("sets: %d were asked, not %d", len(q.Sets), len(sets))
	}
	var a PreviewAnswer
	for _, one := range sets {
		p, err := readPreview(one, q.Titles)
		if err != nil {
			return PreviewAnswer{}, fmt.Errorf("sets: %w", err)
		}
		a.Sets = append(a.Sets, p)
	}
	return a, nil
}

func readPreview(text []byte, titles int) (p Preview, err error) {
	var personal, change, read, not json.RawMessage
	err = strictjson.Fields(text, previewDepth, map[string]any{"personal": &personal, "change": &change, "read": &read, "not": &not, "more": &p.More})
	for _, part := range []struct {
		text json.RawMessage
		at   **PreviewPart
	}{{personal, &p.Personal}, {change, &p.Change}, {read, &p.Read}, {not, &p.Not}} {
		if err == nil && part.text != nil {
			*part.at, err = readPart(part.text, titles, p.More)
		}
	}
	return p, err
}

func readPart(text []byte, titles int, more bool) (*PreviewPart, error) {
	p, count := &PreviewPart{}, -1
	if err := strictjson.Fields(text, 2, map[string]any{"count": &count, "titles": &p.Titles}); err != nil {
		return nil, err
	}
	p.Count = count
	switch {
	case count < 0 || count > PreviewCount:
		return nil, fmt.Errorf("count: 0 to %d", PreviewCount)
	case len(p.Titles) > titles:
		return nil, fmt.Errorf("titles: at most %d were asked", titles)
	case len(p.Titles) > count && !more:
		return nil, errors.New("titles: more than are counted")
	case slices.ContainsFunc(p.Titles, untitled):
		return nil, fmt.Errorf("titles: each 1 to %d characters, without controls and signs that turn text around", PreviewTitle)
	}
	return p, nil
}

// Title reports whether a text can stand on a page as a title.
func Title(text string) bool { return !untitled(text) }

// untitled reports what cannot stand on a page as a title.
func untitled(title string) bool {
	return !strings.ContainsFunc(title, shows) || utf8.RuneCountInString(title) > PreviewTitle || strings.ContainsFunc(title, func(r rune) bool {
		turns := r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 // embeddings, overrides, isolates
		return turns || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) || r == '\uFEFF'
	})
}

// shows reports whether a person sees something of a code point that stands alone: not
// of a space, mark, joiner, filler or blank.
func shows(r rune) bool {
	return r != '\u2800' && !unicode.In(r, unicode.Z, unicode.M, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}
