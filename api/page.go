package api

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// How many items a page has.
const (
	DefaultPage = 100
	MaxPage     = 200
)

// maxCursor bounds a cursor, in bytes: the longest that sealCursor makes is
// far below.
const maxCursor = 1024

var errCursor = badRequest("after is not what an earlier page of this list gave as next.")

// query is the query of a list, each parameter at most once. An empty one
// counts as not sent.
type query struct {
	fields url.Values
	after  string
	limit  int
}

// readQuery refuses a parameter that the list does not have: a filter that is
// ignored would look as if it had been obeyed.
func readQuery(raw string, filters []string) (q query, err error) {
	if q.fields, err = url.ParseQuery(raw); err != nil {
		return q, badRequest("The query is not well-formed.")
	}
	known := append([]string{"limit", "after"}, filters...)
	for name, values := range q.fields {
		if !slices.Contains(known, name) {
			return q, badRequest("There is a parameter that this list does not have. It has: " + strings.Join(known, ", ") + ".")
		}
		if len(values) > 1 {
			return q, badRequest(name + " may be sent once.")
		}
	}
	q.after, q.limit = q.fields.Get("after"), DefaultPage
	if text := q.fields.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || CheckLimit(q.limit) != nil {
			return q, CheckLimit(0)
		}
	}
	return q, nil
}

// CheckLimit refuses a page that is too small or too large.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxPage {
		return badRequest("limit is a number from 1 to " + strconv.Itoa(MaxPage) + ".")
	}
	return nil
}

// flag reads true or false; nil when it was not sent.
func (q query) flag(name string) (*bool, error) {
	switch text := q.fields.Get(name); text {
	case "":
		return nil, nil
	case "true", "false":
		yes := text == "true"
		return &yes, nil
	}
	return nil, badRequest(name + " is true or false.")
}

// sealCursor makes a cursor of where a page ended. It is sealed for the list
// and the organization, so that what comes back is our own and nobody can put
// words into a query with it.
func (s *Server) sealCursor(list string, a Actor, last string) string {
	if last == "" {
		return ""
	}
	return s.Ring.SealPage("api cursor", []byte(list+" "+a.Organization+" "+last))
}

func (s *Server) openCursor(list string, a Actor, cursor string) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) > maxCursor {
		return "", errCursor
	}
	plain, _, ok := s.Ring.OpenPage("api cursor", cursor)
	last, here := strings.CutPrefix(string(plain), list+" "+a.Organization+" ")
	if !ok || !here {
		return "", errCursor
	}
	return last, nil
}

// cut gives the page of a whole list that begins behind a cursor, in order of
// IDs: so a page does not move when something is renamed.
func cut[T any](s *Server, list string, a Actor, all []T, id func(T) string, after string, limit int) (Page[T], error) {
	last, err := s.openCursor(list, a, after)
	if err != nil {
		return Page[T]{}, err
	}
	slices.SortFunc(all, func(x, y T) int { return cmp.Compare(id(x), id(y)) })
	if last != "" {
		from, _ := slices.BinarySearchFunc(all, last+"\x00", func(t T, key string) int { return cmp.Compare(id(t), key) })
		all = all[from:]
	}
	p := Page[T]{Items: all[:min(limit, len(all))]}
	if len(all) > limit {
		p.Next = s.sealCursor(list, a, id(all[limit-1]))
	}
	return p, nil
}
