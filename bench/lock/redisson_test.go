package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// buildRedisson builds Redisson's worker in a directory, as Maven would; the jars are those of the other tests.
func buildRedisson(dir string) (string, error) {
	output := func(name string, args ...string) (string, error) {
		var said bytes.Buffer
		cmd := exec.Command(name, args...)
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(said.Bytes()))
		}
		return strings.TrimSpace(string(out)), err
	}
	jars, err := output("../../scripts/real-redisson")
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, "target")
	_, err = output("javac", "-d", filepath.Join(target, "classes"), "-cp", filepath.Join(jars, "*"),
		"redisson/src/main/java/bench/Worker.java")
	return dir, errors.Join(err, os.Symlink(jars, filepath.Join(target, "lib")))
}

// Without its worker Redisson is left out, with a message; if it is named, that is an error with advice.
func TestRedissonIsLeftOut(t *testing.T) {
	var said bytes.Buffer
	o, err := parse(nil, &said)
	testkit.Must(t, err)
	there := slices.ContainsFunc(o.contenders, func(c contender) bool { return c.name == redissonName })
	if there || !strings.Contains(o.leftOut, "REDISSON IS LEFT OUT") || !strings.Contains(said.String(), o.leftOut) {
		t.Errorf("without -redisson: takes part %t, says %q and %q", there, o.leftOut, said.String())
	}
	if len(contenders) == len(o.contenders) {
		t.Error("the list of all contenders has lost one")
	}
	_, err = parse([]string{"-contender", redissonName, "-redisson", t.TempDir()}, &said)
	if err == nil || !strings.Contains(err.Error(), "apt-get install") && !strings.Contains(err.Error(), "mvn -f") {
		t.Errorf("asked for by name: %v, want what is missing and how to get it", err)
	}
}

// After a section that fails, Redisson's worker and ours release the lock and go on: both count again once the counter
// is a number.
func TestRedissonGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	if b.leftOut != "" {
		testkit.Missing(t, redissonName, errors.New(b.leftOut))
	}
	server := testenv.Redis(t)
	for _, name := range []string{redissonName, "handoff"} {
		c, err := contenderOf(name)
		testkit.Must(t, err)
		jobs := b.jobs(scenario{kind: kindHot, processes: 1, goroutines: 2, window: 8 * time.Second}, c,
			reached{url: b.server.URL})
		f, _, err := newFleet(t.Context(), jobs...)
		testkit.Must(t, err)
		t.Cleanup(f.close)
		spoil := func(ctx context.Context) error {
			counter := jobs[0].Prefix + "{counter}"
			err := server.Client.Set(ctx, counter, "no number", 0).Err()
			for range 200 { // a section that has read the counter before may write it after
				err = errors.Join(err, pause(ctx, 5*time.Millisecond), server.Client.Set(ctx, counter, "no number", 0).Err())
			}
			return errors.Join(err, server.Client.Set(ctx, counter, 1000, 0).Err())
		}
		reports, cpu, err := f.run(8*time.Second, &strike{after: time.Second, do: spoil})
		testkit.Must(t, err)
		after := slices.ContainsFunc(reports[0].Sections, func(s section) bool { return s.Acquired > cpu.struck })
		if reports[0].Errors == 0 || !after || len(reports[0].Done) != 2 {
			t.Errorf("%s: %d errors, counts of %d goroutines, sections after them: %t; want some errors, 2 and more sections",
				name, reports[0].Errors, len(reports[0].Done), after)
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
