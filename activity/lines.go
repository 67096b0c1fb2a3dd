package activity

// A RecordLine is one call of a client, as it is written for programs. What is not told is
// left out.
type RecordLine struct {
	ID       string `json:"id"`
	At       int64  `json:"at"`      // Unix seconds
	Way      string `json:"way"`     // api, mcp or gateway
	Outcome  string `json:"outcome"` // done, failed, refused, unanswered or allowed
	Status   int    `json:"status"`  // of the service's answer; 0 is none
	Method   string `json:"method"`
	Path     string `json:"path"` // without the query; … where it may name what is not told
	Tool     string `json:"tool"`
	Reason   string `json:"reason"`
	Kind     string `json:"kind"` // of the item, as the service says
	Did      string `json:"did"`
	Role     string `json:"role"` // ID
	Private  bool   `json:"private"`
	Personal bool   `json:"personal"`
	Title    string `json:"title,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// Line gives a record as a viewer is told it.
func (v Viewer) Line(r Record) RecordLine {
	r, _ = v.Tell(r)
	i := r.Item
	return RecordLine{r.ID, r.At, string(r.Way), string(r.Outcome), r.Status, r.Method, r.Path, r.Tool, r.Reason, i.Kind, string(i.Did), i.Role,
		i.Private, i.Personal, i.Title, i.Detail}
}

// A TallyLine is what was counted in one hour.
type TallyLine struct {
	Hour     int64  `json:"hour"` // Unix seconds at which it begins
	What     string `json:"what"` // reads, changes, refused or unseen
	Kind     string `json:"kind"`
	Calls    int64  `json:"calls"`
	Items    int64  `json:"items"`
	Private  int64  `json:"private"`
	Personal int64  `json:"personal"`
}

// Line gives it.
func (t Tally) Line() TallyLine {
	return TallyLine{t.Hour, string(t.What), t.Kind, t.Calls, t.Items, t.Private, t.Personal}
}

// A GapLine is a time from which records may be missing.
type GapLine struct {
	From int64  `json:"from"` // Unix seconds
	To   int64  `json:"to"`   // Unix seconds; 0: it goes on
	Why  string `json:"why"`  // stopped, full, off, set_back or before
}

// Line gives it.
func (g Gap) Line() GapLine { return GapLine{g.From, g.To, string(g.Why)} }
