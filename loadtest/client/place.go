package client

import (
	"context"
	"time"
)

// goroutines is the place of engines that block: each function gets a goroutine.
type goroutines struct{}

// Go runs f beside its caller.
func (goroutines) Go(f func()) { go f() }

// Rest waits for d; false means that ctx ended first.
func (goroutines) Rest(ctx context.Context, d time.Duration) bool { return Rest(ctx, d) }

// Rest waits for d in a goroutine; false means that ctx ended first.
func Rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
