package testkit

import (
	"context"
	"io"
	"testing"
	"time"
)

// Each runs a test for each of several things, all in parallel.
func Each[T any](t *testing.T, all map[string]T, test func(t *testing.T, of T)) {
	t.Parallel()
	for name, of := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, of)
		})
	}
}

// Closes closes c when the test ends, which fails if that fails.
func Closes(t testing.TB, c io.Closer) {
	t.Cleanup(func() { Is(t, c.Close(), nil, "Close()") })
}

// Within is the test's context with a time limit.
func Within(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Closing returns c, which is closed when the test ends; that may fail.
func Closing[C io.Closer](t testing.TB, c C) C {
	t.Cleanup(func() { _ = c.Close() })
	return c
}
