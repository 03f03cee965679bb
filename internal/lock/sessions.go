package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sessions holds the one session of a process. The first hold opens it, and a later one opens another if it was lost or
// retired.
type Sessions struct {
	open     func(context.Context) (*Session, error)
	slot     chan struct{} // guards the fields below; full while a goroutine uses them
	now      *Session
	all      map[*Session]bool // also those lost or retired that still have users or cleanups
	failed   error             // of the last attempt to open one, which ended at failedAt
	failedAt time.Time
	closed   bool
}

// errClosed comes with [lock.ErrUnavailable]. After Close no session is opened, because nothing would close it.
var errClosed = errors.New("lock: closed")

// NewSessions returns the sessions of a process, made by open.
func NewSessions(open func(context.Context) (*Session, error)) *Sessions {
	return &Sessions{open: open, slot: make(chan struct{}, 1), all: map[*Session]bool{}}
}

// Get returns the session; if there is none that can be trusted, it opens one. The caller has joined the session, and
// leaves it when it needs no further cleanup. If opening fails, all callers that wait for it fail too: otherwise each
// in turn would wait for a server that does not answer.
func (p *Sessions) Get(ctx context.Context) (*Session, error) {
	came := time.Now()
	select {
	case p.slot <- struct{}{}:
		defer func() { <-p.slot }()
	case <-ctx.Done():
		return nil, GaveUp(ctx)
	}
	pending := 0
	for s := range p.all {
		pending += s.pending()
	}
	switch {
	case p.closed:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	case pending >= mostCleanups:
		return nil, fmt.Errorf("%w: the cleanups of %d earlier attempts have not succeeded yet", ErrUnavailable, pending)
	case p.now != nil && !p.now.Lost() && p.now.join():
		return p.now, nil
	case p.failed != nil && came.Before(p.failedAt):
		return nil, p.failed
	}
	for s := range p.all {
		select {
		case <-s.done:
			delete(p.all, s)
		default:
		}
	}
	ask, cancel := context.WithTimeout(ctx, CommandTimeout)
	defer cancel()
	s, err := p.open(ask)
	switch {
	case err == nil:
		p.now, p.all[s], p.failed = s, true, nil
		s.join()
		return s, nil
	case Ended(ctx): // this caller's context has ended; the other callers do not fail because of it
		return nil, GaveUp(ctx)
	}
	p.failed, p.failedAt = err, time.Now()
	return nil, err
}

// Close ends the sessions in this process and at the server; holds that are not released yet are lost. It takes a few
// seconds at most.
func (p *Sessions) Close() error {
	p.slot <- struct{}{}
	defer func() { <-p.slot }()
	for s := range p.all {
		s.halt() // all at once: each may be waiting for an answer
	}
	for s := range p.all {
		s.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), CleanupTimeout)
	defer cancel()
	var errs []error
	for s := range p.all {
		if s.End != nil {
			errs = append(errs, s.End(ctx))
		}
		s.retryCleanups(ctx, mostCleanups) // the server frees all locks when the session ends; the local waiters must be told
	}
	p.now, p.all, p.closed = nil, map[*Session]bool{}, true
	return errors.Join(errs...)
}
