package attempt

import (
	"slices"
	"time"
)

// Within is how long after the last observation another one is joined by its address,
// or by its client alone.
const Within = 10 * time.Minute

// Join gives the record among those that are kept that a new one belongs to, by its
// place; -1 is none. What names one walk, or one approval, joins at any time;
// otherwise it is within ten minutes, and only where one alone can be meant:
// machines that serve many people share their addresses.
func Join(r Record, kept []Record) int {
	if r.Approval != "" {
		if i := newest(kept, func(k Record) bool { return k.Approval == r.Approval }); i >= 0 {
			return i
		}
	}
	near := func(k Record) bool { return k.Client == r.Client && apart(r, k) <= Within.Milliseconds() }
	at := r.Reached()
	switch {
	case r.Approval != "" || r.Walk != "":
		if i := newest(kept, func(k Record) bool { return r.Walk != "" && k.Walk == r.Walk && k.Client == r.Client }); i >= 0 {
			return i
		}
		// the walk of a client that registered for it
		return alone(kept, func(k Record) bool { return r.Client != "" && k.Client == r.Client && k.unwalked(Registration) })
	case r.Client == "":
		return joinNameless(r, kept)
	case at <= Registration:
		if i := newest(kept, near); i >= 0 {
			return i
		}
		return joinRegistration(r, kept)
	case at < Code:
		return alone(kept, func(k Record) bool { return near(k) && k.unwalked(Authorize) })
	}
	return alone(kept, func(k Record) bool { return near(k) && k.awaits(at) })
}

// joinNameless is Join of what names no client: the one attempt that waits for such a
// step may be meant, and else what nobody is blamed for.
func joinNameless(r Record, kept []Record) int {
	at := r.Reached()
	stranger := func(k Record) bool {
		return r.Address == k.Address && apart(r, k) <= Within.Milliseconds() && k.nameless() && k.only(at)
	}
	switch {
	case r.Address == "": // a browser's: the host that it names
		return newest(kept, func(k Record) bool { return stranger(k) && r.Host == k.Host })
	case at == Registration:
		return joinRegistration(r, kept)
	}
	waiting := func() int {
		return alone(kept, func(k Record) bool { return k.Client != "" && r.near(k) && k.lacks(at) })
	}
	if at <= Metadata {
		if i := newest(kept, func(k Record) bool { return r.near(k) && k.opening() }); i >= 0 {
			return i
		}
		// it came first, and is told last
		if i := alone(kept, func(k Record) bool { return r.near(k) && k.refused() && r.Last() <= k.Began() }); i >= 0 {
			return i
		}
		return waiting()
	}
	if i := waiting(); i >= 0 {
		return i
	}
	return newest(kept, stranger)
}

// joinRegistration is Join of a registration by its address. What was refused before
// may be the same client's, unless one of them says that it is another's; else it is
// the client that has read the documents.
func joinRegistration(r Record, kept []Record) int {
	before := func(k Record) bool {
		return r.near(k) && k.refused() && !r.otherApp(k) && (r.Client == "" || k.Last() <= r.Last())
	}
	if i := newest(kept, func(k Record) bool { return before(k) && r.sameApp(k) }); i >= 0 {
		return i
	}
	if i := alone(kept, before); i >= 0 {
		return i
	}
	return alone(kept, func(k Record) bool { return r.near(k) && k.opening() })
}

// near reports whether a record may be joined by the address.
func (r Record) near(k Record) bool {
	return r.Address != "" && r.Address == k.Address && apart(r, k) <= Within.Milliseconds()
}

// nameless reports whether nothing says whose it is but an address.
func (r Record) nameless() bool { return r.Client == "" && r.Walk == "" && r.Approval == "" }

// only reports whether it has observations of one step alone.
func (r Record) only(s Step) bool {
	return !slices.ContainsFunc(r.Seen, func(o Observation) bool { return o.Step != s })
}

// opening reports whether it is what a machine does before it has a client, and
// refused whether it then tried to register one in vain.
func (r Record) opening() bool {
	return r.nameless() && r.Reached() >= Challenge && r.Reached() <= Metadata
}
func (r Record) refused() bool { return r.nameless() && r.Reached() == Registration }

// sameApp reports whether two call themselves the same by name or host, or both
// nothing, and otherApp whether they have nothing in common, or something apart.
func (r Record) sameApp(k Record) bool {
	return r.Name == k.Name && (r.Name != "" || r.Host == k.Host) || r.Host == k.Host && r.Host != ""
}
func (r Record) otherApp(k Record) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	silent := func(r Record) bool { return r.Name == "" && r.Host == "" }
	return differ(r.Name, k.Name) || differ(r.Host, k.Host) || !r.sameApp(k) && !silent(r) && !silent(k)
}

// unwalked reports whether no person has begun to walk, and it is not beyond a step.
func (r Record) unwalked(most Step) bool {
	return r.Walk == "" && r.Approval == "" && r.Person == "" && r.Reached() <= most
}

// awaits reports whether an attempt of the very client is where the client has to go
// on by itself, with a step: it has a code, or tokens and no call.
func (r Record) awaits(s Step) bool {
	switch {
	case did(r.Seen, FirstCall), did(r.Seen, Refresh):
		return false
	case s == Token:
		return r.Reached() >= Code
	}
	return r.Reached() >= Token
}

// lacks reports whether a step is the very next that an attempt waits for: it has a
// code and no tokens, or tokens and no call.
func (r Record) lacks(s Step) bool {
	given := did(r.Seen, Token) || did(r.Seen, FirstCall) || did(r.Seen, Refresh)
	if s == Token {
		return r.Reached() >= Code && !given
	}
	return given && !did(r.Seen, FirstCall) && !did(r.Seen, Refresh)
}

// Prelude gives the record of what a client's machine did before the client had a
// name, within ten minutes of the attempt's beginning, or before it registered anew
// after a refusal; -1 is none, or that nothing is missing.
func Prelude(r Record, kept []Record) int {
	if r.Address == "" || len(r.Seen) == 0 {
		return -1
	}
	before := func(at int64) int {
		return alone(kept, func(k Record) bool {
			return r.Address == k.Address && k.opening() && k.Began() <= at && at-k.Last() <= Within.Milliseconds()
		})
	}
	switch {
	case r.Reached() == Registration && slices.ContainsFunc(r.Seen, Observation.refusedRegistration):
		return before(r.Last())
	case r.Client == "" || slices.ContainsFunc(r.Seen, func(o Observation) bool { return o.Step <= Metadata }):
		return -1
	}
	return before(r.Began())
}

// apart is the time between two records, in milliseconds, 0 where they overlap.
func apart(a, b Record) int64 {
	return max(a.Began()-b.Last(), b.Began()-a.Last(), 0)
}

// newest is the last kept one that matches.
func newest(kept []Record, is func(Record) bool) int {
	at := -1
	for i, k := range kept {
		if is(k) && (at < 0 || k.Last() >= kept[at].Last()) {
			at = i
		}
	}
	return at
}

// alone is the one that matches, if it is one alone.
func alone(kept []Record, is func(Record) bool) int {
	at := -1
	for i, k := range kept {
		switch {
		case !is(k):
		case at >= 0:
			return -1
		default:
			at = i
		}
	}
	return at
}
