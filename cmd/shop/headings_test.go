package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// headingLine is a line of the list of headings: the heading, its context, and where to look.
var headingLine = regexp.MustCompile(`(?m)^\* \*\*(.+?)\*\*.*?→ (.+)$`)

// TestArticleHeadings: the headings that the tables of docs/articles.md do not have word by word are listed below them, each with the
// beginning of a row, or a link; the same headings in both languages.
func TestArticleHeadings(t *testing.T) {
	var before []string
	for _, name := range []string{"docs/articles.md", "docs/articles.zh.md"} {
		text := readDoc(t, name)
		var rows []string
		for line := range strings.Lines(text) {
			if cells := cellsOf(line); len(cells) == 5 {
				rows = append(rows, cells[0])
			}
		}
		var headings []string
		for _, m := range headingLine.FindAllStringSubmatch(text, -1) {
			headings = append(headings, m[1])
			if strings.HasPrefix(m[2], "[") { // a link, which another test follows
				continue
			}
			if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, m[2]) }) {
				t.Errorf("%s: %s leads to %q, with which no row begins", name, m[1], m[2])
			}
		}
		for general, want := range map[string]int{"实现思路": 4, "存在的问题": 4, "引入依赖": 2, "实现": 2, "注意事项": 2, "分布式锁": 1, "Redisson": 1,
			"Redisson实现分布式锁": 1, "问题 1：锁丢失问题": 1, "如何解决上述超卖问题": 1} { // as often as the write-ups have them
			if got := len(slices.DeleteFunc(slices.Clone(headings), func(h string) bool { return h != general })); got != want {
				t.Errorf("%s lists the heading %s %d times, want %d", name, general, got, want)
			}
		}
		if diff := cmp.Diff(before, headings); before != nil && diff != "" {
			t.Errorf("the languages list other headings (-en +zh):\n%s", diff)
		}
		before = headings
	}
}
