package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
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
	testkit.Must(t, err)
	o := options{window: window, rounds: 1, contenders: contenders}
	testkit.Must(t, o.findRedisson("", false, io.Discard))
	return &bench{
		options: o, prefix: server.Prefix,
		server: stack.Service{URL: server.URL, Addr: u.Host, PID: os.Getpid()}, errOut: &bytes.Buffer{},
		began: time.Now(),
	}
}

// Every contender runs in real processes and excludes, and the counts of its window are consistent.
func TestWindow(t *testing.T) {
	t.Parallel()
	testWindows(t, newBench(t, 100*time.Millisecond), map[string]string{"far": "raw fair mutex", "thinking": "raw mutex"})
}

// testWindows measures all contenders of a bench, or in some scenarios only these.
func testWindows(t *testing.T, b *bench, some map[string]string) {
	t.Helper()
	there := b.contenders
	for _, s := range []scenario{
		{name: "free", kind: kindFree, processes: 1, goroutines: 2},
		{name: "hot", kind: kindHot, processes: 2, goroutines: 4, think: time.Millisecond},
		{name: "far", kind: kindHot, processes: 1, goroutines: 4, delay: time.Millisecond},
		// as all do when the window ends
		{name: "thinking", kind: kindHot, processes: 1, goroutines: 2, think: 50 * time.Millisecond},
	} {
		b.contenders = there
		if names := some[s.name]; names != "" {
			b.only(names)
		}
		o := measureSome(t, b, s)
		testkit.Check(t, broken([]*outcome{o}))
		for _, r := range o.Results {
			if rate := r.Median.Of(mRate); !(rate > 0) || r.Median.Of(mErrors) != 0 {
				t.Errorf("%s: %s: %v acquisitions/s, %v errors: %s", s.name, r.Contender, rate, r.Median.Of(mErrors), r.Failed)
			}
			commands := r.Median.Of(mCommands)
			// About two; the short window cuts off some, and on a busy machine it sees only a few acquisitions.
			if r.Contender == redissonName {
				continue // the server counts them, for all tests together
			}
			if r.Contender == ceilingName && commands != 0 || r.Contender != ceilingName && s.kind == kindFree &&
				!(commands > 1 && commands < 8) {
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

// measureSome measures s in windows that get longer until every contender has acquired something: on a busy machine a
// process may get no processor for 100 ms.
func measureSome(t *testing.T, b *bench, s scenario) *outcome {
	t.Helper()
	for s.window = b.options.window; ; s.window *= 4 {
		o, err := b.measure(t.Context(), s)
		testkit.Mustf(t, err, "%s", s.name)
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
		testkit.Mustf(t, err, "%s", s.name)
		if len(o.Results) == 0 {
			t.Errorf("%s: no contender", s.name)
		}
		for _, r := range o.Results {
			if r.Failed != "" {
				t.Errorf("%s: %s: %s", s.name, r.Contender, r.Failed)
			}
		}
		if s.kind == kindPark && !(o.of(rawName).Median.Of(mParked) > 0) {
			t.Error("a lock that polls has sent nothing while it waited")
		}
	}
}

// A scenario in which no requested contender can take part measures nothing: a process mutex is not held by another
// process, and the picture is of one Redis.
func TestNobodyTakesPart(t *testing.T) {
	t.Parallel()
	for scenario, name := range map[string]string{"park-64": ceilingName, "hold-5000": rawName, drawn: "handoff-cluster"} {
		b := &bench{options: options{rounds: 1}, errOut: io.Discard}
		b.only(name)
		for _, s := range scenarios {
			if s.name != scenario {
				continue
			}
			o, err := b.measure(t.Context(), s)
			if err != nil || len(o.Results) != 0 {
				t.Fatalf("%s: %+v, %v, want nothing", scenario, o, err)
			}
			var out bytes.Buffer
			o.print(&out)
			if !strings.Contains(out.String(), "none of the requested contenders") || draw(facts{}, []*outcome{o}) != nil {
				t.Errorf("%s: a picture, or the table says %q", scenario, out.String())
			}
		}
	}
}

// A window that has ended early does no harm to the servers any more: they are gone, and their process ids may belong
// to others.
func TestNoStrikeAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := &fleet{}
	f.ctx, f.end = context.WithCancelCause(t.Context())
	f.close()
	struck := <-f.strike(newClock().now(), &strike{do: func(context.Context) error {
		t.Error("it struck")
		return nil
	}})
	if struck.err == nil {
		t.Error("no error tells that there was no strike")
	}
}

// An interruption is not told as a worker that is late.
func TestInterruptedFleet(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, interrupt)
	_, _, err := newFleet(ctx, job{program: []string{"sleep", "60"}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("newFleet = %v, want the interruption", err)
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
