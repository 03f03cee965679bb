package rig

import (
	"testing"
	"time"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// A clock that jumps forward ends the lock at once and stays where it is; one that jumps back lengthens the lock's life until the next
// reset. No other server's clock moves.
func TestJump(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, localstack.Compiler)
	l := serversOnly(t, Equipment{Clock: true})
	lock := func() {
		for _, server := range l.OwnServers() {
			tell(t, l, server, "SET", "lock", "a", "NX", "PX", "60000")
		}
	}
	left := func(server string) int { return pttl(t, l, server, "lock") }
	jump := func(by time.Duration) {
		t.Helper()
		if err := l.Jump(t.Context(), by, localstack.Redis); err != nil {
			t.Fatal(err)
		}
	}
	lock()
	jump(time.Hour)
	if here, there := left(localstack.Redis), left(redlockNode); here != -2 || there < 0 {
		t.Errorf("PTTL after a jump forward = %d, on another server %d, want no lock (-2), and one there", here, there)
	}
	lock()
	jump(-time.Hour)
	if here, there := left(localstack.Redis), left(redlockNode); here <= 3600000 || there > 60000 {
		t.Errorf("PTTL after a jump back = %d, on another server %d, want more than an hour, and at most a minute there", here, there)
	}
	for range 2 { // the second time there is nothing to restore
		if err := l.restoreClocks(); err != nil {
			t.Fatal(err)
		}
		if offset := l.laneServers[localstack.Redis].clock.Offset(); offset != time.Hour {
			t.Errorf("after restoreClocks the clock is %v ahead, want 1h", offset)
		}
	}
	if here := left(localstack.Redis); here > 60000 {
		t.Errorf("PTTL after restoreClocks = %d, want at most a minute", here)
	}
}
