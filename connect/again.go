package connect

import "time"

// How often a stream of one call is taken up again, and how often without anything new.
const (
	mostAgain = 600
	mostIdle  = 5
)

// again counts how often a stream was taken up again. A server says how long to wait, and
// by new IDs that it goes on, within bounds.
type again struct{ all, idle int }

// next gives how long to wait before the next try; false where there is none. moved says
// whether the last one brought anything new.
func (a *again) next(moved bool, retry time.Duration) (wait time.Duration, ok bool) {
	if moved {
		a.idle = 0
	}
	a.all, a.idle = a.all+1, a.idle+1
	return min(max(retry, time.Second), time.Minute), a.all <= mostAgain && a.idle <= mostIdle
}
