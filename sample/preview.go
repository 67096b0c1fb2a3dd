package sample

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/grantkeeper/grantkeeper/identity"
)

// A preview says what choices would give, before the person approves one: the
// functions that decide calls are asked, of the items that are there now
// (decision V44).

// preview answers POST /grantkeeper/preview.
func (s *Server) preview(w http.ResponseWriter, r *http.Request, who identity.Identity) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.fail(w, r, &fault{Status: 405, Code: "method_not_allowed", Description: "This path takes POST."})
		return
	}
	body, err := io.ReadAll(r.Body)
	q, wrong := identity.ReadPreviewQuestion(body)
	if err := cmp.Or(err, wrong); err != nil {
		s.fail(w, r, badRequest(err.Error()))
		return
	}
	if q.Person != who.Person || q.Organization != who.Organization {
		s.fail(w, r, badRequest("The question is not of whom it is signed for."))
		return
	}
	dir, err := s.directory.read(r.Context(), who.Organization)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	all := identity.Identity{Person: q.Person, Organization: q.Organization, Grant: "everything", Personal: true, Admin: dir.people[q.Person].Admin}
	var a identity.PreviewAnswer
	for _, set := range q.Sets {
		a.Sets = append(a.Sets, s.given(rights{all, dir}, rights{set, dir}, q.Titles))
	}
	if body, err = a.JSON(q); err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// given is what a choice gives of what the person sees by themselves.
func (s *Server) given(sees, gets rights, titles int) identity.Preview {
	var personal, change, read, not identity.PreviewPart
	all := s.items.all(sees.Organization, "", "")
	slices.SortStableFunc(all, func(a, b Item) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, i := range all {
		part := &not
		switch at := i.place(); {
		case !sees.mayReadItem(at): // a count would tell of it
			continue
		case !gets.mayReadItem(at):
		case at.personal():
			part = &personal
		case gets.mayChangeItem(at):
			part = &change
		default:
			part = &read
		}
		part.Count++
		if title := shown(i.Title); title != "" && len(part.Titles) < titles {
			part.Titles = append(part.Titles, title)
		}
	}
	return identity.Preview{Personal: &personal, Change: &change, Read: &read, Not: &not}
}

// shown is a title as an answer may have it: without controls and signs that turn
// text around, cut; "" is none.
func shown(title string) string {
	runes := []rune(strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\uFEFF' || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, title)))
	return string(runes[:min(len(runes), identity.PreviewTitle)])
}
