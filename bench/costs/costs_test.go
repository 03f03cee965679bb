package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/bench/figure"
	"lastitem/bench/figure/figuretest"
	"lastitem/contract/api"
	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

// under is a run of a plan, with a rate of accepted requests, at 100 us of a replica for each.
func under(name string, r loadtest.Result, rate float64) loadtest.Result {
	r.Plan.Name, r.AcceptedPerSecond = name, rate
	accepted := r.Latency[client.Accepted].Count
	r.CPU = map[string]time.Duration{replicas: time.Duration(100*accepted) * time.Microsecond, stores: 0, balancer: 0}
	if name == balanced {
		r.CPU[balancer] = time.Duration(40*accepted) * time.Microsecond
	}
	return r
}

func measured() costs {
	exact := func(mode string) loadtest.Result { return resulttest.Exact(mode, time.Millisecond) }
	soldOut := exact("mutex")
	soldOut.Codes["sold_out"], soldOut.Latency[client.Accepted] = 900, resulttest.Latency(90, time.Millisecond)
	c := resulttest.Comparison(
		under(direct, resulttest.Baseline(), 1000), under(direct, exact("mutex"), 100), under(direct, exact("handoff"), 95),
		under(direct, resulttest.Broken("queue", "O"), 900), under(direct, resulttest.NothingSeen("unsafe"), 9),
		under(direct, resulttest.Vacuous("sql-for-update"), 7),
		under(direct, exact("sql-atomic"), 100), under(direct, exact("reserve-sql"), 62),
		under(direct, exact("mutex"), 300), under(balanced, resulttest.Broken("mutex", "O"), 80),
		under(balanced, exact("handoff"), 70), under(refusals, soldOut, 1),
		under("far", exact("sql-atomic"), 100), under("far", exact("sql-one-trip"), 190),
		under("far", exact("handoff"), 100), under("far-segments", exact("segmented"), 640),
	)
	c.Plans = []plan.Plan{{Name: direct, VUs: 64, Repeat: 3}}
	c.Environment.CPU = `an "odd" <cpu>`
	c.Environment.Servers = map[string]string{"redis": "Redis, durable", "etcd": "etcd 3"}
	return measure(c)
}

// What sold wrongly has no target, but a note; what shows nothing or was not asked for has neither. A round is compared
// with a round: handoff has one, and mutex two.
func TestTargets(t *testing.T) {
	want := []struct{ verdict, note string }{
		{figure.Unmeasured, "queue: BROKEN"}, {figure.Met, "95.0/s to 200/s"}, {figure.Met, "640/s to 100/s"},
		{figure.Unmeasured, ""}, {figure.Missed, "190/s to 100/s"}, {figure.Met, "62.0/s to 100/s"}, {figure.Unmeasured, ""},
		{figure.Unmeasured, ""}, {figure.Unmeasured, ""},
	}
	for i, got := range measured().targets() {
		testkit.Is(t, got.Verdict+" "+got.Note, want[i].verdict+" "+want[i].note, "%s", got.Measure)
	}
}

func TestPicture(t *testing.T) {
	m := measured()
	texts := figuretest.Texts(t, m.draw())
	if !slices.Contains(texts, "mutex") || !slices.Contains(texts, baseline) || slices.Contains(texts, "sql-for-update") {
		t.Errorf("the picture shows %q, want noop and mutex, and not what shows nothing", texts)
	}
	testkit.Is(t, m.worst("mutex"), "BROKEN", "mutex, over replicas")
	testkit.Is(t, m.worst("handoff"), "EXACT", "handoff")
	testkit.Is(t, m.worst("unsafe"), "BROKEN", "unsafe, which claims to break")
	if measure(resulttest.Comparison()).draw() != nil {
		t.Error("a picture of nothing")
	}
}

// The command fills the table of the page in both languages, and writes the picture.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	content, err := json.Marshal(measured().Comparison)
	testkit.Must(t, err)
	file := filepath.Join(dir, "costs.json")
	testkit.Must(t, os.WriteFile(file, content, 0o600))
	for _, name := range []string{"speed.md", "speed.zh.md"} {
		page := "before\n<!-- costs:begin -->\nold\n<!-- costs:end -->\nafter\n"
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(page), 0o600))
	}
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{file, "--svg", filepath.Join(dir, "new", "x.svg"), "--docs", dir})
	testkit.Must(t, root.Execute())
	if err := measure(resulttest.Comparison(resulttest.Broken("m", api.Exact))).wrong(); err == nil {
		t.Error("a mode that claims to be exact, and is not: no error")
	}
	if said := out.String(); !strings.Contains(said, "x noop") || !strings.Contains(said, "targets met") {
		t.Errorf("it prints\n%s", said)
	}
	for name, row := range map[string]string{
		"speed.md":    "| `mutex` | 200 | 100 | – | 1000 | 10.0 | – | – |\n| `handoff` | 95 | 100 | – | – | – | – | 40.0 |\n",
		"speed.zh.md": "Redis, durable; etcd 3, as it is by default；提交 v0.1.0",
	} {
		page := string(testkit.Read(t, filepath.Join(dir, name)))
		if !strings.HasPrefix(page, "before\n<!-- costs:begin -->\n| ") || !strings.Contains(page, row) ||
			strings.Contains(page, "`queue`") || strings.Contains(page, "`unsafe`") ||
			!strings.HasSuffix(page, "<!-- costs:end -->\nafter\n") {
			t.Errorf("%s lacks %q, or has a mode that sold wrongly:\n%s", name, row, page)
		}
	}
	figuretest.Texts(t, testkit.Read(t, filepath.Join(dir, "new", "x.svg")))
	root.SetArgs([]string{filepath.Join(dir, "speed.md")})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "no result of a load test") {
		t.Errorf("of a page: %v, want that it is no result", err)
	}
}
