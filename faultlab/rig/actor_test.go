package rig

import (
	"strings"
	"testing"
)

// Where the threads' states cannot be read, a pause fails at once, and says why.
func TestPauseNeedsLinux(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]bool{"linux": true, "darwin": false, "freebsd": false} {
		if err := showsThreads(system); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "Linux only") {
			t.Errorf("showsThreads(%s) = %v, want nil: %t", system, err, want)
		}
	}
}
