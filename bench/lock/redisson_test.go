package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/bench/figure"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// Redisson's worker, which is built as Maven would, takes part as ours do.
func TestRedisson(t *testing.T) {
	jars, dir := testenv.Redisson(t), t.TempDir()
	target := filepath.Join(dir, "target")
	out, err := exec.CommandContext(t.Context(), "javac", "-d", filepath.Join(target, "classes"), "-cp",
		filepath.Join(jars, "*"), "redisson/src/main/java/bench/Worker.java").CombinedOutput()
	testkit.Mustf(t, errors.Join(err, os.Symlink(jars, filepath.Join(target, "lib"))), "%s", out)
	b := newBench(t, 100*time.Millisecond)
	b.only("raw redisson mutex")
	testkit.Must(t, b.findRedisson(dir, false, io.Discard))
	testWindows(t, b, map[string]string{"far": "raw"})
	testGoesOn(t, b, redissonName)
}

// Without its worker Redisson is left out, with a message; if it is named, that is an error with advice.
func TestRedissonIsLeftOut(t *testing.T) {
	var said bytes.Buffer
	o := options{rounds: 1, window: time.Second}
	testkit.Must(t, o.choose(nil, nil, "", &said))
	there := slices.ContainsFunc(o.contenders, func(c contender) bool { return c.name == redissonName })
	if there || !strings.Contains(o.leftOut, "REDISSON IS LEFT OUT") || !strings.Contains(said.String(), o.leftOut) {
		t.Errorf("without --redisson: takes part %t, says %q and %q", there, o.leftOut, said.String())
	}
	if len(contenders) == len(o.contenders) {
		t.Error("the list of all contenders has lost one")
	}
	err := o.choose(nil, []string{redissonName}, t.TempDir(), &said)
	if err == nil || !strings.Contains(err.Error(), "apt-get install") && !strings.Contains(err.Error(), "mvn -f") {
		t.Errorf("asked for by name: %v, want what is missing and how to get it", err)
	}
}

func TestGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	testGoesOn(t, newBench(t, 0), "handoff")
}

// After a section that fails, a worker releases the lock and goes on: it counts again once the counter is a number.
// On a busy machine that takes a longer window.
func testGoesOn(t *testing.T, b *bench, name string) {
	t.Helper()
	c, err := contenderOf(name)
	testkit.Must(t, err)
	server := testenv.Redis(t)
	for window := time.Second; ; window *= 2 {
		jobs := b.jobs(scenario{kind: kindHot, processes: 1, goroutines: 2, window: window}, c, reached{url: b.server.URL})
		f, _, err := newFleet(t.Context(), jobs...)
		testkit.Must(t, err)
		spoil := func(ctx context.Context) error {
			counter := jobs[0].Prefix + "{counter}"
			err := server.Client.Set(ctx, counter, "no number", 0).Err()
			for range 40 { // a section that has read the counter before may write it after
				err = errors.Join(err, pause(ctx, 5*time.Millisecond), server.Client.Set(ctx, counter, "no number", 0).Err())
			}
			return errors.Join(err, server.Client.Set(ctx, counter, 1000, 0).Err())
		}
		reports, cpu, err := f.run(window, &strike{after: window / 4, do: spoil})
		f.close()
		testkit.Must(t, err)
		r := reports[0]
		after := slices.ContainsFunc(r.Sections, func(s section) bool { return s.Acquired > cpu.struck })
		if r.Errors > 0 && after && len(r.Done) == 2 {
			return
		}
		if window >= 8*time.Second {
			t.Fatalf("%s: %d errors, counts of %d goroutines, sections after them: %t; want some errors, 2 and more sections",
				name, r.Errors, len(r.Done), after)
		}
	}
}

func TestRedissonVersion(t *testing.T) {
	dir := t.TempDir()
	for _, jar := range []string{"redisson-3.52.0.jar", "redisson-spring-data-1.jar", "netty-4.jar"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, jar), nil, 0o600))
	}
	classes := "classes" + string(os.PathListSeparator) + filepath.Join(dir, "*")
	for want, worker := range map[string][]string{"3.52.0": {"java", "-cp", classes, "bench.Worker"}, "": nil} {
		testkit.Is(t, redissonVersion(worker), want, "redissonVersion(%q)", worker)
	}
}

// CPU time is divided by the acquisitions of the window; if either is missing, the cost per acquisition is not known.
func TestCharge(t *testing.T) {
	m := figure.Measures{mRate: 50}
	charge(m, spent{clients: 30_000, server: 10_000, others: 0.25}, 2*time.Second)
	if m[mClientCPU] != 300 || m[mServerCPU] != 100 || m[mOthers] != 0.25 {
		t.Errorf("charge = %v, want 300 and 100 us per acquisition, others 0.25", m)
	}
	for name, m := range map[string]figure.Measures{"no reading": {mRate: 50}, "no acquisition": {mRate: 0}} {
		cpu := spent{clients: figure.None, server: figure.None, others: figure.None}
		if name == "no acquisition" {
			cpu = spent{clients: 30_000, server: 10_000}
		}
		if charge(m, cpu, time.Second); m[mClientCPU].Known() || m[mServerCPU].Known() {
			t.Errorf("%s: %v, want unknown", name, m)
		}
	}
}
