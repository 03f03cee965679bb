package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/testkit/testenv"
)

// An unchanged skeleton is complete, compiles, and passes the conformance suite, so its author starts from passing
// tests.
func TestSkeletonIsAMode(t *testing.T) {
	testenv.Slow(t, "compiles the tests of package stock")
	t.Parallel()
	stock, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "stock")
	if err := os.MkdirAll(filepath.Join(dir, "doc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "..", "text"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"modes.go", filepath.Join("..", "text", "zh.json")} { // those that get a line
		text, err := os.ReadFile(filepath.Join(stock, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := Write(dir, "some-mode")
	if err != nil {
		t.Fatal(err)
	}
	// The files take effect as if they lay in the package.
	overlay := map[string]map[string]string{"Replace": {}}
	for _, name := range written {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(stock, rel)] = name
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-short", "-overlay", file, "-count=1", "-v", "-run",
		"^TestModesAreValid$|^TestConformance$/miniredis.*/some-mode", ".")
	cmd.Dir = stock
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "some-mode/redis/order") {
		t.Errorf("go test with the skeleton: %v\n%s", err, out)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"redisWatch": "want kebab-case", "": "want kebab-case", "redis-": "want kebab-case",
		"lua-lock": "there is a mode of that name",
	} {
		if written, err := Write(t.TempDir(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Write(%q) = %v, %v, want %q", name, written, err, want)
		}
	}
}
