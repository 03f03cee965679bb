package lock

import "context"

// Send runs f, which sends a request to the server. When ctx ends, Send returns but lets f go on: a request that was
// given up may still be carried out, even after the command that was to undo it. That command must wait until over is
// closed. Then f has its answer, or none came within CommandTimeout.
func Send[T any](ctx context.Context, f func(context.Context) (T, error)) (v T, over <-chan struct{}, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		defer close(done)
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommandTimeout)
		defer cancel()
		got, failed = f(whole)
	}()
	select {
	case <-done:
		return got, done, failed
	case <-ctx.Done():
		return v, done, context.Cause(ctx)
	}
}

// Await waits until over is closed, no longer than ctx allows.
func Await(ctx context.Context, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
