package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
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

// list makes the handler of a list's path.
func list[T any](ask func(ctx context.Context, a Actor, after string, limit int) (Page[T], error)) func(*http.Request, Actor) ([]byte, error) {
	return func(r *http.Request, a Actor) ([]byte, error) {
		after, limit, err := pageOf(r.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		p, err := ask(r.Context(), a, after, limit)
		if err != nil {
			return nil, err
		}
		return json.Marshal(p)
	}
}

// pageOf reads limit and after. An empty one counts as not sent, and unknown
// parameters are ignored.
func pageOf(query string) (after string, limit int, err error) {
	fields, err := url.ParseQuery(query)
	if err != nil {
		return "", 0, badRequest("The query is not well-formed.")
	}
	if len(fields["limit"]) > 1 || len(fields["after"]) > 1 {
		return "", 0, badRequest("limit and after may be sent once.")
	}
	limit = DefaultPage
	if text := fields.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxPage {
			return "", 0, badRequest("limit is a number from 1 to " + strconv.Itoa(MaxPage) + ".")
		}
	}
	return fields.Get("after"), limit, nil
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
