package attempt

import (
	"cmp"
	"slices"
)

// A Record is one attempt as it is kept: whose it is, and what was seen of it, in
// order of time.
type Record struct {
	ID string // "" is not kept yet
	Keys
	Seen []Observation
}

// MaxSeen bounds the observations of an attempt: of more, those in the middle go.
const MaxSeen = 48

// Of is a record of one observation. One that has nothing but an address says so from
// then on, whatever it is joined to.
func Of(o Observation) Record {
	keys := o.Keys
	o.Keys = Keys{}
	r := Record{Keys: keys, Seen: []Observation{o}}
	if o.What == "" && !o.byAddress() && r.nameless() && r.Address != "" {
		r.Seen[0].What = Unnamed
	}
	return r
}

// Began and Last are the times of the first and the last observation, Unix
// milliseconds; 0 without any.
func (r Record) Began() int64 {
	if len(r.Seen) == 0 {
		return 0
	}
	return r.Seen[0].At
}

// Last is the time of the last observation.
func (r Record) Last() int64 {
	if len(r.Seen) == 0 {
		return 0
	}
	return r.Seen[len(r.Seen)-1].At
}

// Reached is the farthest step that was seen; 0 is none.
func (r Record) Reached() (s Step) {
	for _, o := range r.Seen {
		s = max(s, o.Step)
	}
	return s
}

// Merge puts two records of one attempt together, whatever the order in which they
// came: b's keys where it has some, but a's client, for another one may have sent its
// code. It holds no more than MaxSeen observations.
func Merge(a, b Record) Record {
	m := Record{ID: cmp.Or(a.ID, b.ID), Keys: Keys{
		Client: cmp.Or(a.Client, b.Client), Name: cmp.Or(a.Name, b.Name), Host: cmp.Or(a.Host, b.Host),
		Approval: cmp.Or(b.Approval, a.Approval), Walk: cmp.Or(b.Walk, a.Walk), Person: cmp.Or(b.Person, a.Person),
		Organization: cmp.Or(b.Organization, a.Organization), Address: cmp.Or(b.Address, a.Address),
	}}
	m.Seen = slices.Concat(a.Seen, b.Seen)
	slices.SortStableFunc(m.Seen, func(x, y Observation) int { return cmp.Compare(x.At, y.At) })
	m.Seen = bounded(collapsed(m.Seen))
	return m
}

// collapsed counts what was seen several times in a row, by the last of them.
func collapsed(all []Observation) []Observation {
	var out []Observation
	for _, o := range all {
		if n := len(out); n > 0 && out[n-1].same(o) {
			o.Again = min(o.Again+out[n-1].Again+1, maxAgain)
			out[n-1] = o
			continue
		}
		out = append(out, o)
	}
	return out
}

const maxAgain = 1_000_000

// bounded leaves the first of each step, and of the others the last ones, where they were.
func bounded(all []Observation) []Observation {
	over := len(all) - MaxSeen
	var first [Steps + 1]bool
	out := all[:0]
	for _, o := range all {
		if !first[o.Step] {
			first[o.Step] = true
		} else if over > 0 {
			over--
			continue
		}
		out = append(out, o)
	}
	return out
}

// Mark is how a step of a timeline stands.
type Mark string

const (
	MarkDone   Mark = "done"
	MarkFailed Mark = "failed"
	MarkOpen   Mark = "open"        // the person is asked
	MarkUnseen Mark = "unseen"      // the client is beyond, and it was not seen
	MarkNot    Mark = "not_reached" // not reached
)

var markWords = map[Mark]string{
	MarkDone: "Done", MarkFailed: "Failed", MarkOpen: "Waiting for the person", MarkUnseen: "Not seen", MarkNot: "Not reached",
}

// Words says it to people.
func (m Mark) Words() string { return markWords[m] }

// A Stage is one step of a timeline.
type Stage struct {
	Step Step
	Mark Mark
	Seen []Observation
}

// A Timeline is a record, read.
type Timeline struct {
	Stages  [Steps]Stage
	Reached Step
	Stopped Step // where it failed or was left; 0 where it worked
	Outlook
	ByAddress bool // some of it was joined by the address alone
}

// Outlook is what has become of an attempt, and what will if nothing more is seen
// of it by a time.
type Outlook struct {
	Result Result
	Reason Reason // "" where it worked, or may still go on
	Due    int64  // Unix milliseconds from when on Later and Why hold; 0 is never
	Later  Result
	Why    Reason
}

// At is the outlook at a time, Unix milliseconds.
func (o Outlook) At(now int64) (Result, Reason) {
	if o.Due > 0 && now >= o.Due {
		return o.Later, o.Why
	}
	return o.Result, o.Reason
}

// Read folds the observations of an attempt.
func Read(r Record) Timeline {
	t := Timeline{Reached: r.Reached()}
	for i := range t.Stages {
		t.Stages[i].Step = Step(i + 1)
	}
	for _, o := range r.Seen {
		if o.Step >= 1 && o.Step <= Steps {
			s := &t.Stages[o.Step-1]
			s.Seen = append(s.Seen, o)
		}
	}
	for i := range t.Stages {
		t.Stages[i].Mark = t.mark(t.Stages[i])
	}
	t.ByAddress = len(r.Seen) > 1 && slices.ContainsFunc(r.Seen, Observation.byAddress)
	t.Outlook, t.Stopped = outlook(r)
	t.markStopped()
	return t
}

// ReadAt is Read as it stands at a time, Unix milliseconds: nothing of it is due.
func ReadAt(r Record, now int64) Timeline {
	t := Read(r)
	t.Result, t.Reason = t.At(now)
	t.Due, t.Later, t.Why = 0, "", ""
	t.markStopped()
	return t
}

func (t *Timeline) markStopped() {
	if t.Result == Broken || t.Result == LeftOff {
		t.Stages[t.Stopped-1].Mark = MarkFailed
	}
}

func (t *Timeline) mark(s Stage) Mark {
	switch n := len(s.Seen); {
	case n == 0 && s.Step < t.Reached:
		return MarkUnseen
	case n == 0:
		return MarkNot
	case s.Seen[n-1].Outcome == Failed && !slices.ContainsFunc(s.Seen, func(o Observation) bool { return o.Outcome == Done }):
		return MarkFailed
	case s.Seen[n-1].Outcome == Waiting && s.Step == t.Reached:
		return MarkOpen
	}
	return MarkDone
}

// outlook finds why an attempt came no farther, and at which step.
func outlook(r Record) (Outlook, Step) {
	if len(r.Seen) == 0 { // nothing that this release can read
		return Outlook{Result: Open}, 0
	}
	for i := len(r.Seen) - 1; i >= 0; i-- {
		o := r.Seen[i]
		if o.Outcome != Failed || mended(o, r.Seen, i) || o.Reason == ApprovalEnded && slices.ContainsFunc(r.Seen[:i], ends) {
			continue
		}
		c := CauseOf(o.Reason)
		if c.Wait == 0 {
			return Outlook{Result: c.Result, Reason: o.Reason}, o.Step
		}
		return Outlook{Result: Open, Due: o.At + c.Wait.Milliseconds(), Later: c.Result, Why: o.Reason}, o.Step
	}
	if did(r.Seen, FirstCall) || did(r.Seen, Refresh) {
		return Outlook{Result: Worked}, 0
	}
	why, at := standing(r)
	c := CauseOf(why)
	return Outlook{Result: Open, Due: r.Last() + c.Wait.Milliseconds(), Later: c.Result, Why: why}, at
}

// ends reports whether what was seen ends an approval: what fails for that afterwards
// is no reason of its own.
func ends(o Observation) bool {
	return o.Reason == CodeReused || o.Reason == RefreshRace || o.Reason == RefreshReused
}

// mended reports whether a failure was followed by a success at its step or a later
// one. Where the documents were looked for in vain, the client going on in any way
// is enough.
func mended(o Observation, seen []Observation, at int) bool {
	for i, later := range seen {
		switch {
		case i > at && later.Outcome == Done && later.Step >= o.Step:
			return true
		case o.Step <= Metadata && later.Step > Metadata && later.Step < FirstCall:
			return true
		}
	}
	return false
}

// did reports whether a step was done.
func did(seen []Observation, s Step) bool {
	return slices.ContainsFunc(seen, func(o Observation) bool { return o.Step == s && o.Outcome == Done })
}

// standing is the reason of an attempt that nothing was wrong with, and that went no
// farther.
func standing(r Record) (Reason, Step) {
	switch at := r.Reached(); at {
	case Challenge:
		return NotFollowed, at
	case Metadata:
		return NotRegistered, at
	case Registration:
		return BrowserNotSent, at
	case Authorize, SignIn, Consent:
		return person(r, at)
	case Code:
		return CodeNotExchanged, at
	}
	if calledWithout(r.Seen) {
		return NoAuthorization, FirstCall
	}
	return TokenNeverUsed, FirstCall
}

// person is the reason of an attempt that waits for a person.
func person(r Record, at Step) (Reason, Step) {
	signedIn := at == Consent || did(r.Seen, SignIn)
	var last What // at sign-in
	for _, o := range r.Seen {
		if o.Step == SignIn {
			last = o.What
		}
	}
	switch {
	case slices.ContainsFunc(r.Seen, func(o Observation) bool { return o.Step == Authorize && o.What == PromptNone }):
		return PromptNotPossible, Authorize
	case signedIn:
		return Left, Consent
	case last == SecondFactor:
		return LeftAtSecondFactor, SignIn
	case last == WrongPassword:
		return SignInFailed, SignIn
	}
	return LeftAtSignIn, SignIn
}

// calledWithout reports whether a call without a credential came after the tokens.
func calledWithout(seen []Observation) bool {
	given := slices.IndexFunc(seen, func(o Observation) bool { return o.Step == Token && o.Outcome == Done })
	return given >= 0 && slices.ContainsFunc(seen[given:], func(o Observation) bool { return o.Step == Challenge })
}
