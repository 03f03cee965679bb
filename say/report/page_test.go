package report

import (
	"math"
	"strings"
	"testing"

	"lastitem/testkit"
)

func TestHide(t *testing.T) {
	t.Parallel()
	text := `<style>.pass { x: 1 }</style><p class="pass" title="a&gt;b">pass word pass&amp;word+1 &lt;pass&gt; ` +
		`p&#43;w&lt;q abc</p>`
	want := `<style>.pass { x: 1 }</style><p class="pass" title="a&gt;b">*** word ***+1 &lt;***&gt; *** abc</p>`
	if got := Hide(text, []string{"pass", "pass&word", "p+w<q", "abc", ""}); got != want {
		t.Errorf("Hide() = %s\nwant %s", got, want)
	}
	if got := Hide(text, nil); got != text {
		t.Errorf("Hide of nothing = %s", got)
	}
	testkit.Is(t, HidePlain("a token<1> and abc", []string{"token<1>", "abc"}), "a *** and abc", "HidePlain()")
}

// Numbers are grouped, and ids, dates, versions, times and addresses are not.
func TestGrouped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"999": "999", "1000": "1,000", "1234567": "1,234,567", "-12345.6": "-12,345.6", "500 (12000)": "500 (12,000)",
		"20000/-27": "20,000/-27",
		"已售1234件":   "已售1,234件", "sold 1500: 12.3456, 1500.": "sold 1,500: 12.3456, 1,500.", "1000–2000/s": "1,000–2,000/s",
		"2026-11-25 06:53 UTC": "2026-11-25 06:53 UTC", "127.0.0.1:18190": "127.0.0.1:18190", "0193…201533": "0193…201533",
		"1a2000": "1a2000", "1.23456s": "1.23456s",
	} {
		testkit.Is(t, Grouped(text), want, "Grouped(%q)", text)
	}
}

// Ids and options stay on one line, and what is no markup stays none.
func TestKept(t *testing.T) {
	t.Parallel()
	got := string(Kept("order 01a2…9f8e7d, <b> 'shop lab --all' & a--b"))
	want := `order <span class="keep">01a2…9f8e7d</span>, &lt;b&gt; &#39;shop lab <span class="keep">--all</span>&#39; ` +
		`&amp; a--b`
	if got != want {
		t.Errorf("Kept() = %s\nwant %s", got, want)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.05: "0.05", 0.1234: "0.123", 1: "1", 12.5: "12.5", 12.54: "12.5", 340: "340", 1234: "1,234",
		12_340: "12.3k", 3.4e6: "3.4M", -7.5: "-7.5",
	} {
		testkit.Is(t, Short(v), want, "Short(%v)", v)
	}
}

// ticksOf returns the labels of an axis that covers the values.
func ticksOf(log bool, values ...float64) []string {
	a := axis{low: math.Inf(1), high: math.Inf(-1), log: log}
	for _, v := range values {
		a.take(v)
	}
	a.finish(!log)
	var labels []string
	for _, t := range a.ticks(4) {
		if at := a.of(t.At); at < -1e-9 || at > 1+1e-9 {
			labels = append(labels, "outside: "+t.Label)
		}
		labels = append(labels, t.Label)
	}
	return labels
}

// An axis ends at a round number, even if it has no value, a single value, or a value that is not a number.
func TestAxis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		log    bool
		values []float64
		want   string
	}{
		{false, []float64{0, 17}, "0 5 10 15 20"},
		{false, []float64{3}, "0 1 2 3"},
		{false, []float64{0}, "0 0.5 1"},
		{false, nil, "0 0.5 1"},
		{false, []float64{math.NaN(), math.Inf(1), 8}, "0 2 4 6 8"},
		{false, []float64{4100}, "0 2,000 4,000 6,000"},
		{true, []float64{0.4, 250}, "0.1 1 10 100 1,000"},
		{true, []float64{0, -1}, "0.1 1"},
		{true, []float64{10}, "10 100"},
	} {
		got := strings.Join(ticksOf(tt.log, tt.values...), " ")
		testkit.Is(t, got, tt.want, "ticks of %v (log %v)", tt.values, tt.log)
	}
}

// After a gap the line starts again; a single point is drawn as a dot; an area reaches down to the axis.
func TestPath(t *testing.T) {
	t.Parallel()
	x, y := axis{low: 0, high: 10}, axis{low: 0, high: 10}
	nan := math.NaN()
	points := []Point{{0, 0}, {5, 10}, {6, nan}, {7, 5}, {8, nan}, {9, 1}, {10, 1}}
	testkit.Same(t, path(points, x, y, false), "M0 1000L500 0M700 500h0.01M900 900L1000 900", "line")
	testkit.Same(t, path(points, x, y, true), "M0 1000L500 0V1000H0ZM700 500V1000H700ZM900 900L1000 900V1000H900Z", "area")
	y.log, y.low = true, 1
	if got := path([]Point{{0, 0}, {10, 10}}, x, y, false); got != "M1000 0h0.01" {
		t.Errorf("zero on a logarithmic axis: %s, want it left out", got)
	}
}

// With XZero the axis begins at zero, however late the first point is; each line has a name, and the table has the
// numbers.
func TestLines(t *testing.T) {
	t.Parallel()
	c := Lines{
		Title: "course", Unit: "seconds", Desc: "it rises", Show: "open", XZero: true,
		Lines: []Line{{Name: "<p50>", Points: []Point{{5, 1}, {10, 2}}}, {Name: "p99", Area: true}},
		Table: Table{Heads: []string{"s", "p50"}, Rows: [][]string{{"5", "1"}}},
	}
	html := string(c.HTML())
	for _, want := range []string{`d="M500 500L1000 0"`, "<title>course</title><desc>seconds it rises</desc>",
		"&lt;p50&gt;</li>", "<summary>open</summary>", `style="left:0%">0</span>`, `<td class="number">1</td>`} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in:\n%s", want, html)
		}
	}
	c.XZero = false
	if html := string(c.HTML()); !strings.Contains(html, `d="M0 500L1000 0"`) {
		t.Errorf("without XZero:\n%s", html)
	}
}

// The longest bar fills its track, thin lines included.
func TestBars(t *testing.T) {
	t.Parallel()
	html := string(Bars{Title: "<t>", Bars: []Bar{{Name: "a", To: 50, Low: 40, High: 80, Text: "50"}, {Name: "b"}}}.HTML())
	for _, want := range []string{"left:0%;width:62.5%", "left:50%;width:50%", "left:0%;width:0%", "&lt;t&gt;"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q in:\n%s", want, html)
		}
	}
	if html := string(Bars{Log: true, Bars: []Bar{{From: 1, To: 100, Mark: 10}}}.HTML()); !strings.Contains(html,
		"left:0%;width:100%") || !strings.Contains(html, "left:50%") {
		t.Errorf("logarithmic bar:\n%s", html)
	}
}
