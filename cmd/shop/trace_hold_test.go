package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/testenv"
	"lastitem/internal/trace"
)

// TestTraceOfAHeldLock holds the picture in the watchdog's page against a run with a TTL of 3 s: but for the times, which are in TTLs, it is
// that of 'shop trace watchdog --hold 25s --rival'.
func TestTraceOfAHeldLock(t *testing.T) {
	testenv.Slow(t, "holds a lock for many seconds")
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	flags := traceFlags{quantity: 1, key: "trace-1", lang: "en", backend: localstack.Auto, depth: -1, hold: 7500 * time.Millisecond, ttl: 3 * time.Second, rival: true}
	d, err := flags.deduction("watchdog")
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := trace.New(t.Context(), tracing("en", []stock.Mode{d.Mode}, flags.backend, t.Logf, flags.ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	const tries = 10 // a busy machine may delay a renewal
	for try := 1; ; try++ {
		tr, err := tracer.Deduct(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.NewBufferString("$ shop trace watchdog --hold 25s --rival --stable\n")
		if err := tr.WriteStable(text); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(root, "internal", "stock", "doc", "watchdog.hold.txt"), text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		diff, err := cmp.Diff(text.String(), d.Mode.HoldTrace()), timesOfAHeldLock(tr)
		switch {
		case diff == "" && err == nil:
			return
		case try == tries && diff != "":
			t.Fatalf("its trace is stale: run 'make traces' (-want +got):\n%s", diff)
		case try == tries:
			t.Fatal(err)
		}
	}
}

// timesOfAHeldLock wants seven renewals, and the rival's answer soon after the release, not when the TTL ends.
func timesOfAHeldLock(tr trace.Trace) error {
	renewals := 0
	for _, s := range tr.Steps {
		if strings.HasPrefix(s.About, "-- Keeps the lock alive") {
			renewals++
		}
	}
	r := tr.Against
	if renewals != 7 || r == nil || r.Status != 200 || r.Began+r.Took > tr.Took+tr.TTL/3 {
		return fmt.Errorf("%d renewals, the rival %+v, the first took %v; want 7, and the rival woken by the release", renewals, r, tr.Took)
	}
	return nil
}
