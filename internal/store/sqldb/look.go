package sqldb

import "sync"

// look is one read and its answer.
type look struct {
	done  chan struct{}
	stock int64
	there bool
	err   error
}

// looks are the reads of products: at most one of each is under way.
type looks struct {
	mu   sync.Mutex
	next map[int64]*look // begins after the one under way; nil = nobody waits for it. Without an entry none is under way
}

// join returns the next read of a product to begin.
func (l *looks) join(product int64, read func(int64, *look)) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = map[int64]*look{}
	}
	next, underWay := l.next[product]
	if next == nil {
		next = &look{done: make(chan struct{})}
		l.next[product] = next
	}
	if !underWay {
		go l.run(product, read)
	}
	return next
}

// run reads while somebody waits.
func (l *looks) run(product int64, read func(int64, *look)) {
	for now := l.begin(product); now != nil; now = l.begin(product) {
		read(product, now)
		close(now.done)
	}
}

// begin returns the read to make now; nil = nobody waits.
func (l *looks) begin(product int64) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.next[product]
	if now == nil {
		delete(l.next, product)
	} else {
		l.next[product] = nil
	}
	return now
}
