package metrics

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// route is what is counted of the requests of one path.
type route struct {
	label   string
	answers [len(methods)]atomic.Pointer[answers]
}

// answers are those to one method, by status: 100 to 599, and the others
// together. They are counted by how long they took alone: each addition to what
// several processors add to costs as much as a few lines of code.
type answers [501]atomic.Pointer[histogram]

var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace, "other",
}

func methodIndex(method string) int {
	switch method {
	case http.MethodGet:
		return 0
	case http.MethodPost:
		return 1
	}
	for i, m := range methods {
		if m == method {
			return i
		}
	}
	return len(methods) - 1
}

func statusIndex(status int) int {
	if status < 100 || status > 599 {
		return 500
	}
	return status - 100
}

// add makes a place for answers.
func (r *route) add(method, status int) *histogram {
	r.answers[method].CompareAndSwap(nil, new(answers))
	of := r.answers[method].Load()
	of[status].CompareAndSwap(nil, new(histogram))
	return of[status].Load()
}

func (r *route) at(method, status int) *histogram {
	if of := r.answers[method].Load(); of != nil {
		return of[status].Load()
	}
	return nil
}

// routeLabel leaves the method out, which is a label of its own. Paths that
// nobody knows are one route: strangers must not make labels.
func routeLabel(pattern string) string {
	if _, path, ok := strings.Cut(pattern, " "); ok {
		return path
	}
	if pattern == "" {
		return "none"
	}
	return pattern
}

// bounds of the histograms. A call is answered in well under a millisecond, a
// page in a few, and what takes seconds waits for a disk.
var bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// histogram counts durations up to each bound, those above the last in one
// more. Their number is the sum of all. The sum of the durations stands beside
// the shortest, which are most.
type histogram struct {
	sum    atomic.Int64 // nanoseconds
	counts [len(bounds) + 1]atomic.Uint64
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// maxLabels bounds the values that one metric has. They are words of the code.
const maxLabels = 100

// labelled are counters by one or two labels, for what does not happen with
// every request.
type labelled struct {
	mu     sync.RWMutex
	counts map[[2]string]*atomic.Uint64
}

// newLabelled starts with the values that are known, so that their first
// event is an increase.
func newLabelled(known ...[]string) *labelled {
	l := &labelled{counts: map[[2]string]*atomic.Uint64{}}
	for _, k := range known {
		l.add(k[0], strings.Join(k[1:], ""), 0)
	}
	return l
}

func (l *labelled) add(a, b string, n uint64) {
	key := [2]string{a, b}
	l.mu.RLock()
	c := l.counts[key]
	l.mu.RUnlock()
	if c == nil {
		c = l.make(key)
	}
	c.Add(n)
}

func (l *labelled) make(key [2]string) *atomic.Uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.counts) >= maxLabels && l.counts[key] == nil {
		key[0] = "other"
		if key[1] != "" {
			key[1] = "other"
		}
	}
	c := l.counts[key]
	if c == nil {
		c = new(atomic.Uint64)
		l.counts[[2]string{strings.Clone(key[0]), strings.Clone(key[1])}] = c
	}
	return c
}

// each gives all that there is.
func (l *labelled) each(f func(a, b string, n uint64)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for key, n := range l.counts {
		f(key[0], key[1], n.Load())
	}
}

// sum adds up all.
func (l *labelled) sum() (n uint64) {
	l.each(func(_, _ string, of uint64) { n += of })
	return n
}

// of gives one that has no second label.
func (l *labelled) of(a string) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if c := l.counts[[2]string{a}]; c != nil {
		return c.Load()
	}
	return 0
}
