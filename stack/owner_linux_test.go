package stack

import (
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
