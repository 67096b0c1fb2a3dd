package page

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// Pages say nothing by themselves: every word stands in words/*.toml, one file
// a language, under an id that all of them share. The first is English, which
// also says what another language lacks.
//
// A message has parameters in braces, and may have <b>, <code> and <link>,
// nothing else of HTML. One that counts has a form for each of the language's
// plural categories, chosen by the parameter n; a form under a number in
// quotes is for that number alone. {service} is always there, and so is {items}: what
// the service calls its entries.
//
//	[leave]
//	title = "Leave an organization"
//	asks = "Leave {organization}?"
//	ends.one = "{n} connection ends at once."
//	ends.other = "{n} connections end at once."
//
// In a template:
//
//	{{say "leave.title"}}                                            as text, in attributes too
//	{{template "say" (say "leave.asks" "organization" .Name)}}       marked up: names isolated in <bdi>
//	{{template "say" (say "leave.ends" "n" .Apps)}}
//
// and in Go v.Words.Say("leave.title").String(). What a value is decides how
// it is shown, see show: a string is what somebody else wrote.
//
//go:embed words/*.toml
var wordFiles embed.FS

// A tongue is a language that pages are written in.
type tongue struct {
	Tag  string // BCP 47
	Name string // in itself
	Dir  string // ltr or rtl
}

// tongues are in the order of the switch. The first is what others fall back to.
var tongues = []tongue{
	{"en", "English", "ltr"}, {"de", "Deutsch", "ltr"}, {"fr", "Français", "ltr"}, {"es", "Español", "ltr"},
	{"nl", "Nederlands", "ltr"}, {"ar", "العربية", "rtl"},
}

// Said is a message with its values in it: what a template marks up, or text.
type Said []Part

// A Part of a message. In the catalogue the kind "value" stands for a
// parameter; said has the kinds that the template "say" knows.
type Part struct {
	Kind  string
	Text  string // as plain text; of a value in the catalogue its name
	Value any    // of host, app, time
	Parts Said   // inside b, code and link
}

// String is the message as plain text.
func (s Said) String() string {
	if len(s) == 1 && s[0].Parts == nil {
		return s[0].Text
	}
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
		b.WriteString(p.Parts.String())
	}
	return b.String()
}

// Kinds of values beside string, int, host, app and moment.
type (
	plain  string // text of ours: as it is
	domain string // of a host: isolated, in the type of hosts
	code   string // for developers
	Href   string // path that <link> leads to
)

// Words say messages in one language.
type Words struct {
	tongue
	service string
	assets  *assetSet
	phrases func() map[string]phrase
	nouns   map[string]phrase // of the service, in place of some
	tag     language.Tag
}

func newWords(t tongue, service string, assets *assetSet) *Words {
	return &Words{tongue: t, service: service, assets: assets, phrases: catalogue[t.Tag],
		tag: language.MustParse(t.Tag)}
}

// Say gives a message with values in it: name, value, ... Where a language
// lacks the message English says it. What is no id is said as it is: pages of
// others bring their own words.
func (w *Words) Say(id string, values ...any) Said {
	p, ok := w.phrase(id)
	if !ok {
		return Said{{Kind: "text", Text: id}}
	}
	return w.fill(p.form(w.tag, values), values)
}

func (w *Words) phrase(id string) (p phrase, ok bool) {
	for _, from := range []map[string]phrase{w.nouns, w.phrases()} {
		if p, ok = from[id]; ok {
			return p, true
		}
	}
	p, ok = catalogue[tongues[0].Tag]()[id]
	return p, ok
}

// form chooses by the value n.
func (p phrase) form(tag language.Tag, values []any) Said {
	if len(p) == 1 {
		return p["other"]
	}
	n, _ := valueOf("n", values).(int)
	if f, ok := p[strconv.Itoa(n)]; ok {
		return f
	}
	if f, ok := p[category(tag, n)]; ok {
		return f
	}
	return p["other"]
}

var categories = map[plural.Form]string{plural.Zero: "zero", plural.One: "one", plural.Two: "two",
	plural.Few: "few", plural.Many: "many", plural.Other: "other"}

// category is the plural category of a cardinal number (CLDR).
func category(tag language.Tag, n int) string {
	return categories[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]
}

func valueOf(name string, values []any) any {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == name {
			return values[i+1]
		}
	}
	return nil
}

func (w *Words) fill(form Said, values []any) Said {
	if !slices.ContainsFunc(form, func(p Part) bool { return p.Kind != "text" }) {
		return form
	}
	out := make(Said, 0, len(form))
	for _, p := range form {
		switch p.Kind {
		case "value":
			out = append(out, w.show(p.Text, valueOf(p.Text, values))...)
		case "link":
			to, _ := valueOf("link", values).(Href)
			out = append(out, Part{Kind: "link", Value: string(to), Parts: w.fill(p.Parts, values)})
		case "b", "code":
			out = append(out, Part{Kind: p.Kind, Parts: w.fill(p.Parts, values)})
		default:
			out = append(out, p)
		}
	}
	return out
}

// show gives the parts of a value. A string is text that others wrote, and
// several are a list of such.
func (w *Words) show(name string, value any) Said {
	switch v := value.(type) {
	case string:
		return Said{{Kind: "name", Text: v}}
	case []string:
		return w.List(v)
	case plain:
		return Said{{Kind: "text", Text: string(v)}}
	case int:
		return Said{{Kind: "text", Text: w.number(v)}}
	case domain:
		return Said{{Kind: "domain", Text: string(v)}}
	case code:
		return Said{{Kind: "code", Parts: Said{{Kind: "text", Text: string(v)}}}}
	case Host:
		return Said{{Kind: "host", Text: v.String(), Value: v}}
	case App:
		return Said{{Kind: "app", Text: v.String(), Value: v}}
	case Moment:
		return Said{{Kind: "time", Text: w.moment(v), Value: v}}
	case Said:
		return v
	case *string:
		return w.show(name, *v)
	case *Moment:
		return w.show(name, *v)
	case *App:
		return w.show(name, *v)
	}
	switch name {
	case "service":
		return Said{{Kind: "text", Text: w.service}}
	case "items":
		return w.Say("noun.items")
	}
	return Said{{Kind: "text", Text: "{" + name + "}"}} // a test finds it
}

// List says names one after the other.
func (w *Words) List(names []string) (out Said) {
	between := w.Say("list.between")
	for i, name := range names {
		if i > 0 {
			out = append(out, between...)
		}
		out = append(out, Part{Kind: "name", Text: name})
	}
	return out
}

// number groups digits as the language does. The script does it alike.
func (w *Words) number(n int) string {
	if n >= 0 && n < 1000 {
		return strconv.Itoa(n)
	}
	digits, group := strconv.Itoa(n), w.Say("number.group").String()
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + group + digits[i:]
	}
	return digits
}

// forms gives a message to the script, which fills it in: JSON, by plural category.
func (w *Words) forms(id string) string {
	p, _ := w.phrase(id)
	out := map[string]string{}
	for category, form := range p {
		var b strings.Builder
		for _, part := range form {
			if part.Kind == "value" && part.Text != "items" {
				b.WriteString("{" + part.Text + "}")
				continue
			}
			b.WriteString(w.fill(Said{part}, nil).String())
		}
		out[category] = b.String()
	}
	text, _ := json.Marshal(out) // strings
	return string(text)
}

// wording is the pages in every language for one service. Templates are parsed
// once; each language has a copy, made when it is first asked for.
type wording struct {
	all    []*Words
	mu     sync.Mutex
	copies map[wordedAs]*template.Template
}

type wordedAs struct {
	words    *Words
	template *template.Template
}

func newWording(service string, nouns map[string]Nouns, assets *assetSet) *wording {
	w := &wording{copies: map[wordedAs]*template.Template{}}
	for _, t := range tongues {
		one := newWords(t, service, assets)
		one.nouns = nouns[t.Tag].phrases()
		w.all = append(w.all, one)
	}
	return w
}

// in gives a template that says its words in a language.
func (w *wording) in(words *Words, t *template.Template) (*template.Template, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, ok := w.copies[wordedAs{words, t}]; ok {
		return t, nil
	}
	c, err := t.Clone()
	if err != nil {
		return nil, fmt.Errorf("template %s in %s: %w", t.Name(), words.Name, err)
	}
	c.Funcs(words.functions())
	w.copies[wordedAs{words, t}] = c
	return c, nil
}

func (w *Words) asset(name string) string { return w.assets.paths[name] }

// unmarked reports whether nothing in a name can pile up on a letter.
func unmarked(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.M, r) })
}

// initials are the first letters of a name's first and last word. What is no
// letter is left out: a mark could cover what stands beside it.
func initials(name string) string {
	var first []rune
	for word := range strings.FieldsSeq(name) {
		if r := []rune(word)[0]; unicode.IsLetter(r) {
			first = append(first, unicode.ToUpper(r))
		}
	}
	if len(first) > 2 {
		first = []rune{first[0], first[len(first)-1]}
	}
	return cmp.Or(string(first), "•")
}

// functions are those of templates.
func (w *Words) functions() template.FuncMap {
	return template.FuncMap{
		"say": w.Say, "forms": w.forms, "moment": w.moment, "alone": w.alone, "asset": w.asset,
		"domain": func(s string) domain { return domain(s) }, "code": func(s string) code { return code(s) },
		"link": func(s string) Href { return Href(s) }, "plain": func(s string) plain { return plain(s) }, "unmarked": unmarked, "initials": initials,
		"tongue": func() tongue { return w.tongue }, "tongues": func() []tongue { return tongues },
	}
}
