package main

import (
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lastitem/internal/cli"
	"lastitem/testkit"
)

// everyLine returns the fields msg of a log in JSON, and complains about each line that is not.
func everyLine(t *testing.T, log string) (all []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var l struct{ Level, Msg, Err string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Msg == "" {
			t.Errorf("no line of JSON: %q, %v", line, err)
		}
		all = append(all, l.Level+" "+l.Msg+" "+l.Err)
	}
	return all
}

// With SHOP_LOG_FORMAT=json the error that ends a replica is JSON too, also that of its settings.
func TestLastLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	taken := testkit.Listen(t)
	for code, args := range map[int][]string{
		cli.ExitUsage:  {"--lock-ttl", "soon"},
		cli.ExitFailed: {"--listen", taken.Addr().String(), "--sql", "sqlite:" + filepath.Join(t.TempDir(), "shop.db")},
	} {
		got, out, errOut := commandLine(t.Context(), newRoot("en"),
			append([]string{"serve", "--log-format", "json"}, args...)...)
		lines := everyLine(t, errOut)
		if got != code || out != "" || len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "ERROR shop ends ") {
			t.Errorf("serve %s: exit %d, want %d; %q%q, want the error in JSON", args, got, code, out, errOut)
		}
	}
}

// A process with too few file descriptors says so at its start, and what net/http then complains about is JSON as well.
func TestLogOfAProcessIsJSON(t *testing.T) {
	t.Parallel()
	addr, log := testkit.FreePort(t), new(testkit.Log)
	cmd := exec.Command("sh", "-c", `ulimit -n 40; exec "$0" serve`, program(t))
	cmd.Env = append(cmd.Environ(), "SHOP_LOG_FORMAT=json", "SHOP_LISTEN="+addr,
		"SHOP_SQL=sqlite:"+filepath.Join(t.TempDir(), "shop.db"))
	cmd.Stdout, cmd.Stderr = log, log
	testkit.Must(t, cmd.Start())
	testkit.Until(t, "listening", func() bool { return strings.Contains(log.String(), "listening") })
	for range 60 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	testkit.Until(t, "too many files", func() bool { return strings.Contains(log.String(), "too many open files") })
	_ = cmd.Process.Signal(syscall.SIGINT)
	testkit.Check(t, cmd.Wait())
	if all := strings.Join(everyLine(t, log.String()), "\n"); !strings.Contains(all, "WARN too few file descriptors") {
		t.Errorf("the log is %q, want a warning at its start", all)
	}
}
