package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv/need"
)

// The committed matrix covers every mode and fault, and says what the modes claim. A service that the lab does not run is not in it.
func TestMatrixSaysWhatIsClaimed(t *testing.T) {
	t.Parallel()
	matrix, err := faultlab.Committed()
	if err != nil {
		t.Fatal(err)
	}
	modes, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, m := range modes {
		if faultlab.LeftOut(m) != "" {
			continue
		}
		for _, store := range m.Stores {
			for _, f := range fault.All {
				claim := m.Claims[store][f.Name]
				if claim == "" || claim == "–" {
					continue
				}
				cells++
				c, there := matrix.Cell(m.Name, store, f.Name)
				switch {
				case !there:
					t.Errorf("%s %s %s is not in matrix.json: run 'shop lab --all --update faultlab/matrix.json'", m.Name, store, f.Name)
				case !c.Sampled && c.Found != claim || c.Claim != claim || len(c.Wrong) > 0:
					t.Errorf("%s %s %s: matrix.json has %q, wrong %q, %d left out; the mode claims %q", m.Name, store, f.Name, c.Found, c.Wrong, c.Left, claim)
				case c.Tried == 0:
					t.Errorf("%s %s %s: nothing was tried", m.Name, store, f.Name)
				}
			}
		}
	}
	if len(matrix.Cells) != cells {
		t.Errorf("matrix.json has %d cells, %d are claimed", len(matrix.Cells), cells)
	}
}

// needLab skips the test where the lab's servers are missing.
func needLab(t *testing.T) {
	t.Helper()
	for _, server := range []string{localstack.Redis, localstack.MySQL} {
		if _, err := localstack.Find(server); err != nil {
			need.Missing(t, server, err)
		}
	}
}

// testLab: the lab breaks lua-lock without a hint, does not break lease-seq, and plays a story again from its file.
func testLab(t *testing.T, shop string) {
	needLab(t)
	story := filepath.Join(t.TempDir(), "story.json")
	out, code := runShop(t, shop, "lab", "--mode", "lua-lock", "--store", "sql", "--fault", "pause", "--all", "--lanes", "4", "--json")
	if code != exitOK || !strings.Contains(out, `"found": "O"`) {
		t.Fatalf("lua-lock under pause: exit %d, want %d and O:\n%s", code, exitOK, out)
	}
	if err := os.WriteFile(story, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = runShop(t, shop, "lab", "--replay", story, "--times", "5", "--lanes", "4")
	if code != exitOK || !strings.Contains(out, "O 5/5") {
		t.Errorf("replay: exit %d, want %d and O 5/5:\n%s", code, exitOK, out)
	}
	out, code = runShop(t, shop, "lab", "--mode", "lease-seq", "--fault", "replicas,pause", "--all", "--lanes", "4")
	if code != exitOK || !strings.Contains(out, "Every outcome is as claimed.") {
		t.Errorf("lease-seq: exit %d, want %d:\n%s", code, exitOK, out)
	}
}

// runShop runs a command of the shop to its end, and returns what it printed, without its progress, and its exit code.
func runShop(t *testing.T, shop string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shop, args...)
	var progress bytes.Buffer
	cmd.Stderr = &progress
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("shop %q: %v", args, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shop %q:\n%s", args, progress.String())
		}
	})
	return string(text), cmd.ProcessState.ExitCode()
}
