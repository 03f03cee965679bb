package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/testenv"
)

// serversFor names the programs that a mode's servers are made of.
func serversFor(m stock.Mode) []string {
	names := []string{localstack.Redis, localstack.MySQL}
	for _, b := range m.Needs {
		if slices.Contains([]string{localstack.Etcd, localstack.ZooKeeper, localstack.Consul}, string(b)) {
			names = append(names, string(b))
		}
	}
	return names
}

// TestMain lets a copy of the test binary be the embedded broker of the traces.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "embedded-kafka" {
		main()
	}
	os.Exit(m.Run())
}

// TestTraces holds the traces in the modes' pages against what real servers see; Kafka's broker is embedded.
func TestTraces(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	var modes []stock.Mode
	for _, m := range stock.Modes() {
		missing := func(name string) bool { _, err := localstack.Find(name); return err != nil }
		if !slices.ContainsFunc(serversFor(m), missing) {
			modes = append(modes, m)
		}
	}
	tracer, err := newTracer(t.Context(), modes, localstack.Auto, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.close()
	traced := map[string]trace{}
	for _, m := range stock.Modes() {
		if len(m.Stores) == 0 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) { // one after the other: they share the servers
			testenv.Installed(t, serversFor(m)...)
			testTraces(t, tracer, m, traced)
		})
	}
	t.Run("once more", func(t *testing.T) { // after all the others, whose numbers it would change
		for _, tr := range traced {
			wantSamePatterns(t, tracer, tr)
		}
	})
}

// testTraces holds the traces of a mode against its page, and keeps the first.
func testTraces(t *testing.T, tracer *tracer, m stock.Mode, traced map[string]trace) {
	var text bytes.Buffer
	for i, s := range m.Stores {
		tr, err := tracer.deduct(t.Context(), deduction{mode: m, store: s, quantity: 1, key: "trace-1"})
		if err != nil {
			t.Fatal(err)
		}
		wantBothSides(t, tr)
		if i == 0 {
			traced[m.Name] = tr
		}
		if i > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "$ shop trace %s --store %s --stable\n", m.Name, s)
		if err := printStable(&text, tr); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		name := filepath.Join(root, "internal", "stock", "doc", m.Name+".trace.txt")
		if err := os.WriteFile(name, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text.String(), m.Trace()); diff != "" {
		t.Errorf("its trace is stale: run 'make traces' (-want +got):\n%s", diff)
	}
}

// wantSamePatterns: the same deduction once more has the same positions. In which order several servers are asked at once is chance.
func wantSamePatterns(t *testing.T, tracer *tracer, tr trace) {
	t.Helper()
	d := tr.deduction
	d.key = "trace-2" // as long as the first
	again, err := tracer.deduct(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	positions := func(tr trace) (all []string) {
		for _, s := range tr.steps {
			all = append(all, s.server+" "+s.pattern)
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(positions(tr), positions(again)); diff != "" {
		t.Errorf("%s: the positions of a second run (-first +second):\n%s", tr.mode.Name, diff)
	}
	for _, s := range tr.steps {
		if s.pattern == "" || strings.ContainsAny(s.pattern, "0123456789") && !patternNumber.MatchString(s.pattern) {
			t.Errorf("the pattern of %q is %q", s.text, s.pattern)
		}
	}
}

// patternNumber is a number that belongs to the name of a position: of an API, or of a function.
var patternNumber = regexp.MustCompile(`/v1/|getChildren2`)

// wantBothSides: each command that passed a wire was seen by the server behind it, between being sent and being answered, all of it
// before the answer to the client; but of several nodes a majority is waited for, and of Kafka only what a fetch brings.
func wantBothSides(t *testing.T, tr trace) {
	t.Helper()
	if tr.status != 200 || len(tr.steps) == 0 {
		t.Fatalf("%s answers %d %s after %d commands", tr.target, tr.status, tr.answer, len(tr.steps))
	}
	for _, s := range tr.steps {
		kind, _, several := strings.Cut(s.server, " ")
		late := several || kind == localstack.Kafka && !s.poll
		if s.sent < 0 && !s.poll || s.took <= 0 || s.sent+s.took > tr.took && !late {
			t.Errorf("%s: sent at %v, took %v, of %v in all", s.text, s.sent, s.took, tr.took)
		}
		if kind != "redis" && kind != "sql" {
			continue
		}
		if s.seen < 0 || s.ran < 0 || s.seen > s.sent+s.took {
			t.Errorf("%s: sent at %v, answered at %v; %s saw it at %v, and took %v",
				s.text, s.sent, s.sent+s.took, s.server, s.seen, s.ran)
		}
		if strings.HasPrefix(s.text, "EVALSHA ") && (s.about == "" || len(s.inside) == 0) {
			t.Errorf("%s: a script that says %q of itself, and does %v", s.text, s.about, s.inside)
		}
	}
}

func TestTraceRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want string
	}{
		{"nobody", `unknown mode "nobody"`},
		{"mutexx", `did you mean "mutex"?`},
		{"set*", "want the name of one mode"},
		{"noop --store sql", "the stores of noop are []"},
		{"unsafe --store sql", `--store sql: the stores of unsafe are ["redis"]`},
		{"unsafe --quantity 0", "--quantity 0"},
		{"unsafe --quantity 101", "--quantity 101"},
		{"unsafe --lang fr", `--lang "fr"`},
		{"unsafe --backend docker", "--backend docker"},
		{"kafka --backend local", "--backend local: kafka needs Kafka"},
		{"unsafe --json --stable", "none of the others can be"},
		{"", "missing: want shop trace MODE"},
		{"unsafe mutex", `unexpected argument "mutex"`},
	} {
		code, _, errOut := commandLine(t.Context(), newTrace(), strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(errOut, c.want) {
			t.Errorf("shop trace %s: exit %d, %s; want exit %d, %q", c.args, code, errOut, exitUsage, c.want)
		}
	}
}
