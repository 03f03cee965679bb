package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv/need"
)

// TestMain lets a copy of the test binary be the program, see [program], or the embedded broker of the traces.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "shop" || len(os.Args) > 1 && os.Args[1] == "embedded-kafka" {
		main()
	}
	_ = os.Setenv("LC_ALL", "C") // the texts that the tests look for are English; the processes that they start inherit it
	code := m.Run()
	closeChromium()
	os.Exit(code)
}

// program returns the path of a shop for processes of its own. In the first tier only [TestUp] starts any.
func program(t *testing.T) string {
	t.Helper()
	need.NotQuick(t, "processes of the program")
	return linked(t)
}

// linked gives the test binary the name shop, under which it is the program: nothing is built. The path is the test's
// own, so that it can tell its processes from those of others.
func linked(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shop := filepath.Join(t.TempDir(), "shop")
	if err := os.Link(self, shop); err != nil {
		t.Fatal(err)
	}
	return shop
}

// runShop runs a command of the shop to its end, and returns what it printed, without its progress, and its exit code.
func runShop(t *testing.T, shop string, args ...string) (out string, code int) {
	t.Helper()
	out, errOut, code := shopSays(t, shop, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shop %q:\n%s", args, errOut)
		}
	})
	return out, code
}

// shopSays is runShop with what the command said on stderr.
func shopSays(t *testing.T, shop string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var printed, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), shop, args...)
	cmd.Stdout, cmd.Stderr = &printed, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("shop %q: %v", args, err)
	}
	return printed.String(), said.String(), cmd.ProcessState.ExitCode()
}

// startStack starts a stack of the program, which ends with the test.
func startStack(t *testing.T, o localstack.Options) *localstack.Stack {
	t.Helper()
	o.Binary, o.Log = program(t), t.Logf
	stack, err := localstack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return stack
}
