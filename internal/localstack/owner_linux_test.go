package localstack

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// strangersPort says whether a process outside a session listens on a loopback port: another stack on this machine may have been given the
// port as soon as it was free. A stack's processes are in the session of its keeper, whose number outlives the keeper.
func strangersPort(addr string, session int) bool {
	for _, pid := range listeners(addr) {
		if sid, err := sessionOf(pid); err == nil && sid != session {
			return true
		}
	}
	return false
}

// heldBy describes the processes that listen on a port: " (process 7, redis-server)".
func heldBy(addr string) string {
	var all strings.Builder
	for _, pid := range listeners(addr) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		fmt.Fprintf(&all, " (process %d, %s)", pid, strings.TrimSpace(string(name)))
	}
	return all.String()
}

// listeners returns the processes that listen on a port.
func listeners(addr string) []int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	var pids []int
	for _, inode := range listening(port) {
		pids = append(pids, holders(inode)...)
	}
	return pids
}

// listening returns the inodes of the sockets that listen on a port, as /proc/net/tcp has them.
func listening(port string) []string {
	n, err := strconv.Atoi(port)
	text, failed := os.ReadFile("/proc/net/tcp")
	if err != nil || failed != nil {
		return nil
	}
	var inodes []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // sl, local address, remote address, state, queues, timer, retransmits, uid, timeout, inode
		if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
			inodes = append(inodes, f[9])
		}
	}
	return inodes
}

// holders returns the processes that have a socket open.
func holders(inode string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	var pids []int
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == "socket:["+inode+"]" {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func sessionOf(pid int) (int, error) {
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sid), nil
}

// A port of this process is a stranger's to every other session, and its own to its session; a free port is nobody's.
func TestStrangersPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sid, err := sessionOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if strangersPort(addr, sid) || !strangersPort(addr, sid+1) {
		t.Errorf("%s%s: its own session's: %t, another session's: %t; want false, true", addr, heldBy(addr), strangersPort(addr, sid), strangersPort(addr, sid+1))
	}
	if _ = l.Close(); strangersPort(addr, sid+1) {
		t.Errorf("%s is free, and a stranger's", addr)
	}
}
