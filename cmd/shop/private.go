package main

import (
	"context"
	"errors"
	"time"

	"lastitem/internal/localstack"
)

// private starts a stack, runs body on it and stops it. When a part of the stack dies, body's context ends and private returns that death as
// the error: whatever body saw after it says nothing about a mode.
func private(ctx context.Context, o localstack.Options, f *farther, body func(context.Context, *localstack.Stack) error) error {
	defer f.close()
	stack, err := localstack.Start(ctx, f.options(o))
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{code: exitInterrupted, err: errors.New("interrupted before the stack was up")}
		}
		return err
	}
	f.say(stack, o.Log)
	alive, stop := aliveContext(ctx, stack)
	awaitModes(alive, stack)
	err = body(alive, stack)
	stop()
	if err != nil { // the cause may be a death that is just being noticed
		select {
		case <-stack.Done():
		case <-time.After(time.Second):
		}
	}
	if died := stack.Err(); died != nil {
		err = died
	}
	return closed(err, stack.Close())
}

// closed joins the error of a command with the error of its cleanup. The exit code of err is kept.
func closed(err, closing error) error {
	var e *exitError
	if closing != nil && errors.As(err, &e) {
		return &exitError{code: e.code, err: errors.Join(e.err, closing)}
	}
	return errors.Join(err, closing)
}

// aliveContext returns a context that ends with ctx or when a part of the stack dies.
func aliveContext(ctx context.Context, stack *localstack.Stack) (context.Context, context.CancelFunc) {
	alive, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stack.Done():
			cancel()
		case <-alive.Done():
		}
	}()
	return alive, cancel
}
