package stock

// QueueLimit is how many requests may wait for one product.
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
