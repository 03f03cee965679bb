package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lastitem/testkit"
)

// A child that leaves its group, and even its session, does not outlive the keeper.
func TestNothingLeftOutsideTheGroup(t *testing.T) {
	t.Parallel()
	k := start(t)
	file := filepath.Join(t.TempDir(), "pid")
	_, err := k.Start(t.Context(), "starter", Command{Argv: []string{"sh", "-c",
		"setsid sh -c 'echo $$ > " + file + "; sleep 600; true' & exec sleep 600"}})
	testkit.Must(t, err)
	var group int
	testkit.NoError(t, "the number of the process", func() error {
		text, _ := os.ReadFile(file)
		_, err := fmt.Sscan(string(text), &group)
		return err
	})
	testkit.Must(t, k.Close())
	testkit.Is(t, syscall.Kill(-group, 0), error(syscall.ESRCH), "after Close, a signal to what left")
}
