package store

import "sync"

// queue holds work that is done in batches.
type queue[T any] struct {
	mu     sync.Mutex
	wake   sync.Cond
	items  []T
	closed bool
}

func (q *queue[T]) init() { q.wake.L = &q.mu }

// join reports whether there was room for one more; most of 0 is no bound.
func (q *queue[T]) join(one T, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || most > 0 && len(q.items) >= most {
		return false
	}
	q.items = append(q.items, one)
	q.wake.Signal()
	return true
}

// take blocks until there is an item, and takes up to most of them, or one share of
// so many. It gives none when the queue is closed and empty.
func (q *queue[T]) take(out []T, most, shares int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.wake.Wait()
	}
	n := min(most, (len(q.items)+shares-1)/shares)
	out = append(out, q.items[:n]...)
	rest := copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	if rest > 0 {
		q.wake.Signal()
	}
	return out
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
}
