package metrics

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// What the history remembers: minutes of a day, hours of a month. It is lost
// at a restart; Since says how far back it goes.
const (
	minutesKept = 24 * 60
	hoursKept   = 30 * 24
)

// A Series is one line of the history.
type Series int

const (
	Refreshes Series = iota // refresh tokens that were traded for the next
	Refusals                // requests of clients that were refused: token, registration
	Limited                 // requests over a rate limit
	seriesCount
)

type counted [seriesCount]uint64

// slot is what happened in one minute, or hour.
type slot struct {
	at     int64 // Unix time divided by its length
	counts counted
}

// history keeps how the counters grew. It asks them every minute, so it costs
// requests nothing.
type history struct {
	now   func() time.Time
	since time.Time

	mu      sync.Mutex
	last    counted
	minutes [minutesKept]slot
	hours   [hoursKept]slot
	refused []refused // by minute, oldest first
	reasons map[string]uint64
}

// refused is how often requests were refused with an error in one hour.
type refused struct {
	hour   int64
	errors map[string]uint64
}

func (h *history) begin(now func() time.Time) {
	h.now, h.since, h.reasons = now, now(), map[string]uint64{}
}

// Run keeps the history until ctx ends.
func (m *Metrics) Run(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.sample()
		case <-ctx.Done():
			return
		}
	}
}

// sample books what was counted since the last time under the present minute.
func (m *Metrics) sample() {
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now().Unix()
	current := counted{
		Refreshes: m.tokens.of("refresh_token"),
		Refusals:  m.refusals.sum() + m.registrations.of("refused"),
		Limited:   m.limited.sum(),
	}
	reasons := map[string]uint64{"registration": m.registrations.of("refused")}
	m.refusals.each(func(code, _ string, n uint64) { reasons[code] += n })

	for s := range current {
		grown := current[s] - h.last[s]
		h.minutes[(now/60)%minutesKept].add(now/60, s, grown)
		h.hours[(now/3600)%hoursKept].add(now/3600, s, grown)
	}
	h.last = current
	h.addReasons(now/3600, reasons)
}

func (s *slot) add(at int64, series int, n uint64) {
	if s.at != at {
		*s = slot{at: at}
	}
	s.counts[series] += n
}

func (h *history) addReasons(hour int64, reasons map[string]uint64) {
	if len(h.refused) == 0 || h.refused[len(h.refused)-1].hour != hour {
		h.refused = append(h.refused, refused{hour, map[string]uint64{}})
		h.refused = h.refused[max(0, len(h.refused)-hoursKept):]
	}
	of := h.refused[len(h.refused)-1].errors
	for code, n := range reasons {
		if grown := n - h.reasons[code]; grown > 0 {
			of[code] += grown
		}
	}
	h.reasons = reasons
}

// Since is when the history begins.
func (m *Metrics) Since() time.Time { return m.history.since }

// History gives how often something happened in each of n spans of a length up
// to now, oldest first. Spans begin at multiples of their length, the last one
// is under way; a length is whole minutes, above a day's whole hours.
func (m *Metrics) History(s Series, span time.Duration, n int) []uint64 {
	m.sample()
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	length := int64(span / time.Second)
	first := h.now().Unix()/length - int64(n) + 1
	out := make([]uint64, n)
	slots, unit := h.minutes[:], int64(60)
	if span*time.Duration(n) > 24*time.Hour {
		slots, unit = h.hours[:], 3600
	}
	for i := range slots {
		if at := slots[i].at*unit/length - first; slots[i].at > 0 && at >= 0 && at < int64(n) {
			out[at] += slots[i].counts[s]
		}
	}
	return out
}

// MostRefused gives the error that most requests were refused with in the last
// span, and how often; "" when there was none. It is true to the hour.
func (m *Metrics) MostRefused(span time.Duration) (code string, n uint64) {
	m.sample()
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.now().Add(-span).Unix() / 3600
	sum := map[string]uint64{}
	for _, r := range h.refused {
		if r.hour > first || r.hour == first && span <= time.Hour {
			for code, n := range r.errors {
				sum[code] += n
			}
		}
	}
	for _, c := range slices.Sorted(maps.Keys(sum)) {
		if sum[c] > n {
			code, n = c, sum[c]
		}
	}
	return code, n
}
