package main

import (
	"bytes"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/bench/command"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// TestMain makes the test's program the worker of its own windows.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerCommand {
		os.Exit(perform(os.Args[1:]))
	}
	_ = os.Setenv("GORACE", "halt_on_error=1") // a race ends a worker, which the test notices
	os.Exit(m.Run())
}

func newBench(t *testing.T, window time.Duration) *bench {
	t.Helper()
	server := testenv.Redis(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := options{window: window, rounds: 1, contenders: contenders}
	if err := o.findRedisson("redisson", false, io.Discard); err != nil || o.leftOut != "" {
		t.Log(err, o.leftOut)
	}
	return &bench{
		options: o, prefix: server.Prefix,
		server: localstack.Service{URL: server.URL, Addr: u.Host, PID: os.Getpid()}, errOut: &bytes.Buffer{}, began: time.Now(),
	}
}

// Every contender runs in real processes and excludes, and the counts of its window are consistent.
func TestWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100*time.Millisecond)
	there := b.contenders
	for _, s := range []scenario{
		{name: "free", kind: kindFree, processes: 1, goroutines: 2},
		{name: "hot", kind: kindHot, processes: 2, goroutines: 4, think: time.Millisecond},
		{name: "far", kind: kindHot, processes: 1, goroutines: 4, delay: time.Millisecond},
		{name: "thinking", kind: kindHot, processes: 1, goroutines: 2, think: 50 * time.Millisecond}, // as all do when the window ends
	} {
		b.contenders = there
		if names := map[string]string{"far": "raw fair mutex", "thinking": "raw redisson mutex"}[s.name]; names != "" {
			b.contenders, _ = command.Pick(there, names, func(c contender) (string, bool) { return c.name, true })
		}
		o := measureSome(t, b, s)
		if err := broken([]*outcome{o}); err != nil {
			t.Error(err)
		}
		for _, r := range o.Results {
			if rate := r.Median.Of(mRate); !(rate > 0) || r.Median.Of(mErrors) != 0 {
				t.Errorf("%s: %s: %v acquisitions/s, %v errors: %s", s.name, r.Contender, rate, r.Median.Of(mErrors), r.Failed)
			}
			commands := r.Median.Of(mCommands)
			// About two; the short window cuts off some, and on a busy machine it sees only a few acquisitions.
			if r.Contender == redissonName {
				continue // the server counts them, for all tests together
			}
			if r.Contender == ceilingName && commands != 0 || r.Contender != ceilingName && s.kind == kindFree && !(commands > 1 && commands < 8) {
				t.Errorf("%s: %s: %v commands per acquisition", s.name, r.Contender, commands)
			}
			if trips := r.Median.Of(mHandoffTrips); s.delay > 0 && !trips.Known() {
				t.Errorf("%s: %s: no round trips", s.name, r.Contender)
			}
		}
		var out bytes.Buffer
		o.print(&out)
		if lines := strings.Count(out.String(), "\n"); lines < len(o.Results)+4 {
			t.Errorf("%s: the table has %d lines:\n%s", s.name, lines, out.String())
		}
	}
}

// measureSome measures s in windows that get longer until every contender has acquired something: on a busy machine a process may get no
// processor for 100 ms.
func measureSome(t *testing.T, b *bench, s scenario) *outcome {
	t.Helper()
	for s.window = b.options.window; ; s.window *= 4 {
		o, err := b.measure(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		idle := slices.ContainsFunc(o.Results, func(r *result) bool { return !(r.Median.Of(mRate) > 0) })
		if !idle || s.window > 5*time.Second {
			return o
		}
		t.Logf("%s: somebody acquired nothing within %s", s.name, s.window)
	}
}

// A held lock is renewed or not, and its waiters wait.
func TestCounting(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	for _, s := range []scenario{
		{name: "park", kind: kindPark, processes: 1, goroutines: 4, window: time.Second},
		{name: "hold", kind: kindHold, processes: 1, goroutines: 4, locks: 40, window: 100 * time.Millisecond},
	} {
		o, err := b.measure(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if len(o.Results) == 0 {
			t.Errorf("%s: no contender", s.name)
		}
		for _, r := range o.Results {
			if r.Failed != "" {
				t.Errorf("%s: %s: %s", s.name, r.Contender, r.Failed)
			}
		}
		if s.kind == kindPark && !(o.of(rawName).Median.Of(mParked) > 0) {
			t.Error("who polls sends nothing while it waits")
		}
	}
}

// A worker that cannot work reports why.
func TestFleetError(t *testing.T) {
	t.Parallel()
	_, _, err := newFleet(t.Context(), job{Contender: "nobody", Kind: kindHot, Goroutines: 1})
	if err == nil || !strings.Contains(err.Error(), `no contender "nobody"`) {
		t.Errorf("newFleet = %v, want the worker's complaint", err)
	}
}
