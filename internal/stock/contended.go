package stock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How often an overtaken deduction is tried at least, whatever its wait_ms, which bounds the tries after that; and how long it sleeps
// before it is tried again: a random time whose bound doubles, so that requests that collided once do not collide again.
const (
	optimisticTries = 10
	optimisticSleep = time.Millisecond
	longestSleep    = 50 * time.Millisecond
)

// retryContended repeats try while it returns ErrContended, which says that nothing has happened: at least ten times, and until the
// request's wait is over. It is for the modes whose write does nothing if somebody has written since they read.
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
