package page

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/grantkeeper/grantkeeper/org"
)

// Nouns are what the service calls its entries in one language.
type Nouns struct {
	Items string            // several, without a number: "orders"
	Count map[string]string // "{n} orders", by each plural category of the language (CLDR)
}

// maxNoun is the most code points that one of them may have.
const maxNoun = 40

// CheckNouns says what is wrong with nouns in a language, by its tag.
func CheckNouns(tag string, n Nouns) error {
	if !slices.ContainsFunc(tongues, func(t tongue) bool { return t.Tag == tag }) {
		return errors.New("pages are not written in that language")
	}
	if err := checkNoun(n.Items); err != nil || strings.Contains(n.Items, "{") {
		return fmt.Errorf(`items: a plain text of at most %d characters, such as "orders"`, maxNoun)
	}
	want := map[string]bool{}
	for number := range 200 {
		want[category(language.MustParse(tag), number)] = true
	}
	categories := slices.Sorted(maps.Keys(want))
	if got := slices.Sorted(maps.Keys(n.Count)); !slices.Equal(got, categories) {
		return fmt.Errorf("count: has %s; this language counts by %s", strings.Join(got, ", "), strings.Join(categories, ", "))
	}
	for _, c := range categories {
		text := n.Count[c]
		without := strings.Replace(text, "{n}", "", 1)
		if checkNoun(text) != nil || strings.ContainsAny(without, "{}") || without == text && c != "zero" && c != "one" && c != "two" {
			return fmt.Errorf(`count.%s: a plain text of at most %d characters with {n} in it, such as "{n} orders"`, c, maxNoun)
		}
	}
	return nil
}

func checkNoun(s string) error {
	if utf8.RuneCountInString(s) > maxNoun || strings.ContainsAny(s, "<>") || strings.TrimSpace(s) != s {
		return errors.New("it is too long, or has markup")
	}
	return org.CheckName(s)
}

// phrases are the messages that they take the place of; none where there are
// none. They have passed CheckNouns.
func (n Nouns) phrases() map[string]phrase {
	if n.Items == "" {
		return nil
	}
	out := map[string]phrase{"noun.items": {"other": {{Kind: "text", Text: n.Items}}}, "noun.count": {}}
	for category, text := range n.Count {
		before, after, numbered := strings.Cut(text, "{n}")
		form := Said{{Kind: "text", Text: before}}
		if numbered {
			form = append(form, Part{Kind: "value", Text: "n"}, Part{Kind: "text", Text: after})
		}
		out["noun.count"][category] = form
	}
	return out
}
