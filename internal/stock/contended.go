package stock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How often a deduction that was overtaken begins again whatever its wait_ms, which bounds what comes after; and how long it
// sleeps before: a random time, whose bound doubles, so that those who met once do not meet again.
const (
	optimisticTries = 10
	optimisticSleep = time.Millisecond
	longestSleep    = 50 * time.Millisecond
)

// retryContended repeats try while it returns ErrContended, which says that nothing has happened: at least ten times, and until the
// request's wait is over. It is for the modes that write only what nobody has changed since they read it.
func retryContended(ctx context.Context, req Request, try func(context.Context, Request) (Receipt, error)) (Receipt, error) {
	sleep, deadline := optimisticSleep, time.Now().Add(req.Wait)
	for n := 1; ; n++ {
		r, err := try(ctx, req)
		if !errors.Is(err, ErrContended) || n >= optimisticTries && time.Now().After(deadline) {
			return r, err
		}
		select {
		case <-time.After(rand.N(sleep)):
		case <-ctx.Done():
			return Receipt{}, err
		}
		sleep = min(2*sleep, longestSleep)
	}
}
