package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lastitem/testkit"
)

// ofSession describes the living processes of a session, as /proc has them. A stack's processes are in the session of
// its keeper, whose number outlives the keeper.
func ofSession(session int) (all []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // pid (name) state ppid pgrp session ...
		pid, rest, _ := strings.Cut(string(text), " (")
		end := strings.LastIndex(rest, ") ") + 1
		if f := strings.Fields(rest[end:]); len(f) > 3 && f[0] != "Z" && f[3] == fmt.Sprint(session) {
			all = append(all, fmt.Sprintf("process %s (%s", pid, rest[:end]))
		}
	}
	return all
}

// A process is seen in its session for as long as it lives.
func TestOfSession(t *testing.T) {
	t.Parallel()
	p := exec.Command("sleep", "600")
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	testkit.Must(t, p.Start())
	session := p.Process.Pid
	if all := ofSession(session); len(all) != 1 {
		t.Errorf("processes of a session of one: %q", all)
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	if all := ofSession(session); all != nil {
		t.Errorf("processes of a session that has ended: %q", all)
	}
}

// A child that leaves its group, and even its session, does not outlive the stack.
func TestNothingLeftOutsideTheGroup(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Only: []string{}})
	file := filepath.Join(t.TempDir(), "pid")
	_, err := s.Spawn(t.Context(), Child{
		Name: "starter",
		Argv: func(string) []string {
			return []string{"sh", "-c", "setsid sh -c 'echo $$ > " + file + "; sleep 600; true' & exec sleep 600"}
		},
		Ready: func(context.Context, string) error { _, err := os.Stat(file); return err },
	})
	testkit.Must(t, err)
	var session int
	testkit.NoError(t, "the number of the process", func() error {
		text, _ := os.ReadFile(file)
		_, err := fmt.Sscan(string(text), &session)
		return err
	})
	testkit.Must(t, s.Close())
	if all := ofSession(session); all != nil {
		t.Errorf("after Close: %q", all)
	}
}
