package report

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/loadtest"
	"lastitem/loadtest/resulttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name, or rewrites it under -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./loadtest/report -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), run with -update if that is right:\n%s", path, diff)
	}
}

// fullComparison has every kind of row and note that a table can show.
func fullComparison() loadtest.Comparison {
	noisy := resulttest.Exact("lua-lock", 12*time.Millisecond)
	noisy.Noisy = []string{"the machine was busy before the load: 0.85 cores", "the hypervisor took 0.03 cores away"}
	vacuous := resulttest.Vacuous("watchdog")
	vacuous.Noisy = []string{"the hypervisor took 0.11 cores away"}
	c := resulttest.Comparison(resulttest.Baseline(), resulttest.Broken("unsafe", "O"), resulttest.Broken("mutex", api.Exact), noisy, vacuous)
	c.Skipped = []loadtest.SkippedMode{{Mode: "segmented", Why: "needs redis, which is down"}}
	c.Failed = []loadtest.FailedRun{{Mode: "setnx", Repetition: 1, Why: "loadtest: set stock: connection refused"}}
	c.Crossed = []loadtest.Crossing{{Mode: "lua-lock", Threshold: "p(99)<50ms", Value: "60ms"}}
	return c
}
