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

// Every request has a deadline: its wait_ms plus [Deps.Work] from now. It is answered then at the latest, even if a backend hangs:
//
//	waiting or reading ··· deadline: the context ends, and the mode returns the outcome
//	writing ·············· deadline: outcome unknown; the write is completed in the background
//	hanging elsewhere ···· deadline: unavailable, and the request can no longer begin to write
//
// [begin] tells the last two apart: a mode calls it before its first command that cannot be undone. After the deadline begin
// fails, so an answer that says "nothing happened" stays true.

// defaultWork is the default of [Deps.Work]; lastWords is how long after the deadline a mode may take to return its outcome.
const (
	defaultWork = 5 * time.Second
	lastWords   = 250 * time.Millisecond
)

// attempt records whether a request has begun to write, or has been answered without writing.
type attempt struct{ state atomic.Int32 }

const (
	attemptOpen int32 = iota
	attemptBegun
	attemptOver
)

type attemptKey struct{}

// begin must be called before the first command that cannot be undone; in a transaction, before COMMIT. It fails if the request was
// already answered at its deadline with "nothing happened": then the caller must not write. It may be called again.
func begin(ctx context.Context) error {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil || a.state.CompareAndSwap(attemptOpen, attemptBegun) || a.state.Load() == attemptBegun {
		return nil
	}
	return fmt.Errorf("%w: %w: it has been answered", ErrUnavailable, ErrTooLate)
}

// over makes every later [begin] fail. It returns false if begin has already succeeded.
func (a *attempt) over() bool { return a.state.CompareAndSwap(attemptOpen, attemptOver) }

// outcome is the result of the function that [within] runs.
type outcome[T any] struct {
	value    T
	err      error
	panicked any
}

// within runs f under the deadline of a request whose wait for locks is wait. If f does not return in time, within returns without
// it. writes says that f writes from the start.
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
	again := false // after a stop of this process f gets its last words once more, as if the process had not been stopped
	for ended := ctx.Done(); ; {
		select {
		case out := <-done:
			if out.panicked != nil {
				panic(out.panicked) // in this goroutine, where the handler recovers
			}
			return out.value, out.err
		case <-ended: // by the deadline, or because the client has left; a write that has begun goes on until the deadline
			ended = nil
			late = time.After(time.Until(deadline) + lastWords)
		case <-late:
			if since := time.Since(deadline); since > 2*lastWords && !again { // this process was stopped, or starved
				again, late = true, time.After(lastWords)
				continue
			}
			var none T
			if a.over() {
				return none, fmt.Errorf("%w: %w: nothing was written within %s", ErrUnavailable, ErrTooLate, limit)
			}
			return none, fmt.Errorf("%w: %w: the write had begun and was not confirmed within %s", ErrUnknown, ErrTooLate, limit)
		}
	}
}

// run calls f and sends its outcome to done.
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

// down returns an error if one of these backends is known to be down, so that a request fails at once and sends nothing.
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

// silent is down for requests that only read, or repair: a backend that refuses writes still answers them.
func (d Deps) silent(s Store) error {
	if err := d.down(s.backend()); err != nil && !errors.Is(err, store.ErrRefused) {
		return err
	}
	return nil
}
