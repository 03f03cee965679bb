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

// Unchanged skeletons of either kind are complete and compile.
func TestSkeletonCompiles(t *testing.T) {
	t.Parallel()
	if out, err := withSkeletons(t, "build"); err != nil {
		t.Errorf("go build with the skeletons: %v\n%s", err, out)
	}
}

// They pass the conformance suite, so their authors start from passing tests. One that holds needs MySQL.
func TestSkeletonIsAMode(t *testing.T) {
	testenv.Slow(t, "compiles the tests of package stock")
	t.Parallel()
	testenv.Installed(t, "redis", "mysql")
	out, err := withSkeletons(t, "test", "-short=false", "-vet=off", "-count=1", "-v", "-run",
		"^TestModesAreValid$|^TestConformance$/redis.mysql/some-")
	if err != nil || !strings.Contains(out, "/some-mode/redis/order") || !strings.Contains(out, "/some-hold/sql/order") {
		t.Errorf("go test with the skeletons: %v\n%s", err, out)
	}
}

// withSkeletons runs a go command on package stock, which has a new mode of each kind. It compiles as make does, so
// that the rest comes from the cache.
func withSkeletons(t *testing.T, command string, args ...string) (string, error) {
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
	// The files take effect as if they lay in the repository.
	overlay := map[string]map[string]string{"Replace": {}}
	for kind, name := range map[string]string{deducts: "some-mode", reserves: "some-hold"} {
		written, err := Write(dir, kind, name)
		testkit.Must(t, err)
		for _, name := range written {
			overlay["Replace"][filepath.Join(root, name)] = filepath.Join(dir, name)
		}
	}
	text, err := json.Marshal(overlay)
	testkit.Must(t, err)
	file := filepath.Join(dir, "overlay.json")
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{command, "-overlay", file, "."}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(root, "internal", "stock"), append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
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
