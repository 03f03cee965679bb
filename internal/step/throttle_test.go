package step

import (
	"testing"
	"time"
)

func TestThrottleCountsWhatItHeldBack(t *testing.T) {
	t.Parallel()
	var th Throttle
	now := time.Unix(1e9, 0)
	for range 3 {
		th.Allow("a", now)
	}
	if _, ok := th.Allow("b", now); !ok {
		t.Error("one key silences another")
	}
	if skipped, ok := th.Allow("a", now.Add(2*time.Second)); !ok || skipped != 2 {
		t.Errorf("Allow after 2 s = %d, %t, want 2, true", skipped, ok)
	}
}
