package shop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"lastitem/internal/stock"
)

// Every request has a deadline: its wait_ms and hold_ms plus [Options.Work] from now. It is answered then at the
// latest, even if a backend hangs:
//
//	waiting or reading ··· deadline: the context ends, and the mode returns the outcome
//	writing ·············· deadline: outcome unknown; the write is completed in the background
//	hanging elsewhere ···· deadline: unavailable, and the request can no longer begin to write
//
// [stock.Begin] tells the last two apart: a mode calls it before its first command that cannot be undone. After the
// deadline it fails, so an answer that says "nothing happened" stays true.

// defaultWork is the default of [Options.Work]; lastWords is how long after the deadline a mode may still return its
// outcome.
const (
	defaultWork = 5 * time.Second
	lastWords   = 250 * time.Millisecond
)

// requests are those of a shop.
type requests struct {
	work, settle time.Duration  // see Options
	running      sync.WaitGroup // those in progress, including those already answered at their deadline
}

// outcome is the result of the function that [within] runs.
type outcome[T any] struct {
	value    T
	err      error
	panicked any
}

// within runs f under the deadline of a request that may wait for its locks, or work under them, for as long as wait.
// If f does not return in time, within returns without waiting for it. writes says that f writes from the start.
func within[T any](ctx context.Context, q *requests, wait time.Duration, writes bool,
	f func(context.Context) (T, error)) (T, error) {
	limit := wait + q.work
	a := &stock.Attempt{Settle: q.settle}
	if writes {
		a.Begin()
	}
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadlineCause(a.NewContext(ctx), deadline, stock.ErrTooLate)
	done := make(chan outcome[T], 1)
	q.running.Go(func() {
		defer cancel()
		run(ctx, done, f)
	})
	var late <-chan time.Time
	again := false // after a stop of this process, f gets the time lastWords again, as if the process had not been stopped
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
			if a.Over() {
				return none, fmt.Errorf("%w: %w: nothing was written within %s", stock.ErrUnavailable, stock.ErrTooLate, limit)
			}
			return none, fmt.Errorf("%w: %w: the write had begun and was not confirmed within %s", stock.ErrUnknown,
				stock.ErrTooLate, limit)
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
