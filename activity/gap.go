package activity

import "cmp"

// Why says why records may be missing.
type Why string

const (
	Stopped Why = "stopped"  // a server ended without a word
	Full    Why = "full"     // more came at once than could be kept waiting
	Off     Why = "off"      // the configuration said to keep none
	SetBack Why = "set_back" // the database was restored
	Before  Why = "before"   // nothing was recorded yet
)

// A Gap is a time, both ends included, from which records may be missing, whosever they are.
type Gap struct {
	ID       string
	From, To int64 // Unix seconds; To 0 is that it goes on
	Why      Why
}

// A Session is one node that records, for as long as it does. What was answered before
// Written is durable.
type Session struct {
	ID      string
	Opened  int64 // Unix seconds, as all times here
	Written int64
	Seen    int64 // by the clock of the database, when the row was written last
}

// Ended gives the gap that a session leaves which did not close: the node ended after it
// was seen last, and before it was found out.
func (s Session) Ended(found int64) Gap {
	return Gap{ID: s.ID, From: min(s.Written, found), To: found, Why: Stopped}
}

// Touches reports whether a gap concerns an approval that lives from one time to another,
// 0 where it has not ended.
func (g Gap) Touches(created, ended int64) bool {
	return (g.To == 0 || created <= g.To) && (ended == 0 || ended >= g.From)
}

// Within gives the part of a gap that lies in the life of an approval.
func (g Gap) Within(created, ended int64) Gap {
	g.From = max(g.From, created)
	switch {
	case ended > 0 && g.To == 0:
		g.To = ended
	case ended > 0:
		g.To = min(g.To, ended)
	}
	return g
}

// Under gives a time before which all that was answered is durable when everything is
// written that was queued until now: calls under way since a time, 0 for none, may have
// done something that nobody has queued.
func Under(now, since int64) int64 {
	if since > 0 {
		return min(now, since)
	}
	return now
}

// Compare orders gaps, the latest first.
func (g Gap) Compare(h Gap) int { return cmp.Or(cmp.Compare(h.From, g.From), cmp.Compare(h.ID, g.ID)) }
