package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
)

// An attemptRow is an attempt to connect in a list. Others wrote all names.
type attemptRow struct {
	operator.Attempt
	Path         string
	Where        string // host of the client, or the address of its machine before it has one
	Began        moment
	Person       string
	PersonPath   string
	Organization string
	Tone         string // of the result
}

var attemptTones = map[attempt.Result]string{attempt.Worked: "ok", attempt.Broken: "bad", attempt.LeftOff: "care"}

func attemptPath(id string) string { return "/attempts/" + url.PathEscape(id) }

func (n *nameCache) attempt(a operator.Attempt) attemptRow {
	row := attemptRow{
		Attempt: a, Path: attemptPath(a.ID), Where: cmp.Or(a.Host, a.Address), Began: atSecond(a.Began, n.v.now),
		Person: n.person(a.Person), Organization: n.organization(a.Organization), Tone: attemptTones[a.Result],
	}
	if a.Person != "" {
		row.PersonPath = personPath(a.Person)
	}
	return row
}

// A reasonCount is how many attempts came no farther for a reason.
type reasonCount struct {
	Reason attempt.Reason
	Count  int
	Path   string
}

// attemptSpans are what the list may be cut to; the first is what it shows unasked.
var attemptSpans = []struct {
	Name, Words string
	over        time.Duration
}{{"", "Last 24 hours", 24 * time.Hour}, {"hour", "Last hour", time.Hour}, {"week", "Last 7 days", 7 * 24 * time.Hour}}

// An attemptsPage lists attempts to connect (docs/attempts.md).
type attemptsPage struct {
	frame
	Query, Result, Reason, Range string // of the filter, as sent
	Reasons                      []attempt.Reason
	Why                          []reasonCount
	Failed, All                  int // attempts in the range
	Spans                        any
	Rows                         []attemptRow
	Next                         string
	More                         bool
}

// reasonsShown is how many reasons stand above the list.
const reasonsShown = 6

func (s *Server) attemptsPage(v *visit) error {
	f, err := v.Filter("query", "result", "reason", "range", "client", "person", "approval")
	if err != nil {
		return err
	}
	name, err := f.OneOf("range", attemptSpans[1].Name, attemptSpans[2].Name)
	if err != nil {
		return err
	}
	of, err := s.API.AttemptFilter(v.Call, f)
	if err != nil {
		return orNotFound(err, "person")
	}
	for _, span := range attemptSpans {
		if span.Name == name {
			of.Since = v.now.Add(-span.over).Unix()
		}
	}
	rows, next, err := s.API.Store.Attempts(v.Context(), of)
	if err != nil {
		return f.CursorError(err)
	}
	p := attemptsPage{Query: f.Get("query"), Result: f.Get("result"), Reason: f.Get("reason"), Range: name, Spans: attemptSpans, More: f.After != ""}
	if err := s.countReasons(v, of.Since, &p); err != nil {
		return err
	}
	names := s.newNameCache(v)
	for _, r := range rows {
		p.Rows = append(p.Rows, names.attempt(operator.NewAttempt(r, v.now)))
	}
	p.frame, p.Next = s.frame(v, "attempts", "Attempts"), v.link("/attempts", next)
	return s.render(v.w, 200, attemptsTemplate, &p)
}

// countReasons adds the numbers above the list, each with the list of its attempts.
func (s *Server) countReasons(v *visit, since int64, p *attemptsPage) error {
	counts, err := s.API.Store.AttemptReasons(v.Context(), since)
	if err != nil {
		return err
	}
	for _, c := range counts {
		p.All += c.Kept
		if c.Reason == "" {
			continue
		}
		p.Reasons = append(p.Reasons, c.Reason)
		if c.Result == attempt.Broken {
			p.Failed += c.Kept
		}
		if len(p.Why) < reasonsShown && c.Kept > 0 {
			values := url.Values{"reason": {string(c.Reason)}}
			if p.Range != "" {
				values.Set("range", p.Range)
			}
			p.Why = append(p.Why, reasonCount{c.Reason, c.Kept, "/attempts?" + values.Encode()})
		}
	}
	if p.Reason != "" && !slices.Contains(p.Reasons, attempt.Reason(p.Reason)) {
		p.Reasons = append(p.Reasons, attempt.Reason(p.Reason))
	}
	return nil
}

// An attemptPage shows one attempt.
type attemptPage struct {
	frame
	Whole      operator.WholeAttempt
	One        attemptRow
	ClientPath string // "" for one that is gone
	Done       int
}

func (s *Server) attemptPage(v *visit) error {
	r, err := s.API.Store.Attempt(v.Context(), v.PathValue("id"))
	if err != nil {
		return orNotFound(err, "attempt")
	}
	p := attemptPage{}
	if p.Whole, err = operator.ReadAttempt(v.Context(), s.API.Store, r); err != nil {
		return err
	}
	p.One = s.newNameCache(v).attempt(p.Whole.Attempt)
	if _, err := s.API.Store.Client(v.Context(), r.Client); err == nil {
		p.ClientPath = "/clients/" + url.PathEscape(r.Client)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, mark := range p.One.Marks {
		if mark == attempt.MarkDone {
			p.Done++
		}
	}
	p.frame = s.frame(v, "attempts", "Attempt")
	return s.render(v.w, 200, attemptTemplate, &p)
}
