package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/faultlab/trace"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
	"lastitem/testkit/testenv"
)

var update = flag.Bool("update", false, "write the traces of the documents, or their diagrams' pictures")

// serversFor names the programs that a mode's servers are made of.
func serversFor(m stock.Mode) []string {
	names := []string{stack.Redis, stack.MySQL}
	for _, b := range m.Needs {
		if slices.Contains([]string{stack.Etcd, stack.ZooKeeper, stack.Consul}, string(b)) {
			names = append(names, string(b))
		}
	}
	return names
}

// TestTraces holds the traces in the modes' pages against what real servers see.
func TestTraces(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	// A replica that consumes from Kafka asks its database from time to time whether it can commit: no other mode is to be
	// traced beside it.
	consumes := func(m stock.Mode) bool { return slices.Contains(m.Needs, stock.NeedKafka) }
	var with, without []stock.Mode
	for _, m := range stock.Modes() {
		switch {
		case len(m.Stores) == 0:
		case consumes(m):
			with = append(with, m)
		default:
			without = append(without, m)
		}
	}
	traceModes(t, with)
	traceModes(t, without)
}

// traceModes traces modes one after the other, on the same servers.
func traceModes(t *testing.T, modes []stock.Mode) {
	var possible []stock.Mode
	for _, m := range modes {
		missing := func(name string) bool { _, err := stack.Find(name); return err != nil }
		if !slices.ContainsFunc(serversFor(m), missing) {
			possible = append(possible, m)
		}
	}
	tracer, err := trace.New(t.Context(), tracing("en", possible, stack.Auto, t.Logf, 0))
	testkit.Must(t, err)
	defer tracer.Close()
	traced := map[string]trace.Trace{}
	for _, m := range modes {
		t.Run(m.Name, func(t *testing.T) {
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
func testTraces(t *testing.T, tracer *trace.Tracer, m stock.Mode, traced map[string]trace.Trace) {
	var text bytes.Buffer
	for i, s := range m.Stores {
		tr, err := tracer.Deduct(t.Context(), trace.Deduction{Mode: m, Store: s, Quantity: 1, Key: "trace-1"})
		testkit.Must(t, err)
		wantBothSides(t, tr)
		if i == 0 {
			traced[m.Name] = tr
		}
		if i > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "$ shop trace %s --store %s --stable\n", m.Name, s)
		testkit.Must(t, tr.WriteStable(&text))
	}
	if *update {
		name := filepath.Join(doctest.Root(t), "internal", "stock", "doc", m.Name+".trace.txt")
		testkit.Must(t, os.WriteFile(name, text.Bytes(), 0o644))
		return
	}
	testkit.Same(t, text.String(), m.Trace(), "its trace is stale: run 'make traces'")
}

// wantSamePatterns: the same deduction once more has the same positions. In which order several servers are asked at
// once is chance.
func wantSamePatterns(t *testing.T, tracer *trace.Tracer, tr trace.Trace) {
	t.Helper()
	d := tr.Deduction
	d.Key = "trace-2" // as long as the first
	again, err := tracer.Deduct(t.Context(), d)
	testkit.Must(t, err)
	positions := func(tr trace.Trace) (all []string) {
		for _, s := range tr.Steps {
			all = append(all, s.Server+" "+s.Pattern)
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(positions(tr), positions(again)); diff != "" {
		t.Errorf("%s: the positions of a second run (-first +second):\n%s", tr.Mode.Name, diff)
	}
	for _, s := range tr.Steps {
		if s.Pattern == "" || strings.ContainsAny(s.Pattern, "0123456789") && !patternNumber.MatchString(s.Pattern) {
			t.Errorf("the pattern of %q is %q", s.Text, s.Pattern)
		}
	}
}

// patternNumber is a number that belongs to the name of a position: of an API, or of a function.
var patternNumber = regexp.MustCompile(`/v1/|getChildren2`)

// wantBothSides: each command that passed a wire was seen by the server at its other end, between being sent and being
// answered, all of it before the answer to the client; but of several nodes a majority is waited for. A step is a
// moment.
func wantBothSides(t *testing.T, tr trace.Trace) {
	t.Helper()
	if tr.Status/100 != 2 || len(tr.Steps) == 0 {
		t.Fatalf("%s answers %d %s after %d commands", tr.Target, tr.Status, tr.Answer, len(tr.Steps))
	}
	for _, s := range tr.Steps {
		kind, _, several := strings.Cut(s.Server, " ")
		moment := s.Took == 0 && (kind == "asker" || kind == "consumer")
		if s.Sent < 0 && !s.Poll || s.Took <= 0 && !moment || s.Sent+s.Took > tr.Took && !several {
			t.Errorf("%s: sent at %v, took %v, of %v in all", s.Text, s.Sent, s.Took, tr.Took)
		}
		if kind != "redis" && kind != "sql" {
			continue
		}
		ran := s.Ran
		if s.Text == "EXEC" {
			ran = 0 // Redis's slow log has the commands inside, and not EXEC itself
		}
		if s.Seen < 0 || ran < 0 || s.Seen > s.Sent+s.Took {
			t.Errorf("%s: sent at %v, answered at %v; %s saw it at %v, and took %v",
				s.Text, s.Sent, s.Sent+s.Took, s.Server, s.Seen, s.Ran)
		}
		if strings.HasPrefix(s.Text, "EVALSHA ") && (s.About == "" || len(s.Inside) == 0) {
			t.Errorf("%s: a script that says %q of itself, and does %v", s.Text, s.About, s.Inside)
		}
	}
}

// tracedStep is one of its commands.
type tracedStep struct {
	Server  string `json:"server"`
	Command string `json:"command"`
	SentUS  *int64 `json:"sent_us"`
	TookUS  *int64 `json:"took_us"`
	SeenUS  *int64 `json:"seen_us"`
	RanUS   *int64 `json:"ran_us"`
}

// tracedJSON is what 'shop trace -o json' prints.
type tracedJSON struct {
	Status  int               `json:"status"`
	Servers map[string]string `json:"servers"`
	Steps   []tracedStep      `json:"steps"`
}

// TestTraceEmbedded traces on embedded servers, where one side is all there is to see.
func TestTraceEmbedded(t *testing.T) {
	t.Parallel()
	shop := program(t)
	got := traceEmbedded(t, shop, "idempotent")
	if !strings.Contains(got.Servers["redis"], "miniredis") {
		t.Errorf("idempotent: %v", got.Servers)
	}
	want := []string{"BEGIN IMMEDIATE", "INSERT OR", "UPDATE product_stock", "INSERT INTO", "UPDATE idempotent_log",
		"COMMIT"}
	testkit.Same(t, beginnings(got, "sql"), want, "statements of idempotent")
	got = traceEmbedded(t, shop, "kafka")
	for by, want := range map[string][]string{
		"asker":    {"waiting", "written", "ordered", "committed"},
		"consumer": {"written", "ordered", "committed"},
	} {
		testkit.Same(t, beginnings(got, by), want, "steps of the %s", by)
	}
	for mode, want := range map[string]string{
		"etcd":        "there is no embedded etcd: leave out --backend embedded\n",
		"mutex-in-tx": "its lesson needs InnoDB: the embedded database is SQLite: leave out --backend embedded\n",
	} {
		if _, said, code := shopSays(t, shop, "trace", mode, "--backend", "embedded"); code != cli.ExitFailed ||
			!strings.Contains(said, want) {
			t.Errorf("shop trace %s: exit %d, %s; want exit %d, %q", mode, code, said, cli.ExitFailed, want)
		}
	}
}

// traceEmbedded traces a mode on embedded servers, in a process of its own.
func traceEmbedded(t *testing.T, shop, mode string) (got tracedJSON) {
	t.Helper()
	out, _ := runShop(t, shop, "trace", mode, "--backend", "embedded", "-o", "json", "--quantity", "3")
	testkit.Must(t, json.Unmarshal([]byte(out), &got))
	if got.Status != 200 || !strings.Contains(got.Servers["sql"], "SQLite") {
		t.Errorf("%s: %d, %v", mode, got.Status, got.Servers)
	}
	for _, s := range got.Steps {
		if s.SentUS == nil || s.TookUS == nil || s.SeenUS != nil || s.RanUS != nil {
			t.Errorf("%s: %s: want the times of the client's side alone", mode, s.Command)
		}
	}
	return got
}

// beginnings are the first two words of what a server was sent.
func beginnings(tr tracedJSON, server string) (all []string) {
	for _, s := range tr.Steps {
		if s.Server == server {
			words := strings.Fields(s.Command)
			all = append(all, strings.Join(words[:min(2, len(words))], " "))
		}
	}
	return all
}

// TestTraceOfAHeldLock holds the picture in the watchdog's page against a run with a TTL of 3 s: but for the times,
// which are in TTLs, it is that of 'shop trace watchdog --hold 25s --rival'.
func TestTraceOfAHeldLock(t *testing.T) {
	testenv.Slow(t, "holds a lock for many seconds")
	testenv.Installed(t, stack.Redis, stack.MySQL)
	flags := traceFlags{quantity: 1, key: "trace-1", lang: "en", backend: stack.Auto, depth: -1,
		hold: 7500 * time.Millisecond, ttl: 3 * time.Second, rival: true}
	d, err := flags.deduction("watchdog")
	testkit.Must(t, err)
	tracer, err := trace.New(t.Context(), tracing("en", []stock.Mode{d.Mode}, flags.backend, t.Logf, flags.ttl))
	testkit.Must(t, err)
	defer tracer.Close()
	const tries = 10 // a busy machine may delay a renewal
	for try := 1; ; try++ {
		tr, err := tracer.Deduct(t.Context(), d)
		testkit.Must(t, err)
		text := bytes.NewBufferString("$ shop trace watchdog --hold 25s --rival --stable\n")
		testkit.Must(t, tr.WriteStable(text))
		if *update {
			name := filepath.Join(doctest.Root(t), "internal", "stock", "doc", "watchdog.hold.txt")
			testkit.Must(t, os.WriteFile(name, text.Bytes(), 0o644))
			return
		}
		diff, err := cmp.Diff(text.String(), d.Mode.HoldTrace()), timesOfAHeldLock(tr)
		switch {
		case diff == "" && err == nil:
			return
		case try == tries && diff != "":
			t.Fatalf("its trace is stale: run 'make traces' (-want +got):\n%s", diff)
		case try == tries:
			t.Fatal(err)
		}
	}
}

// timesOfAHeldLock wants seven renewals, and the rival's answer soon after the release, not when the TTL ends.
func timesOfAHeldLock(tr trace.Trace) error {
	renewals := 0
	for _, s := range tr.Steps {
		if strings.HasPrefix(s.About, "-- Keeps the lock alive") {
			renewals++
		}
	}
	r := tr.Against
	if renewals != 7 || r == nil || r.Status != 200 || r.Began+r.Took > tr.Took+tr.TTL/3 {
		return fmt.Errorf("%d renewals, the rival %+v, the first took %v; want 7, and the rival woken by the release",
			renewals, r, tr.Took)
	}
	return nil
}
