package page

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html/template"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	tree "text/template/parse"
	"time"

	"golang.org/x/text/language"
)

// speaking gives the words of a language.
func speaking(tag string) *Words { return newWording("Svalinn", nil, assets).named(tag) }

// shape is what all forms of a message have alike in every language: its
// parameters and tags.
func shapeOf(form Said) (out []string) {
	for _, p := range form {
		switch p.Kind {
		case "value":
			out = append(out, "{"+p.Text+"}")
		case "text":
		default:
			out = append(out, "<"+p.Kind+">")
			out = append(out, shapeOf(p.Parts)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Every language has every message of the English catalogue and no other, each
// with the same parameters and tags, and a form for each of its own plural
// categories. A form for one, two or no number alone may leave the number out.
func TestCatalogue(t *testing.T) {
	english := catalogue["en"]()
	for _, at := range tongues {
		theirs := catalogue[at.Tag]()
		for id := range theirs {
			if _, ok := english[id]; !ok {
				t.Errorf("%s: %s is no message", at.Name, id)
			}
		}
		categories := map[string]bool{}
		for n := range 200 {
			categories[category(language.MustParse(at.Tag), n)] = true
		}
		for id, p := range english {
			got, ok := theirs[id]
			if !ok {
				t.Errorf("%s: %s is missing", at.Name, id)
				continue
			}
			want := shapeOf(p["other"])
			if counts := len(p) > 1; counts {
				for category := range categories {
					_, none := got["0"]
					if _, ok := got[category]; !ok && !(none && category == "zero") {
						t.Errorf("%s: %s has no form %q", at.Name, id, category)
					}
				}
			}
			for key, form := range got {
				_, exact := strconv.Atoi(key)
				if key != "other" && !categories[key] && exact != nil {
					t.Errorf("%s: %s has a form %q, which nothing leads to", at.Name, id, key)
				}
				shape := shapeOf(form)
				few := exact == nil || key == "zero" || key == "one" || key == "two"
				if i := slices.Index(want, "{n}"); i >= 0 && few && !slices.Contains(shape, "{n}") {
					want := slices.Delete(slices.Clone(want), i, i+1)
					if !slices.Equal(shape, want) {
						t.Errorf("%s: %s.%s has %v, want %v", at.Name, id, key, shape, want)
					}
				} else if !slices.Equal(shape, want) {
					t.Errorf("%s: %s.%s has %v, want %v", at.Name, id, key, shape, want)
				}
				if text := form.String(); strings.TrimSpace(text) != text && id != "list.between" && id != "number.group" {
					t.Errorf("%s: %s.%s begins or ends with a space", at.Name, id, key)
				}
			}
		}
	}
}

// In French a space before high punctuation and inside quotation marks does not
// break: a line never begins with a mark.
func TestFrenchSpaces(t *testing.T) {
	breaks := regexp.MustCompile(`[^\x{202F}][;!?]|[^\x{00A0}0-9][:»]|«[^\x{00A0}]`)
	for id, p := range catalogue["fr"]() {
		for key, form := range p {
			if at := breaks.FindString(values(form)); at != "" {
				t.Errorf("%s.%s has %q, where a line may break", id, key, at)
			}
		}
	}
}

// A used message: its id, and the names of the values that it is given.
type saying struct {
	where, id string
	values    []string
}

// ofDoors gives the files here, and of the doors that have their pages from here.
func ofDoors(t *testing.T, pattern string) (names []string) {
	t.Helper()
	for _, room := range []string{".", "../signin", "../consent", "../orgadmin"} {
		found, err := filepath.Glob(room + "/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no %s: %v", room, pattern, err)
		}
		names = append(names, found...)
	}
	return names
}

// inTemplates finds what templates say.
func inTemplates(t *testing.T) (all []saying) {
	t.Helper()
	var walk func(where string, n tree.Node)
	walk = func(where string, n tree.Node) {
		switch n := n.(type) {
		case *tree.ListNode:
			if n != nil {
				for _, c := range n.Nodes {
					walk(where, c)
				}
			}
		case *tree.ActionNode:
			walk(where, n.Pipe)
		case *tree.IfNode:
			walk(where, n.Pipe)
			walk(where, n.List)
			walk(where, n.ElseList)
		case *tree.RangeNode:
			walk(where, n.Pipe)
			walk(where, n.List)
			walk(where, n.ElseList)
		case *tree.WithNode:
			walk(where, n.Pipe)
			walk(where, n.List)
			walk(where, n.ElseList)
		case *tree.TemplateNode:
			walk(where, n.Pipe)
		case *tree.PipeNode:
			if n != nil {
				for _, c := range n.Cmds {
					walk(where, c)
				}
			}
		case *tree.CommandNode:
			if name, ok := n.Args[0].(*tree.IdentifierNode); ok && (name.Ident == "say" || name.Ident == "forms") {
				id, ok := n.Args[1].(*tree.StringNode)
				if !ok {
					t.Errorf("%s: %s is said by no id of its own", where, n)
					return
				}
				s := saying{where: where, id: id.Text}
				for i := 2; i < len(n.Args); i += 2 {
					s.values = append(s.values, n.Args[i].(*tree.StringNode).Text)
				}
				if name.Ident == "forms" { // the script brings the values
					s.values = nil
					for _, p := range catalogue["en"]()[s.id]["other"] {
						if p.Kind == "value" {
							s.values = append(s.values, p.Text)
						}
					}
				}
				all = append(all, s)
			}
			for _, a := range n.Args {
				walk(where, a)
			}
		}
	}
	for _, f := range ofDoors(t, "templates/*.html") {
		for _, part := range template.Must(template.New(f).Funcs((*Words)(nil).functions()).ParseFiles(f)).Templates() {
			if part.Tree != nil {
				walk(f, part.Tree.Root)
			}
		}
	}
	return all
}

// inCode finds the texts in code that are ids.
func inCode(t *testing.T) (ids map[string]bool) {
	t.Helper()
	ids = map[string]bool{}
	for _, name := range ofDoors(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value)
				ids[text] = true
			}
			return true
		})
	}
	for month := 1; month <= 12; month++ {
		ids[fmt.Sprint("date.month.", month)] = true
	}
	return ids
}

// What is said is in the catalogue, with the values that the message needs,
// and what is in the catalogue is said.
func TestMessagesAreUsed(t *testing.T) {
	english, said := catalogue["en"](), inCode(t)
	for _, s := range inTemplates(t) {
		p, ok := english[s.id]
		if !ok {
			t.Errorf("%s says %s, which is no message", s.where, s.id)
			continue
		}
		said[s.id] = true
		given := map[string]bool{"service": true, "items": true}
		for _, name := range s.values {
			given[name] = true
		}
		shape := shapeOf(p["other"])
		for _, need := range shape {
			switch need = strings.Trim(need, "{}<>"); {
			case need == "b" || need == "code" || given[need]:
			default:
				t.Errorf("%s says %s without %s", s.where, s.id, need)
			}
		}
		for _, name := range s.values {
			if !slices.Contains(shape, "{"+name+"}") && !slices.Contains(shape, "<"+name+">") && !(name == "n" && len(p) > 1) {
				t.Errorf("%s gives %s a %s, which it does not say", s.where, s.id, name)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(english)) {
		if !said[id] {
			t.Errorf("nothing says %s", id)
		}
	}
}

// What the frame shows is the frame's: no page has a field of the name of one of
// its fields or methods, which a template would take instead.
func TestFrameIsNotShadowed(t *testing.T) {
	pages, fields := map[string][]string{}, []string{}
	for _, name := range ofDoors(t, "*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Recv != nil {
				if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok && p.X.(*ast.Ident).Name == "Frame" {
					fields = append(fields, f.Name.Name)
				}
			}
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			embeds := false
			var own []string
			for _, f := range of.Fields.List {
				id, _ := f.Type.(*ast.Ident)
				if there, ok := f.Type.(*ast.SelectorExpr); ok {
					id = there.Sel
				}
				embeds = embeds || id != nil && len(f.Names) == 0 && id.Name == "Frame"
				for _, n := range f.Names {
					own = append(own, n.Name)
				}
			}
			if embeds {
				pages[spec.Name.Name] = own
			} else if spec.Name.Name == "Frame" {
				fields = append(fields, own...)
			}
			return true
		})
	}
	if len(pages) < 10 || len(fields) < 10 {
		t.Fatalf("found %d pages and %d fields", len(pages), len(fields))
	}
	for page, own := range pages {
		for _, field := range own {
			if slices.Contains(fields, field) {
				t.Errorf("%s has a field %s beside the frame's", page, field)
			}
		}
	}
}

// The plural rules are each language's own (CLDR), not English ones.
func TestPlurals(t *testing.T) {
	for _, tt := range []struct {
		tag, id string
		n       int
		want    string
	}{
		{"en", "date.days", 1, "1 day ago"}, {"en", "date.days", 0, "0 days ago"}, {"en", "date.days", 1200, "1,200 days ago"},
		{"fr", "date.days", 0, "il y a 0 jour"}, {"fr", "date.days", 2, "il y a 2 jours"},
		{"de", "date.days", 2, "vor 2 Tagen"}, {"de", "date.days", 1200, "vor 1.200 Tagen"},
		{"ar", "date.days", 1, "قبل يوم واحد"}, {"ar", "date.days", 2, "قبل يومين"}, {"ar", "date.days", 3, "قبل 3 أيام"},
		{"ar", "date.days", 11, "قبل 11 يومًا"}, {"ar", "date.days", 100, "قبل 100 يوم"}, {"ar", "date.days", 103, "قبل 103 أيام"},
	} {
		if got := speaking(tt.tag).Say(tt.id, "n", tt.n).String(); got != tt.want {
			t.Errorf("%s %d: %q, want %q", tt.tag, tt.n, got, tt.want)
		}
	}
}

// Dates are written as each language writes them.
func TestDates(t *testing.T) {
	when := time.Date(2026, 11, 21, 9, 41, 0, 0, time.UTC)
	first := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	for tag, want := range map[string][3]string{
		"en": {"21 November 2026", "1 August 2026", "on 21 November 2026 at 09:41"},
		"de": {"21. November 2026", "1. August 2026", "am 21. November 2026 um 09:41"},
		"fr": {"21 novembre 2026", "1er août 2026", "le 21 novembre 2026 à 09:41"},
		"es": {"21 de noviembre de 2026", "1 de agosto de 2026", "el 21 de noviembre de 2026 a las 09:41"},
		"nl": {"21 november 2026", "1 augustus 2026", "op 21 november 2026 om 09:41"},
		"ar": {"21 نوفمبر 2026", "1 أغسطس 2026", "في 21 نوفمبر 2026 الساعة 09:41"},
	} {
		w := speaking(tag)
		got := [3]string{w.moment(On(when.Unix(), when)), w.moment(On(first.Unix(), when)), w.moment(At(when.Unix(), when.AddDate(0, 0, 3)))}
		if got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}

// What cannot be a message stops the start, not a page.
func TestBadMessages(t *testing.T) {
	for _, text := range []string{"<i>x</i>", "<b>x", "x</b>", "<b>x</code>", "{x", "<b", "<script>", `<b class="x">y</b>`, "<link>x</b></link>"} {
		if got, err := readMessage(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	for _, file := range []string{`a = 1`, `a.other = 1`, `a.b = "<i>"`, `a.other = "{x"`, `a = `} {
		if got, err := readPhrases([]byte(file)); err == nil {
			t.Errorf("%q is read as %v", file, got)
		}
	}
}

// values is a form as text, its parameters in braces.
func values(form Said) string {
	var b strings.Builder
	for _, p := range form {
		if p.Kind == "value" {
			b.WriteString("{" + p.Text + "}")
			continue
		}
		b.WriteString(p.Text + values(p.Parts))
	}
	return b.String()
}

func TestInitials(t *testing.T) {
	for name, want := range map[string]string{"Ada Lindqvist": "AL", "ada": "A", "Ada Maria van Lindqvist": "AL", "": "•", "\u0301\u0302": "•",
		"a\u0301b c\u0302d": "AC", "Åse Ødegård": "ÅØ", "42 Nils": "N", "علي حسن": "عح", "\uFFFD": "•"} {
		if got := initials(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
