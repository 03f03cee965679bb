package rig

import (
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

	"lastitem/target"
)

// reachWithin is how long a process may take to stop or end after a signal, on a busy machine.
const reachWithin = 5 * time.Second

func outOfReach(format string, args ...any) error {
	return fmt.Errorf("%w (%s)", target.ErrOutOfReach, fmt.Sprintf(format, args...))
}

// inReach returns an error if a process outside the group that gets the signals listens on the replica's port. Our own
// service is known not to.
func (a *Actor) inReach() error {
	if !a.lane.Service.Waits {
		return nil
	}
	for _, pid := range listeners(a.run.Addr) {
		if group, err := syscall.Getpgid(pid); err == nil && group != a.run.PID {
			return outOfReach("process %d listens on %s, and is not in the process group %d of the command", pid, a.run.Addr,
				a.run.PID)
		}
	}
	return nil
}

// ended returns an error if the port of a killed replica still takes connections.
func (a *Actor) ended(ctx context.Context, within time.Duration) error {
	return obeyed(ctx, within, "the port to close", func() bool {
		return !a.accepts()
	}, "after SIGKILL "+a.run.Addr+" still takes connections")
}

// obeyed waits until a signal has had its effect; if that takes too long, the signal does not reach the service.
func obeyed(ctx context.Context, within time.Duration, what string, is func() bool, otherwise string) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := until(limited, what, is)
	if err != nil && ctx.Err() == nil {
		return outOfReach("%s", otherwise)
	}
	return err
}

// standsStill returns an error if a stopped replica goes on: a process that listens on its port runs or, where these
// cannot be seen, it answers.
func (a *Actor) standsStill(ctx context.Context) error {
	pids := listeners(a.run.Addr)
	for _, pid := range pids {
		if !allStopped(pid, stoppedOrEnded) {
			return outOfReach("after SIGSTOP process %d, which listens on %s, runs", pid, a.run.Addr)
		}
	}
	if pids != nil || a.lane.Service.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*turnedAwayWithin)
	defer cancel()
	if a.lane.Service.Ready(ctx, a.run.Addr) == nil {
		return outOfReach("after SIGSTOP %s still answers", a.run.Addr)
	}
	return nil
}

// accepts says whether the replica's port takes connections.
func (a *Actor) accepts() bool {
	conn, err := net.DialTimeout("tcp", a.run.Addr, turnedAwayWithin)
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
