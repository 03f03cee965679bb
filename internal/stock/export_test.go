package stock

import "context"

// QueueLimit is how many may wait for one product.
const QueueLimit = queueLimit

// QueueState says how many products have a writer, and how many requests wait for one of them.
func QueueState(d Deductor, product int64) (writers, waiting int) {
	q := d.(*queueDeductor)
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[product]; l != nil {
		waiting = len(l.waiting)
	}
	return len(q.lines), waiting
}

// Of returns the Deps that a shop would give to the mode of a name.
func (d Deps) Of(mode string) Deps {
	d.mode = mode
	return d
}

// Begin is passed before the first command that cannot be taken back.
var Begin = begin

// LastWords is how long after its deadline a request may take to say what became of it.
const LastWords = lastWords

// DeductAnswered has a mode deduct for a request that was answered already, at its deadline.
func (s *Shop) DeductAnswered(ctx context.Context, mode string, req Request) error {
	a := &attempt{}
	a.over()
	e := s.byName[mode]
	if err := check(e.mode, &req); err != nil {
		return err
	}
	_, err := e.deductor.Deduct(context.WithValue(ctx, attemptKey{}, a), req)
	return err
}
