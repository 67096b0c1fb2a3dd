package store

import "sync"

// line is where those wait whose turn comes together.
type line[T any] struct {
	mu     sync.Mutex
	wake   sync.Cond
	waits  []T
	closed bool
}

func (l *line[T]) init() { l.wake.L = &l.mu }

// join reports whether there was room for one more; most of 0 is no bound.
func (l *line[T]) join(one T, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || most > 0 && len(l.waits) >= most {
		return false
	}
	l.waits = append(l.waits, one)
	l.wake.Signal()
	return true
}

// take waits until somebody does, and takes up to most of them, or one share of
// so many. It gives none when the line is closed and empty.
func (l *line[T]) take(out []T, most, shares int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waits) == 0 && !l.closed {
		l.wake.Wait()
	}
	n := min(most, (len(l.waits)+shares-1)/shares)
	out = append(out, l.waits[:n]...)
	rest := copy(l.waits, l.waits[n:])
	clear(l.waits[rest:])
	l.waits = l.waits[:rest]
	if rest > 0 {
		l.wake.Signal()
	}
	return out
}

func (l *line[T]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake.Broadcast()
}
