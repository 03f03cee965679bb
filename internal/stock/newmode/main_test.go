package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/testkit"
	"lastitem/internal/testkit/testenv"
)

// An unchanged skeleton of either kind is complete, compiles, and passes the conformance suite (in make test-all), so
// its author starts from passing tests. One that holds needs MySQL.
func TestSkeletonIsAMode(t *testing.T) {
	t.Parallel()
	t.Run(deducts, func(t *testing.T) { testSkeleton(t, deducts, "redis", "-short", "miniredis.*") })
	t.Run(reserves, func(t *testing.T) {
		testSkeleton(t, reserves, "sql", "-short=false", "redis.mysql", "redis", "mysql")
	})
}

// testSkeleton writes a mode of a kind, compiles package stock with it, and runs the tests of that package, which may
// need servers.
func testSkeleton(t *testing.T, kind, store, short, servers string, needs ...string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	testkit.Must(t, err)
	dir := t.TempDir()
	for _, sub := range []string{"internal/stock/doc", "internal/text", "docs/modes"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for _, file := range []string{list, catalog} {
		text := testkit.Read(t, filepath.Join(root, file))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	written, err := Write(dir, kind, "some-mode")
	testkit.Must(t, err)
	// The files take effect as if they lay in the repository.
	overlay := map[string]map[string]string{"Replace": {}}
	for _, name := range written {
		overlay["Replace"][filepath.Join(root, name)] = filepath.Join(dir, name)
	}
	text, err := json.Marshal(overlay)
	testkit.Must(t, err)
	file := filepath.Join(dir, "overlay.json")
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
		cmd.Dir = filepath.Join(root, "internal", "stock")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("build", "-overlay", file); err != nil {
		t.Fatalf("go build with the skeleton: %v\n%s", err, out)
	}
	testenv.Slow(t, "compiles the tests of package stock")
	testenv.Installed(t, needs...)
	out, err := run("test", short, "-overlay", file, "-count=1", "-v", "-run",
		"^TestModesAreValid$|^TestConformance$/"+servers+"/some-mode")
	if err != nil || !strings.Contains(out, "some-mode/"+store+"/order") {
		t.Errorf("go test with the skeleton: %v\n%s", err, out)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"redisWatch": "want kebab-case", "": "want kebab-case", "redis-": "want kebab-case",
		"lua-lock": "there is a mode of that name",
	} {
		if written, err := Write(t.TempDir(), deducts, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Write(%q) = %v, %v, want %q", name, written, err, want)
		}
	}
}
