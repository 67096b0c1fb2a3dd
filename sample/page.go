package sample

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// How many items a page has.
const (
	defaultPage = 100
	maxPage     = 200
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
	q.after, q.limit = q.fields.Get("after"), defaultPage
	if text := q.fields.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || checkLimit(q.limit) != nil {
			return q, checkLimit(0)
		}
	}
	return q, nil
}

// checkLimit refuses a page that is too small or too large.
func checkLimit(limit int) error {
	if limit < 1 || limit > maxPage {
		return badRequest("limit is a number from 1 to " + strconv.Itoa(maxPage) + ".")
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
// and the organization, so that what comes back is our own.
func (s *Server) sealCursor(list string, c caller, last string) string {
	if last == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(s.cursorMAC(list, c, last), last...))
}

const cursorMAC = 16 // bytes

func (s *Server) cursorMAC(list string, c caller, last string) []byte {
	h := hmac.New(sha256.New, s.o.Key)
	h.Write([]byte("cursor\n" + list + "\n" + c.Organization + "\n" + last))
	return h.Sum(nil)[:cursorMAC]
}

func (s *Server) openCursor(list string, c caller, cursor string) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(cursor)
	if len(cursor) > maxCursor || err != nil || len(plain) <= cursorMAC || base64.RawURLEncoding.EncodeToString(plain) != cursor { // one spelling each
		return "", errCursor
	}
	last = string(plain[cursorMAC:])
	if !hmac.Equal(plain[:cursorMAC], s.cursorMAC(list, c, last)) {
		return "", errCursor
	}
	return last, nil
}

// cut gives the page of a whole list, in order of IDs, that begins behind a
// cursor.
func cut[T any](s *Server, list string, c caller, all []T, id func(T) string, after string, limit int) (page[T], error) {
	last, err := s.openCursor(list, c, after)
	if err != nil {
		return page[T]{}, err
	}
	if last != "" {
		from, _ := slices.BinarySearchFunc(all, last+"\x00", func(t T, key string) int { return cmp.Compare(id(t), key) })
		all = all[from:]
	}
	p := page[T]{Items: append([]T{}, all[:min(limit, len(all))]...)}
	if len(all) > limit {
		p.Next = s.sealCursor(list, c, id(all[limit-1]))
	}
	return p, nil
}
