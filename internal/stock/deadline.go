package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"lastitem/internal/store"
)

// Every request has a deadline, its wait_ms and [Deps.Work] from now, and an answer when it comes, whatever hangs:
//
//	waiting, reading ····· deadline: the context ends, and the mode says what became of it
//	writing ·············· deadline: outcome unknown; what was begun is settled, and nobody waits for it
//	anything that hangs ·· deadline: unavailable, and it will not begin to write any more
//
// The last two are told apart by [begin], which a mode passes before its first command that cannot be taken back. After the
// deadline nobody passes: an answer that says "nothing happened" stays true.

// The defaults of [Deps.Work], and how long after the deadline a mode may take to say what became of its request.
const (
	defaultWork = 5 * time.Second
	lastWords   = 250 * time.Millisecond
)

// attempt is whether a request has begun to write, or has been answered.
type attempt struct{ state atomic.Int32 }

const (
	attemptOpen int32 = iota
	attemptBegun
	attemptOver
)

type attemptKey struct{}

// begin is passed before the first command that cannot be taken back, in a transaction before COMMIT. Its error says that the request
// was answered at its deadline, with "nothing happened": so nothing may happen. It may be repeated.
func begin(ctx context.Context) error {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil || a.state.CompareAndSwap(attemptOpen, attemptBegun) || a.state.Load() == attemptBegun {
		return nil
	}
	return fmt.Errorf("%w: %w: it has been answered", ErrUnavailable, ErrTooLate)
}

// over closes the way to [begin]; false where it has been passed.
func (a *attempt) over() bool { return a.state.CompareAndSwap(attemptOpen, attemptOver) }

// outcome is how f of [within] ended.
type outcome[T any] struct {
	value    T
	err      error
	panicked any
}

// within runs f under the deadline of a request that waits so long for locks, and returns without f where f does not. writes says
// that f writes from its beginning.
func within[T any](ctx context.Context, s *Shop, wait time.Duration, writes bool, f func(context.Context) (T, error)) (T, error) {
	limit := wait + cmp.Or(s.deps.Work, defaultWork)
	a := &attempt{}
	if writes {
		a.state.Store(attemptBegun)
	}
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadlineCause(context.WithValue(ctx, attemptKey{}, a), deadline, ErrTooLate)
	done := make(chan outcome[T], 1)
	s.running.Go(func() {
		defer cancel()
		run(ctx, done, f)
	})
	var late <-chan time.Time
	again := false // what was about to be done when the process stopped is let go on, as by a process that was not stopped
	for ended := ctx.Done(); ; {
		select {
		case out := <-done:
			if out.panicked != nil {
				panic(out.panicked) // here, where the request's own recovery is
			}
			return out.value, out.err
		case <-ended: // by the deadline, or because the client has left: what was begun goes on until the deadline
			ended = nil
			late = time.After(time.Until(deadline) + lastWords)
		case <-late:
			if since := time.Since(deadline); since > 2*lastWords && !again { // this process was stopped, or starved
				again, late = true, time.After(lastWords)
				continue
			}
			var none T
			if a.over() {
				return none, fmt.Errorf("%w: %w: nothing was written in %s", ErrUnavailable, ErrTooLate, limit)
			}
			return none, fmt.Errorf("%w: %w: what was begun is not settled after %s", ErrUnknown, ErrTooLate, limit)
		}
	}
}

// run tells done how f ended.
func run[T any](ctx context.Context, done chan<- outcome[T], f func(context.Context) (T, error)) {
	var out outcome[T]
	defer func() {
		if reason := recover(); reason != nil {
			if err, ok := reason.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				reason = fmt.Errorf("%v\n%s", reason, debug.Stack())
			}
			out.panicked = reason
		}
		done <- out
	}()
	out.value, out.err = f(ctx)
}

// down says why a request that needs these backends would fail: at once, and with nothing sent.
func (d Deps) down(needs ...Backend) error {
	for _, b := range needs {
		if d.Down == nil {
			break
		}
		if err := d.Down(b); err != nil {
			return &NotReadyError{Why: fmt.Sprintf("%s: %v", b, err), Err: err}
		}
	}
	return nil
}

// silent is down for who reads, or repairs: a backend that refuses to write answers them.
func (d Deps) silent(s Store) error {
	if err := d.down(s.backend()); err != nil && !errors.Is(err, store.ErrRefused) {
		return err
	}
	return nil
}
