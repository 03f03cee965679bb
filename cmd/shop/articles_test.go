package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/testenv"
)

// articleRow is a row of docs/articles.md, but for its words.
type articleRow struct{ verdict, mode, command string }

var (
	modeMention = regexp.MustCompile("\\[`([a-z-]+)`\\]")
	modeLink    = regexp.MustCompile("^\\[`([a-z-]+)`\\]\\(modes/([a-z-]+)(?:\\.zh)?\\.md\\)$")
)

// articleRows reads the rows of a language, by section.
func articleRows(t *testing.T, name string) (sections [][]articleRow) {
	t.Helper()
	text := strings.Replace(readDoc(t, name), numbersBlock(t, name), "", 1) // has rows of another kind
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			sections = append(sections, nil)
		}
		cells := cellsOf(line)
		if len(cells) == 0 || cells[1] == "" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 5 || slices.Contains(cells, "") {
			t.Errorf("%s: want five full cells: %s", name, line)
			continue
		}
		mode := modeLink.FindStringSubmatch(cells[2])
		if len(mode) != 3 || mode[1] != mode[2] || strings.Contains(name, ".zh.") != strings.Contains(cells[2], ".zh.") {
			t.Errorf("%s: want a link to the page of a mode, in this language: %s", name, cells[2])
			continue
		}
		last := len(sections) - 1
		sections[last] = append(sections[last], articleRow{cells[1], mode[1], strings.Trim(cells[3], "`")})
	}
	return sections
}

// TestArticles: both languages map the five write-ups to the same modes and commands, which exist, and a reader finds their words.
func TestArticles(t *testing.T) {
	en, zh := articleRows(t, "docs/articles.md"), articleRows(t, "docs/articles.zh.md")
	if diff := cmp.Diff(en, zh, cmp.AllowUnexported(articleRow{})); diff != "" {
		t.Errorf("the languages differ (-en +zh):\n%s", diff)
	}
	if len(en) < 5 {
		t.Fatalf("%d sections, want one for each write-up", len(en))
	}
	known := knownModes()
	for i, rows := range en {
		if i < 5 && len(rows) < 12 {
			t.Errorf("write-up %d has %d rows, want a dozen at least", i+1, len(rows))
		}
		for _, r := range rows {
			if !slices.Contains([]string{"✓", "✗", "½"}, r.verdict) || !known[r.mode] {
				t.Errorf("%+v: want a verdict and a mode", r)
			}
			wantCommand(t, "docs/articles", r.command)
			wantItsMode(t, r)
		}
	}
	for _, name := range []string{"docs/articles.md", "docs/articles.zh.md"} { // a load sells the product that the curls ask for
		if !strings.Contains(readDoc(t, name), "curl -X PUT localhost:8080/products/101/stock ") {
			t.Errorf("%s does not say how to put stock in again, after a load has sold it", name)
		}
	}
	text := readDoc(t, "docs/articles.zh.md")
	for _, word := range strings.Fields("案例1 案例2 案例3 案例4 案例5 案例6 多例模式 事务模式 集群模式 羊群效应 脑裂 延迟重启 误删 续期 重入 CAP Curator 优惠券 闰秒 乐观锁 悲观锁 QPS") {
		if !strings.Contains(text, word) {
			t.Errorf("docs/articles.zh.md: a reader who searches for %s finds nothing", word)
		}
	}
}

// wantItsMode checks that the command of a row runs the row's mode, if it names any.
func wantItsMode(t *testing.T, r articleRow) {
	t.Helper()
	for _, names := range modeIn.FindAllStringSubmatch(r.command, -1) {
		lacksTTL := r.mode == "setnx-ttl" && names[1] == "setnx" // the same lock without its TTL, to show what the TTL is for
		if !lacksTTL && !slices.Contains(strings.Split(names[1], ","), r.mode) {
			t.Errorf("%+v: the command does not run the mode of its row", r)
		}
	}
}

// wantCommand checks a command of a table: it is of a kind that we have, and all that it names exists.
func wantCommand(t *testing.T, doc, command string) {
	t.Helper()
	kind, _, _ := strings.Cut(command, " ")
	switch {
	case kind == "make", kind == "curl", strings.HasPrefix(command, "go test "):
	case kind == "bin/shop":
		if !shopCall.MatchString(command) {
			t.Errorf("%s: %s: no command of shop", doc, command)
		}
	default:
		t.Errorf("%s: %s: want make, curl, go test or bin/shop", doc, command)
	}
	wantRuns(t, doc, command)
}

// TestPageRuns runs the curls of tables in docs/, and a write-up, against a stack with embedded backends, as 'shop up' leaves it.
func TestPageRuns(t *testing.T) {
	testenv.Slow(t, "runs the commands of all pages")
	t.Parallel()
	testenv.Program(t, "curl", "curl")
	var commands []string
	for _, name := range pagesWithCurls {
		n := len(commands)
		for line := range strings.Lines(readDoc(t, name)) {
			for _, cell := range cellsOf(line) {
				if strings.HasPrefix(cell, "`curl ") {
					commands = append(commands, strings.Trim(cell, "`"))
				}
			}
		}
		if len(commands) == n {
			t.Errorf("%s has no curl at all: the test does not see what it should", name)
		}
	}
	stack := embeddedStack(t, 1)
	if err := firstStock(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if status, body := curl(t, stack, command); status != "200" {
			t.Errorf("%s\nanswers %s, want 200: %s", command, status, body)
		}
	}
	_, before := curl(t, stack, "curl localhost:8080/products/101")
	if err := firstStock(t.Context(), stack); err != nil || !strings.Contains(before, `"stock":`) {
		t.Error(err, before)
	}
	if _, after := curl(t, stack, "curl localhost:8080/products/101"); after != before {
		t.Errorf("a product that was there: %s, want it left alone: %s", after, before)
	}
	testWriteUpRuns(t, stack)
}

// pagesWithCurls are the pages with curls in their tables.
var pagesWithCurls = []string{"docs/write-ups.md", "docs/articles.md", "docs/choose.md"}

var (
	localLink = regexp.MustCompile(`\]\(([^)\s:]*)#([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor    = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf are the fragments that lead into a page: of its headings, as GitHub makes them, and of its anchors.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	text = fences.ReplaceAllString(text, "")
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-")] = true
	}
	for _, a := range anchor.FindAllStringSubmatch(text, -1) {
		all[a[1]] = true
	}
	return all
}

// TestFragments: a link into a page leads to a heading or an anchor of it.
func TestFragments(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root, "README.md"), filepath.Join(root, "README.zh.md"))
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range localLink.FindAllStringSubmatch(fences.ReplaceAllString(string(text), ""), -1) {
			target := file
			if l[1] != "" {
				target = filepath.Join(filepath.Dir(file), l[1])
			}
			there, err := os.ReadFile(target)
			if err != nil || !anchorsOf(string(there))[l[2]] {
				t.Errorf("%s: %s leads nowhere (%v)", file, l[0], err)
			}
			seen++
		}
	}
	if seen < 4 {
		t.Errorf("%d links into pages: the test does not see what it should", seen)
	}
}
