package operator

import (
	"context"
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store"
)

// attemptResults are what the list can be asked for.
var attemptResults = []string{string(attempt.Open), string(attempt.Worked), string(attempt.Broken), string(attempt.LeftOff)}

// An Attempt is one attempt to connect in a list. Times are Unix seconds; others wrote
// the names.
type Attempt struct {
	ID           string         `json:"id"`
	Began        int64          `json:"began"`
	Last         int64          `json:"last"` // observation
	Client       string         `json:"client"`
	Name         string         `json:"name"` // the client's, as it came
	Host         string         `json:"host"`
	Person       string         `json:"person"`
	Organization string         `json:"organization"`
	Approval     string         `json:"approval"`
	Address      string         `json:"address"` // of the client's machine
	Step         int            `json:"step"`    // reached, 1 to 10
	Reached      string         `json:"reached"` // its name
	Result       attempt.Result `json:"result"`
	Reason       attempt.Reason `json:"reason"`

	Marks []attempt.Mark `json:"-"` // of all steps
}

// NewAttempt reads what is kept of one, as it stands now.
func NewAttempt(r attempt.Record, now time.Time) Attempt {
	return newAttempt(r, attempt.ReadAt(r, now.UnixMilli()))
}

func newAttempt(r attempt.Record, t attempt.Timeline) Attempt {
	a := Attempt{
		ID: r.ID, Began: r.Began() / 1000, Last: r.Last() / 1000, Client: r.Client, Name: r.Name, Host: r.Host,
		Person: r.Person, Organization: r.Organization, Approval: r.Approval, Address: r.Address,
		Step: int(t.Reached), Reached: t.Reached.String(), Result: t.Result, Reason: t.Reason,
	}
	for _, stage := range t.Stages {
		a.Marks = append(a.Marks, stage.Mark)
	}
	return a
}

// A WholeAttempt is one attempt with its steps.
type WholeAttempt struct {
	Attempt
	Says      string        `json:"says"` // what has happened; "" where nothing is wrong
	Do        string        `json:"do"`   // about it
	Who       attempt.Who   `json:"who"`  // can do it
	ByAddress bool          `json:"joined_by_address"`
	Steps     []AttemptStep `json:"steps"`
	Others    []SeenBefore  `json:"seen_before"`

	Stopped int `json:"-"` // step at which it stopped; 0 where it did not
}

// Joined says that some of it was joined by the address alone; "" where none was.
func (w WholeAttempt) Joined() string {
	if !w.ByAddress {
		return ""
	}
	return attempt.ByAddressSays
}

// An AttemptStep is one of the ten.
type AttemptStep struct {
	Step int           `json:"step"`
	Name string        `json:"name"`
	Mark attempt.Mark  `json:"mark"`
	Seen []Observation `json:"seen"`
}

// An Observation is what a door has seen.
type Observation struct {
	At     int64          `json:"at"` // Unix milliseconds
	Status int            `json:"status"`
	Reason attempt.Reason `json:"reason"`
	Says   string         `json:"says"`
	Agent  attempt.Agent  `json:"agent"`
	Times  int            `json:"times"`

	after int64 // the first one of the attempt, milliseconds
}

// After says how long after the first observation it was made; "" at once.
func (o Observation) After() string {
	switch ms := o.after; {
	case ms <= 0:
		return ""
	case ms < 1000:
		return "+" + Number(ms) + " ms"
	case ms < 120_000:
		return "+" + Number(ms/1000) + " s"
	default:
		return "+" + Number(ms/60_000) + " min"
	}
}

// SeenBefore is what an attempt has in common with others of the same app.
type SeenBefore struct {
	Pattern attempt.Pattern `json:"pattern"`
	Others  int             `json:"others"`
	Says    string          `json:"says"`
	Do      string          `json:"do"`
}

// AttemptFilter reads the parameters by which both the API and the console filter
// attempts. The error is store.ErrNotFound where they name a person who does not exist.
func (s *Server) AttemptFilter(c Call, f Filter) (of store.AttemptFilter, err error) {
	of = store.AttemptFilter{Find: f.Get("query"), Client: f.Get("client"), Approval: f.Get("approval"), After: f.After, Limit: f.Limit}
	if err := checkText("query", of.Find, store.MaxFoundLen); err != nil {
		return of, err
	}
	result, err := f.OneOf("result", attemptResults...)
	if err != nil {
		return of, err
	}
	of.Result, of.Reason = attempt.Result(result), attempt.Reason(f.Get("reason"))
	if of.Reason != "" && !attempt.Known(of.Reason) {
		return of, BadRequest("reason: there is none such; docs/attempts.md lists them")
	}
	of.Person, err = s.knownPerson(c, f.Get("person"))
	return of, err
}

func (s *Server) attempts(c Call) (any, error) {
	f, err := c.Filter("query", "client", "person", "approval", "result", "reason", "since")
	if err != nil {
		return nil, err
	}
	of, err := s.AttemptFilter(c, f)
	if err != nil {
		return nil, err
	}
	now := s.Store.Now()
	if of.Since, err = f.time("since", now); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Attempts(c.Context(), of)
	return newListPage(rows, next, func(r attempt.Record) Attempt { return NewAttempt(r, now) }), f.CursorError(err)
}

func (s *Server) attempt(c Call) (any, error) {
	r, err := s.Store.Attempt(c.Context(), c.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, NotFound("attempt")
	} else if err != nil {
		return nil, err
	}
	return ReadAttempt(c.Context(), s.Store, r)
}

// ReadAttempt reads an attempt as it stands now, and what it has in common with others.
func ReadAttempt(ctx context.Context, s *store.Store, r attempt.Record) (WholeAttempt, error) {
	others, err := s.AttemptsLike(ctx, r)
	if err != nil {
		return WholeAttempt{}, err
	}
	var like []attempt.Summary
	for _, o := range others {
		like = append(like, attempt.Summed(o))
	}
	now := s.Now().UnixMilli()
	t := attempt.ReadAt(r, now)
	w := WholeAttempt{Attempt: newAttempt(r, t), ByAddress: t.ByAddress, Steps: []AttemptStep{}, Others: []SeenBefore{}}
	if w.Reason != "" {
		why := attempt.CauseOf(w.Reason)
		w.Says, w.Do, w.Who, w.Stopped = why.Says, why.Do, why.Who, int(t.Stopped)
	}
	for _, stage := range t.Stages {
		step := AttemptStep{Step: int(stage.Step), Name: stage.Step.String(), Mark: stage.Mark, Seen: []Observation{}}
		for _, o := range stage.Seen {
			step.Seen = append(step.Seen, Observation{o.At, o.Status, o.Reason, o.Says(), o.Agent, 1 + o.Again, o.At - r.Began()})
		}
		w.Steps = append(w.Steps, step)
	}
	for _, one := range attempt.Recognise(attempt.Summed(r), like, now) {
		words := attempt.PatternWords[one.Pattern]
		w.Others = append(w.Others, SeenBefore{one.Pattern, one.Others, words.Says, words.Do})
	}
	return w, nil
}

// A reasonObject is how many attempts have a reason.
type reasonObject struct {
	Reason   string `json:"reason"`
	Result   string `json:"result"`
	Attempts int    `json:"attempts"`
	Counted  int    `json:"counted"` // observations of strangers, beside them, that there was no room for
	Says     string `json:"says"`
	Do       string `json:"do"`
	Who      string `json:"who"`
}

func (s *Server) attemptReasons(c Call) (any, error) {
	f, err := c.Filter("since")
	if err != nil {
		return nil, err
	}
	now := s.Store.Now()
	since, err := f.time("since", now)
	if err != nil {
		return nil, err
	}
	if since == 0 {
		since = now.Add(-24 * time.Hour).Unix()
	}
	rows, err := s.Store.AttemptReasons(c.Context(), since)
	return newListPage(rows, "", func(r store.ReasonCount) reasonObject {
		o := reasonObject{Reason: string(r.Reason), Result: string(r.Result), Attempts: r.Kept, Counted: r.Counted}
		if r.Reason != "" {
			why := attempt.CauseOf(r.Reason)
			o.Says, o.Do, o.Who = why.Says, why.Do, string(why.Who)
		}
		return o
	}), err
}
