package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/testkit"
)

// build returns a program that writes the result of a bench-lock run, or fails.
func build(t *testing.T, rate string) string {
	t.Helper()
	script := "#!/bin/sh\nwhile [ \"$1\" != -json ]; do shift; done\n" +
		`echo '{"scenarios":[{"name":"hot","results":[{"contender":"fair","median":{"acquisitions_per_s":` + rate +
		`,"wait_p99_ms":null}}]}]}' >"$2"`
	if rate == "" {
		script = "#!/bin/sh\necho no redis-server >&2\nexit 1"
	}
	path := filepath.Join(t.TempDir(), "bench-lock")
	testkit.Must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"-old", build(t, "100"), "-new", build(t, "250.5"), "-rounds", "2"}, io.Discard)
	testkit.Must(t, err)
	testkit.Must(t, run(t.Context(), o, &out, io.Discard))
	line := func(build, rate string) string {
		return "Benchmark/scenario=hot/lock=fair/build=" + build + " 1 " + rate + " acquisitions_per_s\n"
	}
	first, second := line("old", "100"), line("new", "250.5")
	if want := first + second + second + first; out.String() != want {
		t.Errorf("got\n%swant, with the builds in turn and without the unknown wait,\n%s", out.String(), want)
	}
}

func TestErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"want -old and -new": {"-old", "x"},
		"-rounds 0":          {"-old", "x", "-new", "y", "-rounds", "0"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	o, err := parse([]string{"-old", build(t, "1"), "-new", build(t, "")}, io.Discard)
	testkit.Must(t, err)
	if err := run(t.Context(), o, io.Discard, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "no redis-server") {
		t.Errorf("a build that fails: %v, want what it said", err)
	}
}
