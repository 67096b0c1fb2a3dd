package postgres

import "sync"

// queue holds work that is done in batches.
type queue[T any] struct {
	Mu     sync.Mutex
	wake   sync.Cond
	Items  []T
	closed bool
}

// init makes it ready.
func (q *queue[T]) init() { q.wake.L = &q.Mu }

// Join reports whether there was room for one more; most of 0 is no bound.
func (q *queue[T]) Join(one T, most int) bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.closed || most > 0 && len(q.Items) >= most {
		return false
	}
	q.Items = append(q.Items, one)
	q.wake.Signal()
	return true
}

// take blocks until there is an item, and takes up to most of them, or one share of
// so many. It gives none when the queue is closed and empty.
func (q *queue[T]) take(out []T, most, shares int) []T {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for len(q.Items) == 0 && !q.closed {
		q.wake.Wait()
	}
	n := min(most, (len(q.Items)+shares-1)/shares)
	out = append(out, q.Items[:n]...)
	rest := copy(q.Items, q.Items[n:])
	clear(q.Items[rest:])
	q.Items = q.Items[:rest]
	if rest > 0 {
		q.wake.Signal()
	}
	return out
}

func (q *queue[T]) close() {
	q.Mu.Lock()
	q.closed = true
	q.Mu.Unlock()
	q.wake.Broadcast()
}
