package report

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lastitem/loadtest"
	"lastitem/loadtest/client"
	"lastitem/loadtest/compare"
	"lastitem/say/text"
	"lastitem/testkit"
	"lastitem/testkit/resulttest"
)

// pageComparison has everything that a page can show, with markup and secrets in the strings that come from outside.
func pageComparison() compare.Comparison {
	c := fullComparison()
	for i := range c.Results {
		r := &c.Results[i]
		r.Curve = []loadtest.Point{{Value: time.Millisecond}, {Percentile: 50, Value: 3 * time.Millisecond},
			{Percentile: 99, Value: 40 * time.Millisecond}, {Percentile: 100, Value: 90 * time.Millisecond}}
		r.Series = nil
		for at := range 20 {
			w := loadtest.Window{At: time.Duration(at) * 50 * time.Millisecond, For: 50 * time.Millisecond,
				Accepted: int64(20 + at%7), Refused: int64(at)}
			if at == 9 {
				w.Accepted = 0
			} else {
				w.P50, w.P90, w.P99 = time.Millisecond, 2*time.Millisecond, time.Duration(3+at%4)*time.Millisecond
			}
			r.Series = append(r.Series, w)
		}
	}
	c.Check([]compare.Threshold{parsed("p(99)<50ms"), parsed("oversold==0")})
	c.Stack = []string{"redis: redis-server 7.0.15 at 127.0.0.1:6379", "sql: shop:pa+ss<wo&rd@tcp(127.0.0.1:3306)"}
	c.Command = "bin/shop demo --mode 'unsafe,mutex'"
	c.Failed[0].Why = `<script>alert("t0ken-of-mine")</script>`
	c.Failed[0].Log = []string{"replica 1: Authorization: Bearer t0ken-of-mine"}
	c.Skipped = append(c.Skipped, compare.SkippedMode{Mode: `"><img src=x onerror=alert(1)>`, Why: "bad ' name"})
	return c
}

func parsed(text string) compare.Threshold {
	t, err := compare.ParseThreshold(text)
	if err != nil {
		panic(err)
	}
	return t
}

// written writes the page, and returns it as text and as a parsed tree.
func written(t *testing.T, c compare.Comparison, lang string) (string, *html.Node) {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, WritePage(&b, c, lang, []string{"t0ken-of-mine", "pa+ss<wo&rd"}))
	root, err := html.Parse(strings.NewReader(b.String()))
	testkit.Must(t, err)
	if dir := os.Getenv("SHOP_PAGES"); dir != "" { // keep the pages, to look at them
		_ = os.WriteFile(dir+"/"+t.Name()+"_"+lang+".html", []byte(b.String()), 0o600)
	}
	return b.String(), root
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf returns the text of a node.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" {
			b.WriteString(d.Data + " ")
		}
	}
	return b.String()
}

// The page loads nothing and runs nothing, and strings from the runs appear in it as text.
func TestPageIsOneSafeFile(t *testing.T) {
	t.Parallel()
	for _, lang := range text.Languages {
		said, root := written(t, pageComparison(), lang)
		for n := range root.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if slices.Contains([]string{"script", "iframe", "object", "embed", "img", "form", "base", "foreignobject"}, n.Data) {
				t.Errorf("%s: there is a <%s>", lang, n.Data)
			}
			for _, a := range n.Attr {
				fetched := slices.Contains([]string{"src", "href", "xlink:href", "srcset", "action", "data"}, a.Key) &&
					a.Val != "data:,"
				if fetched || strings.HasPrefix(a.Key, "on") || strings.Contains(a.Val, "://") || strings.Contains(a.Val, "url(") {
					t.Errorf("%s: <%s %s=%q> loads or runs something", lang, n.Data, a.Key, a.Val)
				}
			}
		}
		for _, bad := range []string{"t0ken-of-mine", "pa+ss", "pa&#43;ss", "<script", "<img", "@import", "url(", "http://",
			"https://", "NaN", "Inf", "ZgotmplZ", "%!"} {
			if strings.Contains(said, bad) {
				t.Errorf("%s: the page has %q: …%s…", lang, bad, said[max(0, strings.Index(said, bad)-60):][:120])
			}
		}
		for _, want := range []string{`content="default-src 'none'`, "&lt;script&gt;", "Bearer ***", "shop:***@tcp"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the page has no %q", lang, want)
			}
		}
	}
}

// Verdicts and thresholds come first, then the charts, the environment, and how to repeat the runs.
func TestPageOrder(t *testing.T) {
	t.Parallel()
	for _, lang := range text.Languages {
		_, root := written(t, pageComparison(), lang)
		var ids []string
		for n := range root.Descendants() {
			if n.Data == "h2" {
				ids = append(ids, attribute(n, "id"))
			}
		}
		if want := []string{"thresholds", "verdicts", "speeds", "modes", "environment", "again"}; !slices.Equal(ids, want) {
			t.Errorf("%s: sections %q, want %q", lang, ids, want)
		}
		said := textOf(root)
		for _, want := range []string{
			text.Of("A claim does not hold.").In(lang), text.Of("✓ kept").In(lang), text.Of("✗ crossed").In(lang), "213",
			"p(99)<50ms",
			"redis-server 7.0.15", "go1.26.8", "Example CPU", "GOMAXPROCS 2", "git checkout v0.1.0",
			"bin/shop demo --mode 'unsafe,mutex'",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the page does not say %q", lang, want)
			}
		}
	}
}

// A page and Markdown group long numbers; a terminal's table keeps the digits, for the programs that read it. An order
// is one word in a terminal, and on a page only its id is.
func TestPageNumbers(t *testing.T) {
	t.Parallel()
	g := grid{columns: []column{{head: "mode"}, {head: "sold", right: true}}, rows: []gridRow{{
		cells: []gridCell{{text: "segments-1000"}, {text: "12000 (1500)"}},
		notes: []string{kept("unit 1: order 0193…201533, replica 3; order 2")},
	}}}
	v := g.view().Rows[0]
	if got, want := v.Cells[1].Text, "12,000 (1,500)"; got != want {
		t.Errorf("the page has %q, want %q", got, want)
	}
	if got, want := v.Notes[0], "unit 1: order 0193…201533, replica 3; order 2"; got != want {
		t.Errorf("the page has %q, want %q", got, want)
	}
	var markdown, text strings.Builder
	g.markdown(&markdown)
	g.write(&text, Style{})
	if !strings.Contains(markdown.String(), "| segments-1000 | 12,000 (1,500) |") ||
		!strings.Contains(text.String(), "segments-1000  12000 (1500)") {
		t.Errorf("%s\n%s", markdown.String(), text.String())
	}
	page, _ := written(t, pageComparison(), "en")
	if want := `order <span class="keep">`; !strings.Contains(page, want) {
		t.Errorf("the page has no %q", want)
	}
}

// Every chart has a title, a description and a table with the same numbers, and every id that a label refers to exists
// once.
func TestPageIsAccessible(t *testing.T) {
	t.Parallel()
	_, root := written(t, pageComparison(), "en")
	ids, named := map[string]int{}, []string{}
	charts, tables := 0, 0
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			ids[id]++
		}
		if id := attribute(n, "aria-labelledby"); id != "" {
			named = append(named, id)
		}
		if n.Data == "svg" && attribute(n, "role") == "img" {
			charts++
			if said := textOf(n); n.FirstChild.NextSibling.Data != "title" && n.FirstChild.Data != "title" || len(said) < 40 {
				t.Errorf("a chart says %q, want a title and a description", said)
			}
			for f := n.Parent; ; f = f.Parent {
				if f.Data == "figure" {
					if strings.Contains(textOf(f), text.Of("the numbers as a table").In("en")) {
						tables++
					}
					break
				}
			}
		}
	}
	if modes := 5; charts != 3*modes+1 || tables != charts {
		t.Errorf("%d charts, %d of them with a table, want %d: three for each mode, and one for all", charts, tables,
			3*modes+1)
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q is there %d times", id, n)
		}
	}
	for _, id := range named {
		if ids[id] == 0 {
			t.Errorf("a label names %q, which is not there", id)
		}
	}
}

// A chart of accepted requests has no point for a window without any.
func TestPageLeavesGaps(t *testing.T) {
	t.Parallel()
	r := pageComparison().Results[3]
	r.Latency[client.Failed] = resulttest.Latency(3, time.Second)
	gaps := string(overTime(r, "en"))
	if got := strings.Count(gaps, "M"); got < 6 {
		t.Errorf("the lines begin %d times, want each of three to begin again after the gap:\n%s", got, gaps)
	}
	if !strings.Contains(gaps, `<td class="number">–</td>`) {
		t.Error("the table has a number for the window without an accepted request")
	}
	if answers := string(answersOverTime(r, "en")); !strings.Contains(answers, "failed") {
		t.Errorf("no line for what failed:\n%s", answers)
	}
}

// With many modes there is no common chart, and without any mode there is still a page.
func TestPageOfManyAndNone(t *testing.T) {
	t.Parallel()
	c := pageComparison()
	for _, name := range []string{"a", "b", "c", "d"} {
		r := c.Results[3]
		r.Mode = name
		c.Results = append(c.Results, r)
	}
	c.Summaries = compare.Summarize(c.Results)
	if got := allCurves(c, "en"); got != "" {
		t.Errorf("9 modes share a chart")
	}
	none := resulttest.Comparison()
	none.Partial = true
	said, _ := written(t, none, "en")
	if !strings.Contains(said, text.Of("Interrupted: the figures are partial.").In("en")) {
		t.Error("a page without runs does not say that it was interrupted")
	}
}

func TestHeadsOnOneLine(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{"over-\nsold": "oversold", "丢失\n更新": "丢失更新", "成交\n(订单)": "成交 (订单)",
		"sold\nout": "sold out", "accepted\n/s": "accepted/s", "中位数\n（95% 区间）": "中位数（95% 区间）"} {
		testkit.Is(t, oneLine(head), want, "oneLine(%q)", head)
	}
}
