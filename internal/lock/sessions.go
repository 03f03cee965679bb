package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sessions holds the one session of a process, made with the first hold and again when it was lost.
type sessions struct {
	open     func(context.Context) (*session, error)
	slot     chan struct{} // full while somebody looks at the fields below
	now      *session
	all      map[*session]bool // also those that are lost but still owe
	failed   error             // of the last attempt to open one, which ended at failedAt
	failedAt time.Time
	closed   bool
}

// errClosed comes with [ErrUnavailable]: a session opened after the end nobody would close.
var errClosed = errors.New("lock: closed")

func newSessions(open func(context.Context) (*session, error)) *sessions {
	return &sessions{open: open, slot: make(chan struct{}, 1), all: map[*session]bool{}}
}

// get returns the session, opening one where there is none that can be trusted. The caller has joined it, and leaves it when it
// can owe nothing more. Those who wait while that fails fail with it: one after the other would each wait for a server that
// does not answer.
func (p *sessions) get(ctx context.Context) (*session, error) {
	came := time.Now()
	select {
	case p.slot <- struct{}{}:
		defer func() { <-p.slot }()
	case <-ctx.Done():
		return nil, gaveUp(ctx)
	}
	switch {
	case p.closed:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	case p.now != nil && !p.now.lost() && p.now.join():
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
	ask, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	s, err := p.open(ask)
	switch {
	case err == nil:
		p.now, p.all[s], p.failed = s, true, nil
		s.join()
		return s, nil
	case ended(ctx): // the caller's own end, which is nobody else's
		return nil, gaveUp(ctx)
	}
	p.failed, p.failedAt = err, time.Now()
	return nil, err
}

// close ends the sessions here and at the server; holds that are left are lost. It takes a few seconds at most.
func (p *sessions) close() error {
	p.slot <- struct{}{}
	defer func() { <-p.slot }()
	for s := range p.all {
		s.halt() // all at once: each may be waiting for an answer
	}
	for s := range p.all {
		s.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var errs []error
	for s := range p.all {
		if s.end != nil {
			errs = append(errs, s.end(ctx))
		}
		s.pay(ctx) // with the session's end all is free, at the server; local waiters are to know
	}
	p.now, p.all, p.closed = nil, map[*session]bool{}, true
	return errors.Join(errs...)
}
