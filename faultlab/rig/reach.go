package rig

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
	"lastitem/target"
)

// reachWithin is how long a process may take to stop or end after a signal, on a busy machine.
const reachWithin = 5 * time.Second

func outOfReach(format string, args ...any) error {
	return fmt.Errorf("%w (%s)", target.ErrOutOfReach, fmt.Sprintf(format, args...))
}

// inReach returns an error if a process outside the group that gets the signals listens on the replica's port.
func inReach(run *stack.Running) error {
	for _, pid := range listeners(run.Addr) {
		if group, err := syscall.Getpgid(pid); err == nil && group != run.PID {
			return outOfReach("process %d listens on %s, and is not in the process group %d of the command", pid, run.Addr,
				run.PID)
		}
	}
	return nil
}

// ended returns an error if the port of a killed replica still takes connections.
func ended(ctx context.Context, addr string, within time.Duration) error {
	return obeyed(ctx, within, "the port to close", func() bool {
		return !accepts(addr)
	}, "after SIGKILL "+addr+" still takes connections")
}

// obeyed waits until a signal has had its effect; if that takes too long, the signal does not reach the service.
func obeyed(ctx context.Context, within time.Duration, what string, is func() bool, otherwise string) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := gear.Until(limited, what, is)
	if err != nil && ctx.Err() == nil {
		return outOfReach("%s", otherwise)
	}
	return err
}

// standsStill returns an error if a stopped replica goes on: a process that listens on its port runs or, where these
// cannot be seen, it answers.
func standsStill(ctx context.Context, addr string, ready func(context.Context, string) error) error {
	pids := listeners(addr)
	for _, pid := range pids {
		if !allStopped(pid, stoppedOrEnded) {
			return outOfReach("after SIGSTOP process %d, which listens on %s, runs", pid, addr)
		}
	}
	if pids != nil || ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*turnedAwayWithin)
	defer cancel()
	if ready(ctx, addr) == nil {
		return outOfReach("after SIGSTOP %s still answers", addr)
	}
	return nil
}

// turnedAwayWithin bounds an attempt to connect: a replica that accepts no connections may also leave the attempt
// unanswered.
const turnedAwayWithin = 50 * time.Millisecond

// accepts says whether the replica's port takes connections.
func accepts(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, turnedAwayWithin)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// listeners returns the processes that have a listening socket of a port, from /proc; nil = they cannot be seen.
func listeners(addr string) (pids []int) {
	_, said, _ := net.SplitHostPort(addr)
	port, err := strconv.ParseUint(said, 10, 16)
	if err != nil {
		return nil
	}
	var sockets []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		rows, _ := os.ReadFile(table)
		for row := range strings.Lines(string(rows)) { // number, local address, remote address, state, ..., inode
			const listening = "0A"
			f := strings.Fields(row)
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == listening {
				sockets = append(sockets, "socket:["+f[9]+"]")
			}
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && slices.Contains(sockets, to) {
			if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// showsThreads returns an error if an operating system does not show the states of a process's threads.
func showsThreads(system string) error {
	if system != "linux" {
		return fmt.Errorf("faultlab: processes are paused on Linux only: %s has no /proc that shows when all threads have "+
			"stopped", system)
	}
	return nil
}

// The states of an idle thread in /proc: T is stopped by a signal. A child may also have exited: Z is a zombie that its
// parent has not reaped, X is dead.
const (
	stopped        = "T"
	stoppedOrEnded = "TZX"
)

// allStopped reports whether every thread of a process is in one of the states, and every thread of its children
// stopped or ended.
func allStopped(pid int, states string) bool {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return false
	}
	for _, t := range threads {
		children, _ := os.ReadFile(tasks + "/" + t.Name() + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			if id, err := strconv.Atoi(child); err == nil && !allStopped(id, stoppedOrEnded) {
				return false
			}
		}
		line, err := os.ReadFile(tasks + "/" + t.Name() + "/stat")
		if err != nil {
			return false
		}
		after := line[bytes.LastIndexByte(line, ')')+1:]
		if state, _, _ := strings.Cut(strings.TrimSpace(string(after)), " "); state == "" ||
			!strings.Contains(states, state) {
			return false
		}
	}
	return len(threads) > 0
}
