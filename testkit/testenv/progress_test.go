package testenv

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The context lives as long as steps are done, however long the whole takes, and ends when none is done for the given
// time.
func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, done := Progress(t, Still)
		for range 100 { // far beyond any fixed bound
			time.Sleep(Still - time.Second)
			done()
		}
		if err := ctx.Err(); err != nil {
			t.Fatalf("Progress ended while steps were done: %v", context.Cause(ctx))
		}
		time.Sleep(Still + time.Second)
		if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "no progress for 1m0s") {
			t.Errorf("cause after standing still = %v, want that nothing was done", cause)
		}
	})
}
