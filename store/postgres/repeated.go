package postgres

import "time"

// repeatEvery is how often the log says what goes on being so.
const repeatEvery = time.Minute

// repeated is something that the log has to say whenever it is so, and would say
// with every try. Its zero value has said nothing yet.
type repeated struct {
	said  time.Time
	times int // since then
}

// again reports whether to say now that it is so once more, and how many times it
// was since that was said last. The first is said at once.
func (r *repeated) again(now time.Time) (times int, say bool) {
	r.times++
	if since := now.Sub(r.said); since >= 0 && since < repeatEvery && !r.said.IsZero() {
		return 0, false
	}
	times, r.times, r.said = r.times, 0, now
	return times, true
}
