package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lastitem/internal/audit"
	"lastitem/loadtest/delta"
	"lastitem/loadtest/resulttest"
	"lastitem/loadtest/words"
)

// deltaReport has a row for every outcome, and every kind of line that may appear above or below the table.
func deltaReport() delta.Report {
	ms := float64(time.Millisecond)
	c := resulttest.Comparison()
	side := func(name string) delta.Side {
		return delta.Side{Name: name, Environment: c.Environment, Command: "bin/shop demo --repeat 6"}
	}
	rows := []delta.Row{{
		Mode: "lua-lock", Plan: "demo", VerdictA: audit.Exact, VerdictB: audit.Broken, FoundB: "O", FindingA: audit.Confirmed, FindingB: audit.Contradicted,
		Samples: delta.Rounds,
		Figures: []delta.Figure{
			{Name: "accepted/s", NA: 6, NB: 6, A: delta.Interval{Estimate: 1000, Low: 980, High: 1020}, B: delta.Interval{Estimate: 800, Low: 780, High: 820}, Difference: delta.Interval{Estimate: -0.2, Low: -0.22, High: -0.18}, P: 0.002, Outcome: delta.Worse},
			{Name: "p50", NA: 6, NB: 6, A: delta.Interval{Estimate: 10 * ms, Low: 9 * ms, High: 11 * ms}, B: delta.Interval{Estimate: 8 * ms, Low: 7 * ms, High: 9 * ms}, Difference: delta.Interval{Estimate: -0.2, Low: -0.3, High: -0.1}, P: 0.002, Outcome: delta.Better, Latency: true},
			{Name: "p99", NA: 4, NB: 6, A: delta.Interval{Estimate: 50 * ms, Low: 40 * ms, High: 60 * ms}, B: delta.Interval{Estimate: 51 * ms, Low: 41 * ms, High: 61 * ms}, Difference: delta.Interval{Estimate: 0.02, Low: -0.1, High: 0.15}, P: 0.7, Outcome: delta.NotShown, Latency: true},
		},
	}, {
		Mode: "handoff", Plan: "demo", VerdictA: audit.Exact, VerdictB: audit.Exact, FindingA: audit.Confirmed, FindingB: audit.Confirmed, Samples: delta.Windows,
		Figures: []delta.Figure{
			{Name: "accepted/s", NA: 3, NB: 20, A: delta.Interval{Estimate: 2000, Low: 1900, High: 2100}, B: delta.Interval{Estimate: 2100, Low: 2000, High: 2200}, P: 1, Outcome: delta.TooFew},
			{Name: "p50", P: 1, Outcome: delta.NoSamples, Latency: true},
			{Name: "p99", NA: 5, NB: 20, A: delta.Interval{Estimate: 50 * ms, Low: 40 * ms, High: 60 * ms}, B: delta.Interval{Estimate: 70 * ms, Low: 60 * ms, High: 80 * ms}, P: 1, Outcome: delta.Unlike, Latency: true},
		},
	}}
	a, b := side("before.json"), side("after <b>.json")
	a.Runs, a.Noisy, a.Why = 6, 2, "others used 1.5 cores before the run"
	b.Partial = true
	return delta.Report{
		A: a, B: b, Confidence: 0.95, Rows: rows, OnlyA: []string{"mutex"}, OnlyB: []string{"queue"},
		Differs: []delta.Differing{{What: "CPUs", A: "2", B: "8"}}, Plans: []delta.Differing{{What: "vus", A: "40", B: "50"}},
		Command: "bin/shop compare before.json after.json",
	}
}

func TestWriteDelta(t *testing.T) {
	t.Parallel()
	for _, lang := range words.Languages {
		var text, markdown strings.Builder
		if err := WriteDelta(&text, deltaReport(), Style{Lang: lang}); err != nil {
			t.Fatal(err)
		}
		golden(t, "delta_"+lang+".txt", text.String())
		if err := WriteDeltaMarkdown(&markdown, deltaReport(), lang); err != nil {
			t.Fatal(err)
		}
		golden(t, "delta_"+lang+".md", markdown.String())
	}
}

// Reasons to doubt the comparison are above the table; if nothing differs, the first sentence below the table says so.
func TestDeltaSaysItPlainly(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := deltaReport()
	r.Rows[0].Figures = r.Rows[0].Figures[2:]
	if err := WriteDelta(&b, r, Style{Lang: "en"}); err != nil {
		t.Fatal(err)
	}
	table := strings.Index(b.String(), "─")
	for _, above := range []string{"The plans differ", "vus: 40 in A, 50 in B", "The environments differ", "after <b>.json was interrupted", "before.json: 2 of 6 runs noisy", "lua-lock: EXACT ✓ in A, BROKEN O ✗ in B"} {
		if at := strings.Index(b.String(), above); at < 0 || at > table {
			t.Errorf("%q is not above the table:\n%s", above, b.String())
		}
	}
	for _, below := range []string{"\nNo difference is shown (figures: 1).\n", "too narrow", "no difference shown  +2.0% (-10.0 to +15.0)", "too few samples  ", "p99 of windows of different lengths are not compared"} {
		if !strings.Contains(b.String(), below) {
			t.Errorf("no %q:\n%s", below, b.String())
		}
	}
}

// The page of a comparison is a single safe file, too.
func TestDeltaPage(t *testing.T) {
	t.Parallel()
	for _, lang := range words.Languages {
		var b strings.Builder
		r := deltaReport()
		r.A.Command = "bin/shop demo --sql shop:s3cret@tcp"
		if err := WriteDeltaPage(&b, r, lang, []string{"s3cret"}); err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			if slices.Contains([]string{"script", "b", "img"}, n.Data) && n.Parent.Data != "span" {
				t.Errorf("%s: there is a <%s> in <%s>", lang, n.Data, n.Parent.Data)
			}
		}
		text := b.String()
		for _, bad := range []string{"s3cret", "http://", "https://", "url(", "ZgotmplZ", "NaN"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page has %q", lang, bad)
			}
		}
		for _, want := range []string{"before.json", "after &lt;b&gt;.json", "bin/shop compare before.json after.json", words.Say(lang, "outcome worse"), "-20.0%", `class="banner bad"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page has no %q", lang, want)
			}
		}
	}
}

// A p-value is never shown as zero.
func TestDeltaLeastP(t *testing.T) {
	t.Parallel()
	r := deltaReport()
	r.Rows[0].Figures[0].P = 1e-6
	if got, want := deltaGrid(r, "en").rows[0].cells[6].text, "<0.001"; got != want {
		t.Errorf("p is %q, want %q", got, want)
	}
}
