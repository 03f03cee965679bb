package machine

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// CPU time of this process counts as its own, not as that of others.
func TestUsage(t *testing.T) {
	before, ok := ReadUsage(os.Getpid())
	if !ok {
		if runtime.GOOS == "linux" {
			t.Fatal("ReadUsage is not known")
		}
		return // there is nothing to read
	}
	var after Usage
	for end := time.Now().Add(20 * time.Second); Spent(before, after) < 3*tick; after, _ = ReadUsage(os.Getpid()) {
		if time.Now().After(end) {
			t.Fatalf("spent %v in 20 s of doing nothing else", Spent(before, after))
		}
	}
	if n := Others(before, after); !(n >= 0 && n <= 1) {
		t.Errorf("others' share %v, want 0 to 1", n)
	}
	if _, ok := ReadUsage(1 << 30); ok {
		t.Error("the usage of no process is known")
	}
	if n := Others(before, before); n.Known() {
		t.Errorf("others' share of no time is %v, want none", n)
	}
}
