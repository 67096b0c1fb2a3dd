package limit

import (
	"strconv"
	"time"
)

// RetryAfter is the value of the header Retry-After for a wait that Allow gave:
// whole seconds (RFC 9110 section 10.2.3).
func RetryAfter(wait time.Duration) string {
	return strconv.FormatInt(int64(wait/time.Second), 10)
}

// Policy is the value of the header RateLimit-Policy for a name that has n requests
// (draft-ietf-httpapi-ratelimit-headers-10 section 3), made once for those that have
// the limit's. Nobody may write to it.
func (w *Names) Policy(n int) []string {
	if n == w.c.limit.N {
		return w.policy
	}
	return policy(Limit{n, w.c.limit.Window})
}

func policy(l Limit) []string {
	return []string{`"default";q=` + strconv.Itoa(l.N) + ";w=" + strconv.FormatInt(int64(l.Window/time.Second), 10)}
}

// RateLimit is the value of the header RateLimit for what [Names.Take] gave: how many
// requests are left, and if none, in how many seconds the next one is let through
// (section 4 of that draft). The window slides, so as long as some are left, there is
// no moment at which all of them are back.
func RateLimit(left int, wait time.Duration) string {
	var room [48]byte
	b := strconv.AppendInt(append(room[:0], `"default";r=`...), int64(max(left, 0)), 10)
	if wait > 0 {
		b = strconv.AppendInt(append(b, ";t="...), int64(wait/time.Second), 10)
	}
	return string(b)
}
