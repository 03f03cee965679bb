package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
	"lastitem/testkit/testenv"
)

// numbersBlock is what 'shop write-ups -o markdown' printed, in docs/articles.md.
func numbersBlock(t *testing.T, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(doctest.Read(t, name), "<!-- numbers:begin -->\n")
	block, _, ok := strings.Cut(rest, "<!-- numbers:end -->")
	if !ok {
		t.Fatalf("%s has no block of numbers", name)
	}
	return block
}

// TestWriteUpNumbers: docs/articles.md has a row for each number that the command measures, in both languages, with
// ours beside theirs.
func TestWriteUpNumbers(t *testing.T) {
	for lang, name := range map[string]string{"en": "docs/articles.md", "zh": "docs/articles.zh.md"} {
		var measured []measuredNumber
		for _, n := range numbers() {
			m := n.measured(map[numberRun]measuredRun{}, lang)
			m.Ours, m.Runs = "ours", nil
			for _, r := range n.runs {
				m.Runs = append(m.Runs, measuredRun{Mode: r.mode})
			}
			measured = append(measured, m)
		}
		var want strings.Builder
		testkit.Must(t, writeNumbers(&want, cli.Markdown, lang, measured))
		var got strings.Builder
		for i, line := range strings.SplitAfter(numbersBlock(t, name), "\n") {
			if cells := doctest.Cells(line); i > 1 && len(cells) == 5 {
				if !strings.ContainsAny(cells[3], "0123456789") {
					t.Errorf("%s: %q: want a number of ours", name, line)
				}
				cells[3] = "ours"
				line = "| " + strings.Join(cells, " | ") + " |\n"
			}
			got.WriteString(line)
		}
		testkit.Same(t, got.String(), want.String(), "%s: run 'shop write-ups -o markdown --lang %s'", name, lang)
	}
}

// TestNumbersCanBeRun: every run of a number is a valid plan of a mode that there is, and factors compare two runs of
// one plan.
func TestNumbersCanBeRun(t *testing.T) {
	for _, n := range numbers() {
		if n.what.En == "" || n.what.Zh == "" || n.theirs.En == "" || n.theirs.Zh == "" {
			t.Errorf("%+v: want all texts in both languages", n)
		}
		want := map[shows]int{showsLeft: 1, showsFactor: 2}[n.shows]
		if want > 0 && len(n.runs) != want {
			t.Errorf("%s: %d runs, want %d", n.what.En, len(n.runs), want)
		}
		for _, r := range n.runs {
			p, err := r.load()
			if err != nil || p.Validate() != nil || !slices.Contains(modeNames(), r.mode) {
				t.Errorf("%s: %+v: %v, %v; want a plan of a mode", n.what.En, r, err, p.Validate())
			}
			if (p.Segments > 0) != (r.mode == "segmented") {
				t.Errorf("%s: %s with %d segments", n.what.En, r.mode, p.Segments)
			}
		}
		if n.shows == showsFactor && (n.runs[0].plan != n.runs[1].plan || n.runs[0].part != n.runs[1].part ||
			n.runs[0].rtt != n.runs[1].rtt) {
			t.Errorf("%s: the factor compares different loads: %+v", n.what.En, n.runs)
		}
	}
}

// TestNumbersOfRuns: the numbers that are printed for the runs, and the text where a run is missing.
func TestNumbersOfRuns(t *testing.T) {
	made := map[numberRun]measuredRun{}
	rates := []float64{2000, 1250}
	for _, n := range numbers() {
		for i, r := range n.runs {
			made[r] = measuredRun{Mode: r.mode, Left: 4880, PerSecond: rates[i]}
		}
	}
	want := map[shows]string{showsLeft: "4,880", showsFactor: "1.6 times (2,000/s, 1,250/s)"}
	for _, n := range numbers() {
		if got := n.measured(made, "en"); want[n.shows] != "" && got.Ours != want[n.shows] {
			t.Errorf("%s: %q, want %q", n.what.En, got.Ours, want[n.shows])
		}
		made[n.runs[0]] = measuredRun{Mode: n.runs[0].mode, missing: "no MySQL"}
		var text strings.Builder
		if err := writeNumbers(&text, cli.Text, "zh", []measuredNumber{n.measured(made, "zh")}); err != nil ||
			!strings.Contains(text.String(), "– (no MySQL)") {
			t.Errorf("%s: %v, %q, want the reason", n.what.En, err, text.String())
		}
		made[n.runs[0]] = measuredRun{Mode: n.runs[0].mode, Left: 4880, PerSecond: 2000}
	}
	if got := grouped(1234567.8); got != "1,234,568" || grouped(999) != "999" {
		t.Errorf("grouped: %s, %s", got, grouped(999))
	}
}

// testWriteUpRuns: the runs of the fifth write-up leave what they must. On a busy machine its five requests may come
// one after the other: the run is then right, and vacuous.
func testWriteUpRuns(t *testing.T, running *stack.Stack) {
	t.Helper()
	f := writeUpsFlags{lang: "en", quiet: true}
	s := service{url: running.URL, token: running.Token, replicas: 1, lang: "en"}
	m, err := f.runOne(t.Context(), io.Discard, s, numberRun{mode: "watchdog", plan: "five", replicas: 1})
	if err != nil || m.Left != 95 || m.PerSecond <= 0 || m.Store != string(api.Redis) ||
		(m.code != cli.ExitOK && m.code != exitInconclusive) {
		t.Errorf("five clients under a lock: %+v, %v, want 95 left", m, err)
	}
	m, err = f.runOne(t.Context(), io.Discard, s, numberRun{mode: "mutex-in-tx", plan: "five", replicas: 1})
	if err != nil || m.missing == "" {
		t.Errorf("a mode that needs MySQL, without it: %+v, %v, want the reason", m, err)
	}
}

// envTrackRecord set to "all" runs every command of the track record; otherwise the test runs a few.
const envTrackRecord = "SHOP_TEST_TRACK_RECORD"

// sampledRecords is how many lab commands are run by default. The first rows need only Redis and MySQL.
const sampledRecords = 2

// TestTrackRecordRuns runs a few lab commands of the track record, or all commands: each must show the outcome that the
// page claims.
func TestTrackRecordRuns(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	shop := program(t)
	all := os.Getenv(envTrackRecord) == "all"
	played := 0
	for _, row := range slices.Concat(doctest.Tables(doctest.Read(t, "docs/track-record.md"))...) {
		command, shows := strings.Trim(row[2], "`"), strings.Trim(row[3], "`")
		args, ours := strings.CutPrefix(command, "bin/shop ")
		lab := strings.HasPrefix(args, "lab ")
		if !all && (!lab || played == sampledRecords) {
			continue
		}
		played++
		t.Run(command, func(t *testing.T) {
			switch {
			case lab:
				runLabRecord(t, shop, strings.Fields(args), shows)
			case ours:
				out, code := runShop(t, shop, append(strings.Fields(args), "--out", "")...)
				if code != cli.ExitOK || !strings.Contains(out, shows) {
					t.Errorf("exit %d, want %d with %q:\n%s", code, cli.ExitOK, shows, out)
				}
			default:
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command+" -v")
				cmd.Dir = doctest.Root(t)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- "+shows) {
					t.Errorf("%v, want %s:\n%s", err, shows, out)
				}
			}
		})
	}
	if played == 0 {
		t.Error("no command was run")
	}
}

// runLabRecord runs one lab command; it skips the test if a service that the mode needs is missing.
func runLabRecord(t *testing.T, shop string, args []string, shows string) {
	t.Helper()
	for _, service := range []string{stack.Etcd, stack.ZooKeeper, stack.Redlock} {
		for i, arg := range args {
			if arg == "--mode" && args[i+1] == service {
				testenv.Installed(t, service)
			}
		}
	}
	if slices.Contains(args, "clock-jump") {
		testenv.Installed(t, stack.Compiler)
	}
	out, code := runShop(t, shop, append(args, "-o", "json")...)
	var res struct {
		Cells []struct {
			Found string `json:"found"`
		} `json:"cells"`
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil || len(res.Cells) != 1 || code != cli.ExitOK {
		t.Fatalf("exit %d, %v, want %d and one cell:\n%s", code, err, cli.ExitOK, out)
	}
	testkit.Is(t, res.Cells[0].Found, shows, "found")
}
