package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Still is how long a test of many steps may make no progress before it fails. A step is one acquisition of a lock, or
// one sale: it takes milliseconds on a quiet machine, a quarter of a second on a slow disk, and seconds on a busy
// machine.
const Still = time.Minute

// Progress returns a context for work of many steps, whose time in all depends on how fast the server and the machine
// are. It ends when no step was done for still (see [Still]), however long the whole takes; the test's own deadline
// bounds that. Call done after each step.
func Progress(t testing.TB, still time.Duration) (ctx context.Context, done func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(still, func() { cancel(fmt.Errorf("testenv: no progress for %s", still)) })
	t.Cleanup(func() {
		timer.Stop()
		cancel(nil)
	})
	return ctx, func() { timer.Reset(still) }
}
