package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/loadtest"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// A check of a service leaves no connection open: while a stack starts, each replica is checked every 20 ms.
func TestServesLeavesNoConnection(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"modes":[]}`)
	}))
	service.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	service.Start()
	t.Cleanup(service.Close)
	for range 3 {
		if !serves(t.Context(), service.URL, nil) {
			t.Fatal("a service without modes does not serve them all")
		}
	}
	testkit.Until(t, "no connection is left", func() bool { return open.Load() == 0 })
}

// stackJSON is what 'shop up -o json' prints.
type stackJSON struct {
	URL      string          `json:"url"`
	Token    string          `json:"token"`
	Console  string          `json:"console"`
	Logs     string          `json:"logs"`
	Balancer stack.Service   `json:"balancer"`
	Redis    stack.Service   `json:"redis"`
	SQL      stack.Service   `json:"sql"`
	Kafka    stack.Service   `json:"kafka"`
	Replicas []stack.Service `json:"replicas"`
}

// startUp runs 'shop up' on embedded backends and a free port and waits until it has printed its addresses.
func startUp(t *testing.T, shop string, more ...string) (*exec.Cmd, stackJSON) {
	t.Helper()
	return startUpIn(t, nil, shop, more...)
}

// startUpIn is startUp with further environment variables.
func startUpIn(t *testing.T, env []string, shop string, more ...string) (*exec.Cmd, stackJSON) {
	t.Helper()
	cmd := exec.Command(shop, append([]string{"up", "--port", "0", "--replicas", "2", "--backend", "embedded", "-o",
		"json"}, more...)...)
	cmd.Env = append(append(os.Environ(), "SHOP_ADMIN_TOKEN=t0ken"), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var s stackJSON
	if err := json.NewDecoder(out).Decode(&s); err != nil {
		_ = cmd.Wait()
		t.Fatalf("shop up: %v\n%s", err, &said)
	}
	return cmd, s
}

// wantGone waits until no process, port or directory of the stack is left.
func wantGone(t *testing.T, s stackJSON) {
	t.Helper()
	left := func() (left []string) {
		for _, sv := range append([]stack.Service{s.Balancer, s.Redis, s.Kafka}, s.Replicas...) {
			if !errors.Is(syscall.Kill(sv.PID, 0), syscall.ESRCH) {
				left = append(left, sv.Name)
			}
			if conn, err := net.Dial("tcp", sv.Addr); err == nil {
				_ = conn.Close()
				left = append(left, sv.Addr)
			}
		}
		if _, err := os.Stat(s.Logs); err == nil {
			left = append(left, s.Logs)
		}
		return left
	}
	testkit.NoError(t, "nothing is left", func() error {
		if left := left(); left != nil {
			return fmt.Errorf("there is %v", left)
		}
		return nil
	})
}

// TestUp starts a stack, uses its parts, and ends it by Ctrl-C.
func TestUp(t *testing.T) {
	t.Parallel()
	shop := linked(t)
	cmd, s := startUp(t, shop)
	if s.Token != "t0ken" || len(s.Replicas) != 2 || !strings.HasPrefix(s.SQL.URL, "sqlite:") {
		t.Errorf("shop up printed %+v", s)
	}
	if why, want := whyNot(t, s.URL, "etcd"), "there is no embedded etcd: leave out --backend embedded, or give your "+
		"own with 'shop up --etcd'"; !strings.Contains(why, want) {
		t.Errorf("GET /modes/etcd says %q, want %q", why, want)
	}
	if code, out, errOut := commandLine(t.Context(), newRoot("en"), "stock", "101", "3", "--url", s.URL, "--token",
		"t0ken"); code != cli.ExitOK || !strings.Contains(out, `"redis":3`) {
		t.Errorf("shop stock 101 3 by the balancer: exit %d, %s%s", code, out, errOut)
	}
	for _, c := range [][2]string{{"+2", `"redis":5`}, {"-4", `"redis":1`}} {
		if code, out, errOut := commandLine(t.Context(), newRoot("en"), "stock", "101", c[0], "--url", s.URL, "--token",
			"t0ken", "--reason", "counted"); code != cli.ExitOK || !strings.Contains(out, c[1]) {
			t.Errorf("shop stock 101 %s: exit %d, %s%s, want %s", c[0], code, out, errOut, c[1])
		}
	}
	if res, body := testkit.Ask(t, "GET", s.URL+"/products/101", nil); res.Header.Get("X-Replica") == "" {
		t.Errorf("GET product by the balancer = %s %s, want a replica's name", res.Status, body)
	}
	testUpVersion(t, shop, s)
	testUpRefuses(t, shop, s)
	testUpConsole(t, s)
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("shop up after Ctrl-C: %v, want exit 0", err)
	}
	wantGone(t, s)
}

// whyNot asks a shop why a mode is not available.
func whyNot(t *testing.T, url, mode string) string {
	t.Helper()
	control, err := loadtest.NewControl(url, "")
	testkit.Must(t, err)
	defer control.Close()
	all, err := control.Modes(t.Context())
	i := slices.IndexFunc(all, func(m api.Mode) bool { return m.Name == mode })
	if err != nil || i < 0 {
		t.Fatalf("%d modes, none of the name %s: %v", len(all), mode, err)
	}
	return all[i].Why
}

// TestRolling is make rolling in short, from this binary to itself: nothing is lost behind the built-in balancer
// either.
func TestRolling(t *testing.T) {
	testenv.Slow(t, "replaces each replica under load")
	t.Parallel()
	out, code := runShop(t, program(t), "rolling", "--backend", "embedded", "--rate", "20", "--mode",
		"sql-atomic,redis-lua")
	if code != cli.ExitOK || !strings.Contains(out, "EXACT: nothing was lost") {
		t.Errorf("shop rolling: exit %d\n%s", code, out)
	}
}

// testUpVersion: a replica is of the version that the program prints.
func testUpVersion(t *testing.T, shop string, s stackJSON) {
	t.Helper()
	said, _, _ := shopSays(t, shop, "version")
	_, page := testkit.Ask(t, "GET", s.Replicas[0].URL+"/metrics", nil)
	want := `version="` + strings.TrimSpace(strings.TrimPrefix(said, "shop version ")) + `"} 1`
	if !strings.Contains(page, want) {
		t.Errorf("no shop_build_info with %s in\n%s", want, page)
	}
}

// TestUpRestarts kills a replica and the balancer; both come back on their addresses. When 'shop up' itself is killed,
// nothing is left.
func TestUpRestarts(t *testing.T) {
	testenv.Slow(t, "waits until killed parts have started again")
	t.Parallel()
	cmd, s := startUp(t, program(t))
	for _, part := range []stack.Service{s.Replicas[0], s.Balancer} {
		testkit.Must(t, syscall.Kill(part.PID, syscall.SIGKILL))
		testkit.NoError(t, part.Name+" is back", func() error {
			res, err := http.Get(part.URL + "/healthz")
			if err == nil {
				_ = res.Body.Close()
			}
			return err
		})
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	wantGone(t, s)
}

// TestUpNoRestart kills a replica of a stack that is not to start it again: the command ends, says which part died, and
// leaves nothing.
func TestUpNoRestart(t *testing.T) {
	testenv.Slow(t, "has a stack of its own to kill a part of")
	t.Parallel()
	cmd, s := startUp(t, program(t), "--no-restart")
	testkit.Must(t, syscall.Kill(s.Replicas[1].PID, syscall.SIGKILL))
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	err := cmd.Wait()
	if said := fmt.Sprint(cmd.Stderr); cmd.ProcessState.ExitCode() != cli.ExitFailed ||
		!strings.Contains(said, "replica 2 has died: signal: killed") ||
		strings.Contains(said, "starting it again") {
		t.Errorf("shop up --no-restart, whose replica 2 was killed: %v, want exit %d and that it died\n%s", err,
			cli.ExitFailed, said)
	}
	wantGone(t, s)
}

// TestUpEndsWell ends a stack right after a deduction: its replica, which would drain for minutes on SIGTERM, ends by
// itself, and so sends the trace that waits.
func TestUpEndsWell(t *testing.T) {
	t.Parallel()
	var batches atomic.Int64
	collector := testkit.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		batches.Add(1)
	}))
	cmd, s := startUpIn(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=600000",
		"SHOP_DRAIN=10m"}, program(t), "--no-console")
	res, body := testkit.Ask(t, "POST", s.URL+"/deduct_stock/sql-atomic?product_id=101", nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("POST /deduct_stock/sql-atomic = %s %s", res.Status, body)
	}
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("shop up after Ctrl-C: %v, want exit 0", err)
	}
	if n := batches.Load(); n != 1 {
		t.Errorf("%d batches of traces came, want that of the one deduction", n)
	}
	wantGone(t, s)
}

// testUpRefuses: a second stack cannot listen where the first does. [TestUsage] has what is refused before.
func testUpRefuses(t *testing.T, shop string, s stackJSON) {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Balancer.Addr)
	_, said, code := shopSays(t, shop, "up", "--backend", "embedded", "--port", port)
	if code != cli.ExitFailed || !strings.Contains(said, "choose another with --port") {
		t.Errorf("shop up on a port that is taken: exit %d, %s\nwant exit %d, and what to do", code, said, cli.ExitFailed)
	}
}

// TestWithStack: with-stack gives a command servers, ends as it does, and passes signals on.
func TestWithStack(t *testing.T) {
	t.Parallel()
	shop := program(t)
	t.Run("code", func(t *testing.T) { testWithStackCode(t, shop) })
	t.Run("signal", func(t *testing.T) { testWithStackSignal(t, shop) })
	t.Run("require", func(t *testing.T) { testWithStackRequire(t, shop) })
}

func testWithStackCode(t *testing.T, shop string) {
	t.Parallel()
	out, code := runShop(t, shop, "with-stack", "--", "sh", "-c",
		`[ -n "$SHOP_TEST_REDIS" ] && echo redis; [ -n "$SHOP_TEST_SQL" ] && echo mysql; exit 7`)
	if code != 7 {
		t.Errorf("exit code %d, want that of the command, 7", code)
	}
	for _, backend := range []string{stack.Redis, stack.MySQL} {
		_, err := stack.Find(backend)
		if got := strings.Contains(out, backend); got != (err == nil) {
			t.Errorf("%s in the command's environment: %t, want %t", backend, got, err == nil)
		}
	}
}

func testWithStackSignal(t *testing.T, shop string) {
	t.Parallel()
	// Given servers: this is about signals. 'wait' lets the shell run its trap at once.
	cmd := exec.CommandContext(t.Context(), shop, "with-stack", "--", "sh", "-c",
		`trap 'kill $! ; exit 9' TERM; sleep 60 & echo $$; wait`)
	cmd.Env = append(os.Environ(), envTestRedis+"=redis://127.0.0.1:1", envTestSQL+"=sqlite:/nowhere")
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	pid := make([]byte, 16)
	n, err := out.Read(pid)
	testkit.Must(t, err)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code after SIGTERM = %d, want that of the command's trap, 9", code)
	}
	if child, err := strconv.Atoi(strings.TrimSpace(string(pid[:n]))); err != nil ||
		!errors.Is(syscall.Kill(child, 0), syscall.ESRCH) {
		t.Errorf("the command (%d, %v) is still there", child, err)
	}
}

func testWithStackRequire(t *testing.T, shop string) {
	t.Parallel()
	wantRefused(t, newRoot("en"), "--require oracle", "with-stack", "--require", "redis,oracle", "--", "true")
	if _, err := os.Stat("/usr/local/bin/redis-server"); err == nil {
		return // it is found without a PATH, so nothing can be missing here
	}
	cmd := exec.CommandContext(t.Context(), shop, "with-stack", "--require", "redis", "--", "/bin/true")
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != cli.ExitFailed || !strings.Contains(string(out), "apt-get install redis-server") {
		t.Errorf("--require redis without it: exit %d\n%s", cmd.ProcessState.ExitCode(), out)
	}
}
