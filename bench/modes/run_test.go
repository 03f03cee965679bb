package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lastitem/bench/command"
	"lastitem/bench/figure"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

func TestParse(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-window", "5ms"}, {"-clients", "0"}, {"-appendfsync", "sometimes"}, {"-scenario", "nowhere"},
		{"stray"},
	} {
		var said bytes.Buffer
		if _, err := parse(args, &said); err == nil || said.Len() == 0 {
			t.Errorf("parse(%q) = %v, having said %q, want a complaint", args, err, said.String())
		}
	}
	o, err := parse([]string{"-scenario", "far,direct", "-rounds", "5"}, os.Stderr)
	if err != nil || len(o.scenarios) != 2 || o.scenarios[0].name != direct || o.rounds != 5 || o.shop == "" {
		t.Errorf("parse = %+v, %v, want direct, far, 5 rounds", o, err)
	}
}

// TestRuns makes whole runs, over replicas that are processes, on embedded servers.
func TestRuns(t *testing.T) {
	t.Parallel()
	shop := testenv.Shop(t)
	t.Run("whole", func(t *testing.T) { testRun(t, tiny(t, shop)) })
	t.Run("interrupted", func(t *testing.T) { testRunInterrupted(t, tiny(t, shop)) })
}

func tiny(t *testing.T, shop string) options {
	t.Helper()
	dir := t.TempDir()
	return options{
		scenarios: scenarios, modes: "mutex,segmented,handoff", rounds: 1, window: 200 * time.Millisecond, clients: 16,
		fsync: "no",
		files: command.Files{JSON: filepath.Join(dir, "out", "modes.json"), SVG: filepath.Join(dir, "out", "modes.svg")},
		shop:  shop, backend: stack.Embedded,
	}
}

// testRun checks every table, the targets and the files, and that the judge checks each window.
func testRun(t *testing.T, o options) {
	var out, errOut bytes.Buffer
	if err := run(t.Context(), o, &out, &errOut); err != nil {
		t.Fatalf("run: %v\n%s%s", err, errOut.String(), out.String())
	}
	for _, want := range []string{
		"== direct:", "== nginx:", "== refusals:", "== far:", "handoff, 10 products", "handoff, x mutex", "targets met",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	wantJudged(t, o.files.JSON)
	if _, err := os.Stat(o.files.SVG); err != nil {
		t.Error(err)
	}
}

// wantJudged checks the JSON: each row has its verdict, and numbers.
func wantJudged(t *testing.T, file string) {
	t.Helper()
	text := testkit.Read(t, file)
	var doc struct {
		Scenarios []struct {
			Name    string
			Results []struct {
				Row, Verdict, Why string
				Median            map[string]*float64
			}
		}
		Targets []figure.Target
	}
	testkit.Must(t, json.Unmarshal(text, &doc))
	rows, good := 0, 0
	for _, s := range doc.Scenarios {
		for _, r := range s.Results {
			rows++
			want := map[bool]string{true: verdicts[none], false: verdicts[exact]}[r.Row == baseline]
			if s.Name == balanced && r.Row == "mutex" {
				want = verdicts[broken]
			}
			switch {
			case r.Verdict == want && r.Median[mRate] != nil && *r.Median[mRate] > 0:
				good++
			case r.Verdict != verdicts[undecided] && r.Verdict != verdicts[void]:
				// a busy machine sends too little in so short a window
				t.Errorf("%s: %s: %s %s, rate %v, want %s, and a rate", s.Name, r.Row, r.Verdict, r.Why, r.Median[mRate], want)
			}
		}
	}
	if want := 3*4 + 3; rows != want { // noop and three modes three times, and the far ones
		t.Errorf("%d rows, want %d", rows, want)
	}
	if good < rows/2 {
		t.Errorf("%d of %d rows could be judged:\n%s", good, rows, text)
	}
}

// An interrupted run prints its results so far, and leaves nothing behind.
func testRunInterrupted(t *testing.T, o options) {
	o.rounds, o.modes = 100, "handoff"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	said := &cancelling{after: "round 2", cancel: cancel}
	if err := run(ctx, o, &out, said); err != nil {
		t.Errorf("run = %v, want nothing: the caller knows of the interruption", err)
	}
	for _, want := range []string{"== direct:", "handoff", "targets met"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s\n%s", want, out.String(), said.String())
		}
	}
	if strings.Contains(out.String(), "== nginx:") {
		t.Errorf("it went on:\n%s", out.String())
	}
	addresses := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindAllString(said.String(), -1)
	if len(addresses) < replicas+1 {
		t.Errorf("it started nothing:\n%s", said.String())
	}
	for _, a := range addresses {
		if c, err := net.Dial("tcp", a); err == nil {
			_ = c.Close()
			t.Errorf("%s still answers", a)
		}
	}
}

// cancelling is a writer that ends a context when a text is written to it.
type cancelling struct {
	bytes.Buffer
	after  string
	cancel func()
}

func (c *cancelling) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.after)) {
		c.cancel()
	}
	return c.Buffer.Write(b)
}
