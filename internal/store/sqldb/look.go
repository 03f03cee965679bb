package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// Look reads the count of a product without a lock, and shares the read: all callers that wait for one get the answer
// of a statement that was sent after each of them came. So the count was true while every one of them was waiting, and
// a crowd costs one read at a time. there is false if there is no such product, or it is segmented.
func (s *Store) Look(ctx context.Context, product int64) (stock int64, there bool, err error) {
	mine := s.looks.join(product, s.look)
	select {
	case <-mine.done:
		return mine.stock, mine.there, mine.err
	case <-ctx.Done():
		return 0, false, statementError(ctx.Err())
	}
}

// lookLimit bounds a read, since no caller's context does.
const lookLimit = 5 * time.Second

// look reads for all who wait.
func (s *Store) look(product int64, l *look) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	err := s.db.WithContext(ctx).Raw(s.q.Look, product).Row().Scan(&l.stock)
	if l.there = err == nil; !errors.Is(err, sql.ErrNoRows) {
		l.err = statementError(err)
	}
}

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
