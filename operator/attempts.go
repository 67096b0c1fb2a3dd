package operator

import (
	"errors"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store"
)

// attemptResults are what the list can be asked for.
var attemptResults = []string{string(attempt.Open), string(attempt.Worked), string(attempt.Broken), string(attempt.LeftOff)}

// An attemptObject is one attempt to connect in a list. Times are Unix seconds.
type attemptObject struct {
	ID           string `json:"id"`
	Began        int64  `json:"began"`
	Last         int64  `json:"last"` // observation
	Client       string `json:"client"`
	Name         string `json:"name"` // the client's, as it came
	Host         string `json:"host"`
	Person       string `json:"person"`
	Organization string `json:"organization"`
	Approval     string `json:"approval"`
	Address      string `json:"address"` // of the client's machine
	Step         int    `json:"step"`    // reached, 1 to 10
	Reached      string `json:"reached"` // its name
	Result       string `json:"result"`
	Reason       string `json:"reason"`
}

func newAttempt(r attempt.Record, now time.Time) attemptObject {
	t := attempt.Read(r)
	result, reason := t.At(now.UnixMilli())
	return attemptObject{
		ID: r.ID, Began: r.Began() / 1000, Last: r.Last() / 1000, Client: r.Client, Name: r.Name, Host: r.Host,
		Person: r.Person, Organization: r.Organization, Approval: r.Approval, Address: r.Address,
		Step: int(t.Reached), Reached: t.Reached.String(), Result: string(result), Reason: string(reason),
	}
}

// A readAttempt is one attempt with its steps.
type readAttempt struct {
	attemptObject
	Says      string       `json:"says"` // what has happened; "" where nothing is wrong
	Do        string       `json:"do"`   // about it
	Who       string       `json:"who"`  // can do it
	ByAddress bool         `json:"joined_by_address"`
	Steps     []stepObject `json:"steps"`
	Others    []seenBefore `json:"seen_before"`
}

type stepObject struct {
	Step int           `json:"step"`
	Name string        `json:"name"`
	Mark string        `json:"mark"`
	Seen []observation `json:"seen"`
}

type observation struct {
	At     int64  `json:"at"` // Unix milliseconds
	Status int    `json:"status"`
	Reason string `json:"reason"`
	Says   string `json:"says"`
	Agent  string `json:"agent"`
	Times  int    `json:"times"`
}

type seenBefore struct {
	Pattern string `json:"pattern"`
	Others  int    `json:"others"`
	Says    string `json:"says"`
	Do      string `json:"do"`
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
	return newListPage(rows, next, func(r attempt.Record) attemptObject { return newAttempt(r, now) }), f.CursorError(err)
}

func (s *Server) attempt(c Call) (any, error) {
	r, err := s.Store.Attempt(c.Context(), c.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, NotFound("attempt")
	} else if err != nil {
		return nil, err
	}
	found, err := s.SeenBefore(c, r)
	if err != nil {
		return nil, err
	}
	now, t := s.Store.Now(), attempt.Read(r)
	o := readAttempt{attemptObject: newAttempt(r, now), ByAddress: t.ByAddress, Steps: []stepObject{}, Others: []seenBefore{}}
	if o.Reason != "" {
		why := attempt.CauseOf(attempt.Reason(o.Reason))
		o.Says, o.Do, o.Who = why.Says, why.Do, string(why.Who)
	}
	for _, stage := range t.Stages {
		step := stepObject{Step: int(stage.Step), Name: stage.Step.String(), Mark: string(stage.Mark), Seen: []observation{}}
		for _, one := range stage.Seen {
			step.Seen = append(step.Seen, observation{one.At, one.Status, string(one.Reason), one.Says(), string(one.Agent), 1 + one.Again})
		}
		o.Steps = append(o.Steps, step)
	}
	for _, one := range found {
		words := attempt.PatternWords[one.Pattern]
		o.Others = append(o.Others, seenBefore{string(one.Pattern), one.Others, words.Says, words.Do})
	}
	return o, nil
}

// SeenBefore finds what an attempt has in common with others of the same app.
func (s *Server) SeenBefore(c Call, r attempt.Record) ([]attempt.Sighting, error) {
	others, err := s.Store.AttemptsLike(c.Context(), r)
	if err != nil {
		return nil, err
	}
	var all []attempt.Summary
	for _, o := range others {
		all = append(all, attempt.Summed(o))
	}
	return attempt.Recognise(attempt.Summed(r), slices.Clip(all), s.Store.Now().UnixMilli()), nil
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
