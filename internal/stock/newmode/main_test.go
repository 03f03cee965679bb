package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// An unchanged skeleton of either kind is complete and compiles.
func TestSkeletonCompiles(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{deducts, reserves} {
		if out, err := withSkeleton(t, kind)("build"); err != nil {
			t.Errorf("go build with the skeleton that %s: %v\n%s", kind, err, out)
		}
	}
}

// It passes the conformance suite, so its author starts from passing tests. One that holds needs MySQL.
func TestSkeletonIsAMode(t *testing.T) {
	testenv.Slow(t, "compiles the tests of package stock")
	t.Parallel()
	testenv.Installed(t, "redis", "mysql")
	for kind, at := range map[string][3]string{
		deducts:  {"-short", "miniredis.*", "some-mode/redis/order"},
		reserves: {"-short=false", "redis.mysql", "some-mode/sql/order"},
	} {
		out, err := withSkeleton(t, kind)("test", at[0], "-count=1", "-v", "-run",
			"^TestModesAreValid$|^TestConformance$/"+at[1]+"/some-mode")
		if err != nil || !strings.Contains(out, at[2]) {
			t.Errorf("go test with the skeleton that %s: %v\n%s", kind, err, out)
		}
	}
}

// withSkeleton writes a mode of a kind, and returns the go command on package stock with it.
func withSkeleton(t *testing.T, kind string) func(command string, args ...string) (string, error) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	testkit.Must(t, err)
	dir := t.TempDir()
	for _, sub := range []string{"internal/stock/doc", "say/text", "docs/modes"} {
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
	return func(command string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{command, "-overlay", file, "."}, args...)...)
		cmd.Dir = filepath.Join(root, "internal", "stock")
		out, err := cmd.CombinedOutput()
		return string(out), err
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
