package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
	"lastitem/target"
	"lastitem/testkit"
)

// A service may have a zombie, a child that it has not reaped. No thread of it runs, so a pause need not wait for it.
func TestPauseBesideAZombie(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "true & exec sleep 600") // sleep asks for no exit code
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testkit.Must(t, cmd.Start())
	pid := cmd.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil {
		testkit.Missing(t, "procfs", err) // a kernel without the list of a process's children
	}
	ctx := testkit.Within(t, 20*time.Second)
	err := gear.Until(ctx, "the child to end", func() bool {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return bytes.Contains(stat, []byte(") Z "))
	})
	testkit.Must(t, err)
	a := &Actor{Name: "A", service: &Service{}, run: &stack.Running{PID: pid}}
	if allStopped(pid, stopped) {
		t.Error("a process that sleeps counts as stopped")
	}
	if err := a.Pause(ctx); err != nil {
		t.Errorf("Pause() = %v, want nil: the child has ended", err)
	}
	if allStopped(pid, "Z") {
		t.Error("a process that is paused counts as ended")
	}
}

// A service that leaves the process group of its command is out of the signals' reach: at its start, after SIGSTOP and
// after SIGKILL. Here the test itself has the port.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	port := testkit.Listen(t)
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if got := listeners(port.Addr().String()); len(got) != 1 || got[0] != os.Getpid() {
		t.Fatalf("listeners() = %v, want this process, %d", got, os.Getpid())
	}
	a := &Actor{Name: "A", service: &Service{Waits: true},
		run: &stack.Running{PID: cmd.Process.Pid, Addr: port.Addr().String()}}
	for _, want := range []error{target.ErrOutOfReach, nil} {
		within := 50 * time.Millisecond
		if want == nil {
			_ = port.Close()
			within = 20 * time.Second
		}
		for name, err := range map[string]error{"start": inReach(a.run), "SIGSTOP": a.Pause(t.Context()),
			"SIGKILL": ended(t.Context(), a.run.Addr, within)} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}
