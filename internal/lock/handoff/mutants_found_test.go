//go:build mutants

package handoff

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// TestMutantsAreFound compiles the tests with each mutant and runs those that must fail. Without a mutant they pass.
func TestMutantsAreFound(t *testing.T) {
	own, err := os.Executable()
	testkit.Must(t, err)
	seen := map[string]bool{}
	for _, m := range mutants {
		for _, name := range each(m.kills) {
			if seen[name] {
				continue
			}
			seen[name] = true
			if out, err := runTest(t, own, name); err != nil || strings.Contains(out, "no tests to run") {
				t.Fatalf("%s without a mutant: %v\n%s", name, err, out)
			}
		}
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			tests := filepath.Join(t.TempDir(), "tests")
			// Without symbols, which take most of the time.
			overlay := testenv.Overlay(t, ".", m.edits())
			compile := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags", "-s -w", "-overlay", overlay, "-o",
				tests, ".")
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("it does not compile: %v\n%s", err, out)
			}
			for _, name := range each(m.kills) {
				switch out, err := runTest(t, tests, name); {
				case err == nil:
					t.Errorf("%s passes", name)
				case !failed.MatchString(out) || strings.Contains(out, "test timed out"):
					t.Errorf("%s: %v, want a failure\n%s", name, err, out)
				default:
					t.Logf("%s: %s", name, strings.TrimSpace(failed.FindString(out)))
				}
			}
		})
	}
}

// failed is the first message of a test that has failed, or panicked.
var failed = regexp.MustCompile(`(?m)^( +[a-z_]+_test\.go:\d+: .*|panic: .*)$`)

// runTest runs a test of a binary, for two minutes at most.
func runTest(t *testing.T, tests, name string) (string, error) {
	t.Helper()
	top, sub, _ := strings.Cut(name, "/")
	cmd := exec.CommandContext(t.Context(), tests, "-test.timeout", "2m", "-test.run", "^"+top+"$/"+sub)
	cmd.Dir = t.TempDir() // rapid writes there what has failed
	out, err := cmd.CombinedOutput()
	return string(out), err
}
