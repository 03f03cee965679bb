package handoff

import "iter"

// fifo is a queue that any member can leave in constant time: thousands may give up at once, while the engine's mutex
// is held.
type fifo[T any] struct {
	first, last *place[T]
	size        int
}

// place is a member's position in the one queue that it may be in.
type place[T any] struct {
	member        *T
	queue         *fifo[T] // nil while the member is in no queue
	before, after *place[T]
}

// push adds a member that is in no queue.
func (q *fifo[T]) push(p *place[T]) {
	p.queue, p.before = q, q.last
	if q.last == nil {
		q.first = p
	} else {
		q.last.after = p
	}
	q.last = p
	q.size++
}

// remove takes a member out. It returns false if the member was not in this queue.
func (q *fifo[T]) remove(p *place[T]) bool {
	if p.queue != q {
		return false
	}
	if p.before == nil {
		q.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		q.last = p.before
	} else {
		p.after.before = p.before
	}
	p.queue, p.before, p.after = nil, nil, nil
	q.size--
	return true
}

// pop takes the first member out; there must be one.
func (q *fifo[T]) pop() *T {
	p := q.first
	q.remove(p)
	return p.member
}

// all yields the members from first to last. The member that was yielded may leave.
func (q *fifo[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for p := q.first; p != nil; {
			after := p.after
			if !yield(p.member) {
				return
			}
			p = after
		}
	}
}
