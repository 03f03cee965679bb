package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/localstack"
	"lastitem/internal/testkit/testenv"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
)

func TestDemoGivenURL(t *testing.T) {
	url := startFakeShop(t, &fakeShop{})
	file := filepath.Join(t.TempDir(), "out", "demo.json")
	code, out, errOut := commandLine(t.Context(), newDemo("en"), "--url", url, "--token", fakeToken, "--replicas", "1",
		"--mode", "noop,unsafe,lua-lock",
		"--vus", "4", "--stock", "20", "--out", file)
	if code != exitOK {
		t.Errorf("exit code %d, want %d\n%s%s", code, exitOK, out, errOut)
	}
	for _, want := range []string{"as given", "confirmed: 2 of 2 claims on one replica", "baseline: noop",
		"unit 1 was sold 30 times", "json: " + file} {
		if !strings.Contains(out, want) {
			t.Errorf("table has no %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "[2/3] unsafe ...") {
		t.Errorf("progress has no line for unsafe: %q", errOut)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c loadtest.Comparison
	if err := json.Unmarshal(text, &c); err != nil || len(c.Results) != 3 || len(c.Stack) != 1 {
		t.Errorf("JSON file: %v, %d results, stack %v; want 3 results and the stack", err, len(c.Results), c.Stack)
	}
}

// A mode that claims to break and does not is run again, as often as the plan says; a plan without a name does not
// insist.
func TestDemoInsists(t *testing.T) {
	var all sync.WaitGroup // a run waits more than it works
	for _, tt := range []struct {
		cmd   *cobra.Command
		args  []string
		tries int
	}{
		{newDemo("en"), []string{"-o", "json", "--replicas", "1"}, 5},
		{newLoadtest("en"), []string{"-o", "json"}, 0},
		{newLoadtest("en"), []string{"-o", "json", "--plan", "five", "--insist", "1"}, 2}, // of 20: see TestPlanFlags
	} {
		url := startFakeShop(t, &fakeShop{exact: true})
		all.Go(func() {
			code, out, errOut := commandLine(t.Context(), tt.cmd, append(tt.args, "--url", url, "--token", fakeToken, "--mode",
				"unsafe,lua-lock",
				"--vus", "4", "--requests", "60", "--stock", "20", "--quiet")...)
			var c loadtest.Comparison
			if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.Summaries) != 2 {
				t.Errorf("%s: JSON %v with %d summaries, want 2\n%s%s", tt.cmd.Name(), err, len(c.Summaries), out, errOut)
				return
			}
			unsafe, exact := c.Summaries[0], c.Summaries[1]
			if code != exitFailed || unsafe.Tries != tt.tries || exact.Tries != 0 {
				t.Errorf("%s: exit code %d, tries of %s %d, of %s %d, want %d, %d and 0",
					tt.cmd.Name(), code, unsafe.Mode, unsafe.Tries, exact.Mode, exact.Tries, exitFailed, tt.tries)
			}
		})
	}
	all.Wait()
}

// With --strict a mode that cannot be run is an error, told before any other is.
func TestDemoAll(t *testing.T) {
	url := startFakeShop(t, &fakeShop{deducted: func() { t.Error("a request was sent") }})
	tests := map[string][]string{
		"--strict: of 6 modes, 2 are not available:\n  etcd: etcd: i/o timeout\n  mutex-in-tx: needs mysql": {"--url", url,
			"--token", fakeToken},
		"not every mode can run here:\n  mysql: the embedded database is SQLite: leave out --backend embedded, or give a " +
			"MySQL or MariaDB with 'shop demo --sql'\n  redlock: there is no embedded redlock: leave out": {
			"--backend", "embedded",
		},
	}
	for want, args := range tests {
		code, out, errOut := commandLine(t.Context(), newDemo("en"), append(args, "--strict", "--out", "")...)
		if code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("demo --strict %v: exit code %d, %q; want %d, %q\n%s", args, code, errOut, exitFailed, want, out)
		}
	}
}

func TestClosedKeepsTheCode(t *testing.T) {
	stuck := errors.New("process did not end")
	got := closed(&exitError{code: exitInconclusive}, stuck)
	var e *exitError
	if !errors.As(got, &e) || e.code != exitInconclusive || !errors.Is(e.err, stuck) {
		t.Errorf("closed(code 3, %v) = %v, want both", stuck, got)
	}
	if got := closed(nil, nil); got != nil {
		t.Errorf("closed(nil, nil) = %v, want nil", got)
	}
	if got := closed(nil, stuck); !errors.Is(got, stuck) {
		t.Errorf("closed(nil, %v) = %v, want it", stuck, got)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := &progressLine{w: &b, lang: "en", terminal: true, lines: true, columns: 40}
	step := loadtest.Step{Index: 3, Total: 9, Mode: "mutex"}
	running := step
	running.Running, running.Elapsed = &loadtest.Progress{Phase: loadtest.Driving, Done: 0.5, Accepted: 123456,
		Refused: 98765}, time.Second
	p.step(step)
	p.last = time.Time{}
	p.step(running)
	p.step(running) // too soon
	step.Done, step.Elapsed = true, 1230*time.Millisecond
	p.step(step)
	const rewrite = "\r\x1b[K"
	want := rewrite + "[3/9] mutex" + rewrite + "[3/9] mutex 1.0s  50%  accepted 123456," + rewrite +
		"[3/9] mutex ... 1.2s\n"
	if got := b.String(); got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
}

// The line of a run has the course of its acceptances, newest last; the next run begins a new one.
func TestProgressHasACourse(t *testing.T) {
	var b bytes.Buffer
	p := &progressLine{w: &b, lang: "en", terminal: true, columns: 200}
	at := func(elapsed time.Duration, accepted int64) string {
		b.Reset()
		p.last = time.Time{}
		p.step(loadtest.Step{Index: 1, Total: 1, Mode: "mutex", Elapsed: elapsed, Running: &loadtest.Progress{
			Phase: loadtest.Driving, Elapsed: elapsed, Accepted: accepted, Done: 0.5,
		}})
		return b.String()
	}
	at(200*time.Millisecond, 100)
	at(400*time.Millisecond, 500)
	if got, want := at(600*time.Millisecond, 500),
		"mutex 0.6s  50%  ▃█· 0/s  accepted 500, refused 0"; !strings.Contains(got, want) {
		t.Errorf("progress = %q, want %q", got, want)
	}
	for i := range 40 {
		at(time.Duration(i+4)*200*time.Millisecond, int64(500+100*i))
	}
	if got, want := at(10*time.Second, 4500), "  "+strings.Repeat("█", courseLength-1); !strings.Contains(got, want) ||
		strings.Contains(got, want+"█") && strings.Count(got, "█") > courseLength {
		t.Errorf("progress = %q, want the last %d rates", got, courseLength)
	}
	p.step(loadtest.Step{Index: 2, Total: 2, Mode: "next"})
	if got := at(200*time.Millisecond, 10); !strings.Contains(got, "  █ 50/s") {
		t.Errorf("progress of the next run = %q, want a course of its own", got)
	}
	if got := runningText(loadtest.Progress{Phase: loadtest.Resetting}, "", "zh"); got != " 重置库存" {
		t.Errorf("progress in Chinese = %q, want the phase in Chinese", got)
	}
}

// Without a terminal there is a line per run, and one now and then while it takes long, or with lines unset nothing; a
// nil progress is quiet.
func TestProgressElsewhere(t *testing.T) {
	var lines, none bytes.Buffer
	for _, p := range []*progressLine{newProgress(&lines, "en", false, true), newProgress(&none, "en", false, false),
		newProgress(&none, "en", true, true)} {
		p.step(loadtest.Step{Index: 1, Total: 1, Mode: "mutex"})
		running := loadtest.Step{Index: 1, Total: 1, Mode: "mutex", Running: &loadtest.Progress{Phase: loadtest.Settling},
			Elapsed: 7 * time.Second}
		p.step(running) // too soon
		if p != nil {
			p.last = time.Now().Add(-slowTick)
		}
		p.step(running)
		p.step(loadtest.Step{Index: 1, Total: 1, Mode: "mutex", Repetition: 2, Done: true, Err: errors.New("no")})
		p.clear()
	}
	if got, want := lines.String(), "[1/1] mutex 7.0s settle\n[1/1] mutex (repetition 2) ... 0.0s failed\n"; got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
	if none.Len() > 0 {
		t.Errorf("quiet progress = %q, want nothing", none.String())
	}
}

// --rtt takes effect: the three commands of unsafe take at least three round trips, the claims still hold, and the JSON
// has the RTT.
func TestRTT(t *testing.T) {
	t.Parallel()
	shop := program(t)
	const rtt = 10 * time.Millisecond
	for name, argv := range map[string][]string{
		"demo":     {"demo", "--backend", "embedded", "-o", "json"},
		"loadtest": {"loadtest", "-o", "json", "--insist", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), shop, append(argv, "--rtt", rtt.String(), "--replicas", "2", "--mode",
				"unsafe,redis-lua",
				"--stock", "40", "--vus", "8")...)
			cmd.Env = []string{"PATH=/nonexistent", "TMPDIR=" + t.TempDir()} // embedded servers, for loadtest too
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, said.String())
			}
			var c loadtest.Comparison
			if err := json.Unmarshal(out, &c); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.Environment.RTT != rtt || len(c.Results) < 2 {
				t.Errorf("rtt %v and %d results, want %v and 2 or more", c.Environment.RTT, len(c.Results), rtt)
			}
			for _, part := range []string{"rtt: 10ms from each replica to redis", "; none to sql (SQLite is a file)"} {
				if !strings.Contains(said.String(), part) {
					t.Errorf("stderr has no %q:\n%s", part, said.String())
				}
			}
			least := map[string]time.Duration{"unsafe": 3 * rtt, "redis-lua": rtt} // three commands, one
			for _, r := range c.Results {
				if fastest := r.Latency[client.Accepted].Min; fastest < least[r.Mode] {
					t.Errorf("%s: the fastest deduction took %v, want %v or more", r.Mode, fastest, least[r.Mode])
				}
			}
		})
	}
}

// On a slow durable MySQL many requests of a plan are told that the lock is busy, or that they were overtaken, and the
// plan's requests are spent before the stock is: the run goes on until somebody is told that it is out, and counts.
// Without that it is vacuous.
func TestRunOnASlowDurableMySQL(t *testing.T) {
	testenv.Slow(t, "each statement waits for a slow network and a durable disk")
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL, localstack.Nginx)
	stack := startStack(t, localstack.Options{
		Replicas: 1, Backend: localstack.Local, Only: []string{localstack.Redis, localstack.MySQL}, RTT: 3 * time.Millisecond,
		SQLConf: []string{"--log-bin=bin", "--sync-binlog=1"}, // innodb_flush_log_at_trx_commit is 1 anyway
	})
	control, err := loadtest.NewControl(stack.URL, stack.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Close)
	control.Replicas = 1
	modes, err := control.Modes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode    string
		sellOut time.Duration
		want    audit.Verdict
	}{{"sql-unique", 0, audit.Vacuous}, {"sql-unique", time.Minute, audit.Exact},
		{"sql-version", time.Minute, audit.Exact}} {
		mode := modes[slices.IndexFunc(modes, func(m api.Mode) bool { return m.Name == tt.mode })]
		plan := loadtest.Plan{VUs: 32, Requests: 45, Stock: 30, Wait: 20 * time.Millisecond, SellOut: tt.sellOut}
		res, err := loadtest.Run(t.Context(), control, mode, plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := res.Verdicts[0]; v.Verdict != tt.want || (res.Finding == audit.Confirmed) != (tt.want == audit.Exact) {
			t.Errorf("%s, may go on for %s: %s, %s, %d sent, %d of them extra; want %s\n%s",
				tt.mode, tt.sellOut, v.Verdict, res.Finding, res.Sent, res.Extra, tt.want, v.Text("en"))
		}
	}
}
