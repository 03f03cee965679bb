//go:build mutants

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit/testenv"
)

// TestMutants builds a shop for each defect and has the lab explore the cell that the defect is about.
func TestMutants(t *testing.T) {
	testenv.Installed(t, stack.Redis, stack.MySQL)
	for _, m := range allMutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.test != "" {
				mustFail(t, m)
			}
			if m.mode == "" {
				return
			}
			shop := buildMutant(t, m.edits)
			args := []string{"lab", "--mode", m.mode, "--store", m.store, "--fault", m.fault, "--all", "-o", "json"}
			if m.pairs {
				args = append(args, "--pairs")
			}
			out, code := runShop(t, shop, args...)
			var res struct {
				Cells []struct {
					Found string `json:"found"`
				} `json:"cells"`
			}
			if err := json.Unmarshal([]byte(out), &res); err != nil || len(res.Cells) != 1 {
				t.Fatalf("exit %d, %v:\n%s", code, err, out)
			}
			if found := res.Cells[0].Found; code != cli.ExitFailed || !strings.ContainsAny(found, m.letters) {
				t.Errorf("%s %s: exit %d, found %q; want %d and one of %q", m.mode, m.fault, code, found, cli.ExitFailed, m.letters)
			}
		})
	}
}

// mustFail runs a test of the edited sources.
func mustFail(t *testing.T, m mutant) {
	t.Helper()
	root := filepath.Join("..", "..")
	pkg, test, _ := strings.Cut(m.test, " ")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", testenv.Overlay(t, root, m.edits), "-run",
		"^"+test+"$", pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+test) {
		t.Errorf("%s does not find it: %v\n%s", m.test, err, out)
	}
}

// buildMutant builds the shop with the edits.
func buildMutant(t *testing.T, edits []testenv.Edit) string {
	t.Helper()
	shop := filepath.Join(t.TempDir(), "shop")
	overlay := testenv.Overlay(t, filepath.Join("..", ".."), edits)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", shop,
		".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return shop
}
