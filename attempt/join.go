package attempt

import "time"

// Within is how long after the last observation another one is joined by its address,
// or by its client alone.
const Within = 10 * time.Minute

// Join gives the record among those that are kept that a new one belongs to, by its
// place; -1 is none. What names one walk, or one approval, joins at any time;
// otherwise it is within ten minutes, and only where one alone can be meant:
// machines that serve many people share their addresses.
func Join(r Record, kept []Record) int {
	near := func(k Record) bool { return apart(r, k) <= Within.Milliseconds() }
	if r.Approval != "" {
		if i := newest(kept, func(k Record) bool { return k.Approval == r.Approval }); i >= 0 {
			return i
		}
	}
	at := r.Reached()
	switch {
	case r.Approval != "" || r.Walk != "":
		if i := newest(kept, func(k Record) bool { return r.Walk != "" && k.Walk == r.Walk && k.Client == r.Client }); i >= 0 {
			return i
		}
		// the walk of a client that registered for it
		return alone(kept, func(k Record) bool { return r.Client != "" && k.Client == r.Client && k.unwalked(Registration) })
	case r.Client == "":
		if i := newest(kept, func(k Record) bool { return k.Client == "" && near(k) && r.sameMachine(k) }); i >= 0 {
			return i
		}
		return alone(kept, func(k Record) bool { return k.Client != "" && near(k) && sameAddress(r, k) && k.awaits(at) })
	case at <= Registration:
		if i := newest(kept, func(k Record) bool { return k.Client == r.Client && near(k) }); i >= 0 {
			return i
		}
		return newest(kept, func(k Record) bool { return k.Client == "" && near(k) && sameAddress(r, k) })
	case at < Code:
		return alone(kept, func(k Record) bool { return k.Client == r.Client && near(k) && k.unwalked(Authorize) })
	}
	return alone(kept, func(k Record) bool { return k.Client == r.Client && near(k) && k.awaits(at) })
}

// unwalked reports whether no person has begun to walk, and it is not beyond a step.
func (r Record) unwalked(most Step) bool {
	return r.Walk == "" && r.Approval == "" && r.Person == "" && r.Reached() <= most
}

// awaits reports whether an attempt is where the client has to go on by itself, with
// a step: it has a code and no tokens, or tokens and no call.
func (r Record) awaits(s Step) bool {
	switch {
	case has(r.Seen, FirstCall, Done), has(r.Seen, Refresh, Done):
		return false
	case s == Token:
		return r.Reached() >= Code
	}
	return r.Reached() >= Token
}

// Prelude gives the record of what a client's machine did before the client had a
// name, within ten minutes of the attempt's beginning; -1 is none, or that nothing is
// missing.
func Prelude(r Record, kept []Record) int {
	if r.Address == "" || r.Client == "" || len(r.Seen) == 0 {
		return -1
	}
	for _, o := range r.Seen {
		if o.Step <= Metadata {
			return -1
		}
	}
	return newest(kept, func(k Record) bool {
		return k.Client == "" && sameAddress(r, k) && k.Reached() <= Metadata && len(k.Seen) > 0 &&
			k.Began() <= r.Began() && r.Began()-k.Last() <= Within.Milliseconds()
	})
}

func sameAddress(a, b Record) bool { return a.Address != "" && a.Address == b.Address }

// sameMachine is of two that no client is known of: the address, or where none is
// known either, the host that they name.
func (r Record) sameMachine(k Record) bool {
	if r.Address == "" && k.Address == "" {
		return r.Host == k.Host
	}
	return sameAddress(r, k)
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
