package stack

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"lastitem/testkit"
)

// A private PostgreSQL takes clients on loopback only, in a directory that others cannot list, and leaves neither a
// process nor a segment of shared memory behind.
func TestPostgres(t *testing.T) {
	t.Parallel()
	testkit.NotQuick(t, Postgres)
	if _, err := Find(Postgres); err != nil {
		testkit.Missing(t, Postgres, err)
	}
	s := startStack(t, Options{Only: []string{Postgres}, Schemas: []string{"lane_0"}})
	const tlsRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
	testkit.Check(t, answers(t.Context(), s.Postgres.Addr, tlsRequest, func(line []byte) bool {
		return string(line) == "N"
	}))
	if host, port, err := net.SplitHostPort(s.Postgres.Addr); err != nil || host != "127.0.0.1" {
		t.Errorf("it listens on %s:%s, %v", host, port, err)
	}
	info, err := os.Stat(s.Dir)
	testkit.Must(t, err)
	if info.Mode().Perm()&0o047 != 0 {
		t.Errorf("the private directory has the mode %o", info.Mode().Perm())
	}
	files, err := os.ReadDir(s.Dir + "/postgres/data/base")
	testkit.Must(t, err)
	testkit.Is(t, len(files), 3+2, "databases, 3 of the server's own")
	tr := partsOf(s)
	tr.PIDs["postgres"] = s.Postgres.PID
	wantCleanEnd(t, s, tr)
	segments, _ := os.ReadFile("/proc/sysvipc/shm") // key, id, mode, size, creator, ...; only Linux has it
	for line := range strings.Lines(string(segments)) {
		if f := strings.Fields(line); slices.Contains(f[min(4, len(f)):], fmt.Sprint(s.Postgres.PID)) {
			t.Errorf("a segment of shared memory is left: %s", line)
		}
	}
}
