package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lastitem/internal/console"
	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// playing is a 'shop play' of the tests.
type playing struct {
	address string // of the page, with the token after '#'
	base    string // http://host:port
	token   string

	replicas int // that a run uses; 0 = 3
}

// startPlay runs 'shop play' on embedded backends, and waits until it has printed the address of the page.
func startPlay(t *testing.T, shop string) playing {
	t.Helper()
	address := startUntil(t, "console: ", shop, "play", "--port", "0", "--backend", "embedded", "--no-open")
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "token=t0ken" {
		t.Fatalf("address %s, want one with the token after '#'", address)
	}
	return playing{address: address, base: "http://" + u.Host, token: "t0ken"}
}

// startUntil starts a command with the token t0ken, and waits until it prints a line that begins with prefix; it
// returns the rest of that line. The command is interrupted at the end of the test, and must then succeed.
func startUntil(t *testing.T, prefix, shop string, args ...string) string {
	t.Helper()
	cmd := exec.Command(shop, args...)
	cmd.Env = append(os.Environ(), "SHOP_ADMIN_TOKEN=t0ken")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("shop %s after Ctrl-C: %v\n%s", args[0], err, &said)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return rest
		}
	}
	t.Fatalf("shop %s ended without a line that begins with %q\n%s", args[0], prefix, &said)
	return ""
}

// snapshot is what the tests read of the console's.
type snapshot struct {
	Run *struct {
		State   string
		Spec    console.Spec
		Results []struct {
			Result struct{ Verdicts []judgeReport }
		}
	}
	Frame struct {
		Lanes              []string
		Sections, Overlaps int64
		Pairs              []console.Pair
		LeftOut            int64 `json:"left_out"`
	}
}

// judgeReport is what the tests read of the judge's report.
type judgeReport struct {
	Verdict  string
	Oversold int64
}

// run makes a run of one mode by the console's API, and returns what it told in the end.
func (p playing) run(t *testing.T, mode string) (end snapshot) {
	t.Helper()
	do := func(method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, p.base+"/console/api/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+p.token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	started := do("POST", "runs", fmt.Sprintf(`{"modes":[%q],"replicas":%d,"clients":24,"stock":120,"lang":"en"}`, mode, cmp.Or(p.replicas, 3)))
	started.Body.Close()
	if started.StatusCode != http.StatusAccepted {
		t.Fatalf("POST runs of %s = %s", mode, started.Status)
	}
	for deadline := time.Now().Add(3 * time.Minute); ; {
		if time.Now().After(deadline) {
			t.Fatalf("the run of %s has not ended after 3 minutes", mode)
		}
		res := do("GET", "events", "")
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				end = snapshot{}
				if err := json.Unmarshal([]byte(data), &end); err != nil {
					t.Fatal(err)
				}
				break // the snapshot is the first
			}
		}
		res.Body.Close()
		if end.Run != nil && end.Run.State != console.Running && end.Run.Spec.Modes[0] == mode {
			return end
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestPlay holds 'shop play': its runs by the console's API, and the page in a browser. TestStepper of faultlab/stepper
// has the lessons.
func TestPlay(t *testing.T) {
	t.Parallel()
	p := startPlay(t, program(t))
	t.Run("runs", func(t *testing.T) { testRuns(t, p) })
	t.Run("browser", func(t *testing.T) {
		t.Parallel()
		testPlayBrowser(t, p)
	})
	t.Run("step", func(t *testing.T) {
		t.Parallel()
		testenv.Installed(t, localstack.Redis, localstack.MySQL)
		testStepBrowser(t, p)
	})
}

// testRuns makes runs on real replicas: the numbers that the console counts in their streams are those that the judge
// finds.
func testRuns(t *testing.T, p playing) {
	for mode, exact := range map[string]bool{"unsafe": false, "lease-seq": true, "queue": true, "lua-lock": true} {
		end := p.run(t, mode)
		verdict := judged(t, end)
		if got := verdict.Verdict == "EXACT"; got != exact || (verdict.Oversold > 0) == exact {
			t.Errorf("%s: verdict %+v, want exact %t", mode, verdict, exact)
		}
		if f := end.Frame; (f.Overlaps > 0) == exact || (len(f.Pairs) > 0) == exact || f.LeftOut != 0 {
			t.Errorf("%s: %d of %d sections overlap, %d pairs, %d left out; want overlaps only where it oversells", mode, f.Overlaps, f.Sections, len(f.Pairs), f.LeftOut)
		}
		if f := end.Frame; (f.Sections > 0) == (mode == "queue") || len(f.Lanes) != 3 {
			t.Errorf("%s: %d sections on lanes %v", mode, f.Sections, f.Lanes)
		}
	}
}

// judged returns the judge's report of a run.
func judged(t *testing.T, s snapshot) judgeReport {
	t.Helper()
	if s.Run.State != console.Ended || len(s.Run.Results) != 1 || len(s.Run.Results[0].Result.Verdicts) != 1 {
		t.Fatalf("run %+v, want one result with one verdict", s.Run)
	}
	return s.Run.Results[0].Result.Verdicts[0]
}
