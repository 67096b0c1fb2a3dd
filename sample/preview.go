package sample

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/grantkeeper/grantkeeper/identity"
)

// A preview says what choices would give, before the person approves one: the
// functions that decide calls are asked, of the items that are there now
// (decision V44).

// Bounds of a preview.
const (
	maxSets       = 4
	maxTitles     = 20
	maxTitleShown = 100 // characters
)

// choices is the question.
type choices struct {
	Person       string   `json:"person"`
	Organization string   `json:"organization"`
	Language     string   `json:"language"` // titles are as they were written
	Titles       int      `json:"titles"`   // of each count, at most
	Sets         []choice `json:"sets"`
}

// choice is in the words of the signed headers.
type choice struct {
	Grant     string `json:"grant"`
	Authority string `json:"authority"`
}

// given is what one choice would give of what the person sees: items of roles to
// change and to read, and their own; and what it would not.
type given struct {
	Change   some `json:"change"`
	Read     some `json:"read"`
	Personal some `json:"personal"`
	Not      some `json:"not"`
}

type some struct {
	Count  int      `json:"count"`
	Titles []string `json:"titles"`
}

// preview answers POST /grantkeeper/preview.
func (s *Server) preview(w http.ResponseWriter, r *http.Request, who identity.Identity) {
	var q choices
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		s.fail(w, r, &fault{Status: 405, Code: "method_not_allowed", Description: "This path takes POST."})
		return
	case json.NewDecoder(r.Body).Decode(&q) != nil, q.Person != who.Person, q.Organization != who.Organization, len(q.Sets) == 0, len(q.Sets) > maxSets:
		s.fail(w, r, badRequest("Send person, organization and one to four sets, signed as the person."))
		return
	}
	dir, err := s.directory.read(r.Context(), who.Organization)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	may, err := who.Choose("everything", authorityOf(dir.people[who.Person])) // what the person sees by themselves
	sees := rights{may, dir}
	told := []given{}
	for _, one := range q.Sets {
		chosen, wrong := who.Choose(one.Grant, one.Authority)
		if err = cmp.Or(err, wrong); err != nil {
			s.fail(w, r, badRequest(err.Error()))
			return
		}
		told = append(told, s.given(sees, rights{chosen, dir}, min(max(q.Titles, 0), maxTitles)))
	}
	body, err := json.Marshal(map[string]any{"sets": told})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// authorityOf is what the header says of a member who gives everything.
func authorityOf(p person) string {
	if p.Admin {
		return "admin,personal"
	}
	return "personal"
}

func (s *Server) given(sees, gets rights, titles int) given {
	none := some{Titles: []string{}}
	g := given{none, none, none, none}
	all := s.items.all(sees.Organization, "", "")
	slices.SortStableFunc(all, func(a, b Item) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, i := range all {
		at := i.place()
		switch {
		case !sees.mayReadItem(at): // a count would tell of it
		case !gets.mayReadItem(at):
			g.Not.add(i, titles)
		case at.personal():
			g.Personal.add(i, titles)
		case gets.mayChangeItem(at):
			g.Change.add(i, titles)
		default:
			g.Read.add(i, titles)
		}
	}
	return g
}

func (s *some) add(i Item, titles int) {
	if s.Count++; len(s.Titles) < titles {
		s.Titles = append(s.Titles, shown(i.Title))
	}
}

// shown is a title without controls, cut to what a page has room for.
func shown(title string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, title))
	return string(runes[:min(len(runes), maxTitleShown)])
}
