package console

import (
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
	ID, Path     string
	Name, Host   string // of the client; Host is the address of its machine before it has one
	Began        moment
	Person       string
	PersonPath   string
	Organization string
	Reached      string
	Step         int
	Marks        []attempt.Mark // of all steps
	Result       attempt.Result
	Word, Tone   string // of the result
	Reason       attempt.Reason
}

// attemptWords are what has become of an attempt, in words and with their tone.
var attemptWords = map[attempt.Result][2]string{
	attempt.Worked: {"Worked", "ok"}, attempt.Broken: {"Failed", "bad"}, attempt.LeftOff: {"Left", "care"}, attempt.Open: {"Going on", ""},
}

func attemptPath(id string) string { return "/attempts/" + url.PathEscape(id) }

func (n *nameCache) attempt(r attempt.Record) attemptRow {
	t := attempt.Read(r)
	row := attemptRow{
		ID: r.ID, Path: attemptPath(r.ID), Name: r.Name, Host: r.Host, Began: atSecond(r.Began()/1000, n.v.now),
		Person: n.person(r.Person), Organization: n.organization(r.Organization), Reached: t.Reached.String(), Step: int(t.Reached),
	}
	if row.Host == "" {
		row.Host = r.Address
	}
	if r.Person != "" {
		row.PersonPath = personPath(r.Person)
	}
	for _, stage := range t.Stages {
		row.Marks = append(row.Marks, stage.Mark)
	}
	row.Result, row.Reason = t.At(n.v.now.UnixMilli())
	row.Word, row.Tone = attemptWords[row.Result][0], attemptWords[row.Result][1]
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
		p.Rows = append(p.Rows, names.attempt(r))
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

// A stepView is one of the ten steps.
type stepView struct {
	Number int
	Name   string
	Mark   attempt.Mark
	Word   string // of the mark
	Seen   []seenView
	Why    *attempt.Cause // where the attempt came no farther; nil elsewhere
}

// A seenView is one observation.
type seenView struct {
	After  string // the first of the attempt
	Status int
	Says   string
	Agent  attempt.Agent
	Times  int
}

var markWords = map[attempt.Mark]string{
	attempt.MarkDone: "Done", attempt.MarkFailed: "Failed", attempt.MarkOpen: "Waiting for the person",
	attempt.MarkUnseen: "Not seen", attempt.MarkNot: "Not reached",
}

// An attemptPage shows one attempt.
type attemptPage struct {
	frame
	One        attemptRow
	Client     string // ID
	ClientPath string // "" for one that is gone
	Approval   string
	Address    string
	Done       int
	ByAddress  bool
	Steps      []stepView
	Why        *attempt.Cause // of the whole; nil where nothing is wrong
	Others     []otherView
}

// An otherView is what an attempt has in common with others of the same app.
type otherView struct {
	Says, Do string
	Others   int
}

func (s *Server) attemptPage(v *visit) error {
	r, err := s.API.Store.Attempt(v.Context(), v.PathValue("id"))
	if err != nil {
		return orNotFound(err, "attempt")
	}
	found, err := s.API.SeenBefore(v.Call, r)
	if err != nil {
		return err
	}
	t := attempt.Read(r)
	p := attemptPage{One: s.newNameCache(v).attempt(r), Client: r.Client, Approval: r.Approval, Address: r.Address, ByAddress: t.ByAddress}
	if _, err := s.API.Store.Client(v.Context(), r.Client); err == nil {
		p.ClientPath = "/clients/" + url.PathEscape(r.Client)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if p.One.Reason != "" {
		why := attempt.CauseOf(p.One.Reason)
		p.Why = &why
	}
	for _, stage := range t.Stages {
		step := stepView{Number: int(stage.Step), Name: stage.Step.String(), Mark: stage.Mark, Word: markWords[stage.Mark]}
		for _, o := range stage.Seen {
			step.Seen = append(step.Seen, seenView{sinceFirst(o.At - r.Began()), o.Status, o.Says(), o.Agent, 1 + o.Again})
		}
		if stage.Mark == attempt.MarkDone {
			p.Done++
		}
		if p.Why != nil && stage.Step == t.Stopped {
			step.Why, p.Why = p.Why, nil
		}
		p.Steps = append(p.Steps, step)
	}
	for _, one := range found {
		words := attempt.PatternWords[one.Pattern]
		p.Others = append(p.Others, otherView{words.Says, words.Do, one.Others})
	}
	p.frame = s.frame(v, "attempts", "Attempt")
	return s.render(v.w, 200, attemptTemplate, &p)
}

// sinceFirst says how long after the first observation another was made.
func sinceFirst(ms int64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 1000:
		return "+" + operator.Number(ms) + " ms"
	case ms < 120_000:
		return "+" + operator.Number(ms/1000) + " s"
	}
	return "+" + operator.Number(ms/60_000) + " min"
}
