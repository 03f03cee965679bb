package testkit

import (
	"io"
	"testing"
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
