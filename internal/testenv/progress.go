package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Still is for how long a test of many steps may stand still before it is given up. A step is one turn at a lock, one sale:
// what takes milliseconds on a quiet machine, a quarter of a second on a slow disk, and seconds where everything else is busy.
const Still = time.Minute

// Progress returns a context for work of many steps, whose time in all depends on how fast the server and the machine are.
// It ends when nothing has been done for as long as still (see [Still]), however long the whole takes: what bounds that is the
// test's own deadline. done says that a step was done.
func Progress(t testing.TB, still time.Duration) (ctx context.Context, done func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(still, func() { cancel(fmt.Errorf("testenv: nothing was done for %s", still)) })
	t.Cleanup(func() {
		timer.Stop()
		cancel(nil)
	})
	return ctx, func() { timer.Reset(still) }
}
