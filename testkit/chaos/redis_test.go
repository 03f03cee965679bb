//go:build linux

package chaos_test

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/testkit"
)

// server is a redis-server of this test. It keeps nothing on disk, and can be stopped, killed and restarted on its
// address.
type server struct {
	t    *testing.T
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
	c    *redis.Client
}

// program returns the server that SHOP_PROGRAM_REDIS names, else the installed one.
func program(t *testing.T) string {
	t.Helper()
	testkit.NotQuick(t, "redis")
	path, err := exec.LookPath(cmp.Or(os.Getenv("SHOP_PROGRAM_REDIS"), "redis-server"))
	if err != nil {
		testkit.Missing(t, "redis", err)
	}
	return path
}

func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, addr: testkit.FreePort(t), dir: t.TempDir()}
	_, number, _ := net.SplitHostPort(s.addr)
	s.args = append([]string{"--port", number, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0"}, args...)
	s.c = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	t.Cleanup(func() {
		_ = s.c.Close()
		s.kill()
	})
	s.start()
	return s
}

// start starts the server, empty, and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.dir, "dump.rdb")) // a replica stores the data from its master
	s.cmd = exec.Command(program(s.t), s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(s.t, s.cmd.Start())
	testkit.NoError(s.t, s.addr+" answers", func() error { return s.c.Ping(s.t.Context()).Err() })
}

// kill ends the server by SIGKILL. It may be repeated.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
	s.cmd = nil
}

// freeze stops the server for a time.
func (s *server) freeze(d time.Duration) {
	s.signal(syscall.SIGSTOP)
	time.Sleep(d)
	s.signal(syscall.SIGCONT)
}

func (s *server) signal(sig syscall.Signal) {
	testkit.Is(s.t, s.cmd.Process.Signal(sig), nil, "%s", s.addr)
}

// do sends a command and ignores the answer, because the server may be gone.
func (s *server) do(args ...any) { _ = s.c.Do(s.t.Context(), args...).Err() }

// follow makes the server a replica, and waits until it is in sync with its master.
func (s *server) follow(master *server) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(master.addr)
	s.do("REPLICAOF", host, port)
	testkit.Until(s.t, s.addr+" has its master's data", func() bool {
		return strings.Contains(s.c.Info(s.t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// newCluster makes a cluster of three masters.
func newCluster(t *testing.T) []*server {
	t.Helper()
	const slots, n = 16384, 3
	var all []*server
	for i := range n {
		s := newServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout",
			strconv.FormatInt((10*time.Minute).Milliseconds(), 10))
		s.do("CLUSTER", "ADDSLOTSRANGE", slots*i/n, slots*(i+1)/n-1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(all[0].addr)
			s.do("CLUSTER", "MEET", host, port)
		}
		all = append(all, s)
	}
	for _, s := range all {
		testkit.Until(t, s.addr+" sees a cluster of three", func() bool {
			info := s.c.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", n))
		})
	}
	return all
}
