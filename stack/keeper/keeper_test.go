package keeper

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"lastitem/testkit"
)

// TestMain lets a copy of the test binary be the keeper.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keeper" {
		if err := Run(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T) *Keeper {
	t.Helper()
	k, err := Start(os.Args[0], func(_ *Process, how string) { t.Error("the keeper has died: " + how) })
	testkit.Must(t, err)
	testkit.Closes(t, k)
	return k
}

// Close waits for a last command in addition to everything else.
func TestLastCommandIsWaitedFor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "left")
	k := start(t)
	testkit.Must(t, k.Last([]string{"sh", "-c", "sleep 0.5; touch " + file}, nil))
	k.patience -= orderly
	testkit.Check(t, k.Close())
	_, err := os.Stat(file)
	testkit.Is(t, err, nil, "the last command had not ended when Close returned")
}
