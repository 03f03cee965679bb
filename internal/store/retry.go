package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How often a transaction that lost is tried at least, unless that takes longer than leastTime, and the longest pause
// between two tries.
const (
	leastTries   = 10
	leastTime    = time.Second
	longestPause = 50 * time.Millisecond
)

// Retry calls try, with the number of the tries before, while its error is [ErrConflict], which says that nothing has
// happened: for as long as wait, and ten times if wait is short. Between two tries it sleeps a random time whose bound
// doubles, so that transactions that collided once do not collide again. When ctx ends, or the time is over, it returns
// the last error.
//
// An [ErrUnknown] is never tried again: the transaction may have been committed.
func Retry(ctx context.Context, wait time.Duration, try func(n int) error) error {
	began := time.Now()
	for n, pause := 0, time.Millisecond; ; n++ {
		err := try(n)
		spent := time.Since(began)
		over := spent >= wait && (n+1 >= leastTries || spent >= leastTime)
		if over || !errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) {
			return err
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return err
		}
		pause = min(2*pause, longestPause)
	}
}
