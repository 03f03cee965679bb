package main

import (
	"bytes"
	"database/sql"
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

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestDemoGivenURL(t *testing.T) {
	url := startFakeShop(t, &fakeShop{})
	file := filepath.Join(t.TempDir(), "out", "demo.json")
	code, out, errOut := commandLine(t.Context(), newDemo("en"), "--url", url, "--token", fakeToken, "--replicas", "1",
		"--mode", "noop,unsafe,lua-lock",
		"--vus", "4", "--stock", "20", "--out", file)
	if code != cli.ExitOK {
		t.Errorf("exit code %d, want %d\n%s%s", code, cli.ExitOK, out, errOut)
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
	text := testkit.Read(t, file)
	var c compare.Comparison
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
			var c compare.Comparison
			if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.Summaries) != 2 {
				t.Errorf("%s: JSON %v with %d summaries, want 2\n%s%s", tt.cmd.Name(), err, len(c.Summaries), out, errOut)
				return
			}
			unsafe, exact := c.Summaries[0], c.Summaries[1]
			if code != cli.ExitFailed || unsafe.Tries != tt.tries || exact.Tries != 0 {
				t.Errorf("%s: exit code %d, tries of %s %d, of %s %d, want %d, %d and 0",
					tt.cmd.Name(), code, unsafe.Mode, unsafe.Tries, exact.Mode, exact.Tries, cli.ExitFailed, tt.tries)
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
		if code != cli.ExitFailed || !strings.Contains(errOut, want) {
			t.Errorf("demo --strict %v: exit code %d, %q; want %d, %q\n%s", args, code, errOut, cli.ExitFailed, want, out)
		}
	}
}

// make demo ends well where a claim is undecided, unless every mode was asked for.
func TestMakeDemo(t *testing.T) {
	t.Parallel()
	maker, err := exec.LookPath("make") // the README asks for it
	testkit.Must(t, err)
	file, err := filepath.Abs("../../Makefile")
	testkit.Must(t, err)
	for code, ends := range map[string]map[string]bool{
		"0": {"": true, "1": true}, "1": {"": false, "1": false}, "3": {"": true, "1": false},
	} {
		dir := t.TempDir()
		testkit.Must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "bin", "shop"), []byte("#!/bin/sh\nexit "+code+"\n"), 0o700))
		for all, want := range ends {
			out, err := exec.CommandContext(t.Context(), maker, "-f", file, "-C", dir, "-o", "build", "demo",
				"ALL="+all).CombinedOutput()
			if (err == nil) != want {
				t.Errorf("demo ends with %s, ALL=%s: make says %v, want success %t\n%s", code, all, err, want, out)
			}
		}
	}
}

func TestClosedKeepsTheCode(t *testing.T) {
	stuck := errors.New("process did not end")
	got := closed(&cli.Error{Code: exitInconclusive}, stuck)
	var e *cli.Error
	if !errors.As(got, &e) || e.Code != exitInconclusive || !errors.Is(e.Err, stuck) {
		t.Errorf("closed(code 3, %v) = %v, want both", stuck, got)
	}
	if got := closed(nil, nil); got != nil {
		t.Errorf("closed(nil, nil) = %v, want nil", got)
	}
	if got := closed(nil, stuck); !errors.Is(got, stuck) {
		t.Errorf("closed(nil, %v) = %v, want it", stuck, got)
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
			var c compare.Comparison
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

// The servers of --durable are what it says, and a plan that goes to one replica is answered by one; the CPU time of
// the parts is known.
func TestDurable(t *testing.T) {
	testenv.Slow(t, "starts real servers twice, and loads them")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL, stack.Nginx)
	o := stack.Options{Only: []string{stack.Redis, stack.MySQL}}
	said := durable(&o)
	running := startStack(t, o)
	db, err := sql.Open("mysql", running.SQL.URL)
	testkit.Must(t, err)
	testkit.Closes(t, db)
	redisOptions, err := redis.ParseURL(running.Redis.URL)
	testkit.Must(t, err)
	rdb := redis.NewClient(redisOptions)
	testkit.Closes(t, rdb)
	for server, settings := range said {
		for setting := range strings.SplitSeq(strings.TrimPrefix(settings, ": "), ", ") {
			name, want, _ := strings.Cut(setting, "=")
			got := ""
			if server == stack.Redis {
				values, err := rdb.ConfigGet(t.Context(), name).Result()
				testkit.Must(t, err)
				got = values[name]
			} else {
				testkit.Must(t, db.QueryRowContext(t.Context(), "SELECT @@"+name).Scan(&got))
			}
			testkit.Is(t, got, want, "%s of %s", name, server)
		}
	}
	out, code := runShop(t, program(t), "loadtest", "--durable", "--plan", "costs", "--mode",
		"noop,sql-atomic,reserve-unit", "--repeat", "1", "--duration", "300ms", "-o", "json", "-q")
	var c compare.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.Results) != 9 {
		t.Fatalf("exit %d, %v, %d results, want those of three modes under three plans\n%s", code, err, len(c.Results), out)
	}
	for _, r := range c.Results {
		stored := r.CPU["stores"] > 0 || r.Mode == "noop"
		if served := len(r.Served); r.CPU["replicas"] <= 0 || !stored || r.Plan.Direct != (served == 1) || served == 0 {
			t.Errorf("%s, %s: CPU time %v, served by %v; want it known, and one replica only if the plan says so", r.Mode,
				r.Plan.Name, r.CPU, r.Served)
		}
	}
	if !strings.HasSuffix(c.Environment.Servers["sql"], said["sql"]) {
		t.Errorf("the result names its servers %v", c.Environment.Servers)
	}
}

// On a slow durable MySQL many requests of a plan are told that the lock is busy, or that they were overtaken, and the
// plan's requests are spent before the stock is: the run goes on until somebody is told that it is out, and counts.
// Without that it is vacuous.
func TestRunOnASlowDurableMySQL(t *testing.T) {
	testenv.Slow(t, "each statement waits for a slow network and a durable disk")
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL, stack.Nginx)
	running := startStack(t, stack.Options{
		Replicas: 1, Backend: stack.Local, Only: []string{stack.Redis, stack.MySQL}, RTT: 3 * time.Millisecond,
		SQLConf: []string{"--log-bin=bin", "--sync-binlog=1"}, // innodb_flush_log_at_trx_commit is 1 anyway
	})
	control, err := loadtest.NewControl(running.URL, running.Token)
	testkit.Must(t, err)
	t.Cleanup(control.Close)
	control.Replicas = 1
	modes, err := control.Modes(t.Context())
	testkit.Must(t, err)
	for _, tt := range []struct {
		mode    string
		sellOut time.Duration
		want    judge.Verdict
	}{{"sql-unique", 0, judge.Vacuous}, {"sql-unique", time.Minute, judge.Exact},
		{"sql-version", time.Minute, judge.Exact}} {
		mode := modes[slices.IndexFunc(modes, func(m api.Mode) bool { return m.Name == tt.mode })]
		plan := plan.Plan{VUs: 32, Requests: 45, Stock: 30, Wait: 20 * time.Millisecond, SellOut: tt.sellOut}
		res, err := loadtest.Run(t.Context(), control, mode, plan, nil)
		testkit.Must(t, err)
		if v := res.Verdicts[0]; v.Verdict != tt.want || (res.Finding == judge.Confirmed) != (tt.want == judge.Exact) {
			t.Errorf("%s, may go on for %s: %s, %s, %d sent, %d of them extra; want %s\n%s",
				tt.mode, tt.sellOut, v.Verdict, res.Finding, res.Sent, res.Extra, tt.want, v.Text("en"))
		}
	}
}
