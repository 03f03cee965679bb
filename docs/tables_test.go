package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/docs"
	"lastitem/internal/stock"
	"lastitem/say/report"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

var (
	modeLink  = regexp.MustCompile("^\\[`([a-z-]+)`\\]\\(modes/([a-z-]+)((?:\\.zh)?)\\.md\\)$")
	numbers   = regexp.MustCompile(`(?s)<!-- numbers:begin -->.*<!-- numbers:end -->`)
	isCommand = regexp.MustCompile("^`(?:make|curl) |^`bin/shop [a-z]|^`go test (?:-v )?-run '\\^\\w+\\$' \\./\\S+`$")
)

// kinds are the kinds of cells of a table. What a command or a test names is tested by TestDocsNameWhatExists.
var kinds = map[string]func(cell string) bool{
	"text":        func(cell string) bool { return cell != "" },
	"verdict":     regexp.MustCompile(`^[✓✗½]$`).MatchString,
	"mode":        func(cell string) bool { return slices.Contains(modeNames(), strings.Trim(cell, "`")) },
	"link":        func(cell string) bool { return linkedMode(cell) != "" },
	"test":        regexp.MustCompile("^`\\w+\\.Test\\w+`$").MatchString,
	"command":     isCommand.MatchString,
	"source":      regexp.MustCompile(`^\[[^\]]+\]\(https://[^)]+\)$`).MatchString,
	"code":        regexp.MustCompile("^`[^`]+`$").MatchString,
	"number":      regexp.MustCompile(`^\d+$`).MatchString,
	"constructor": ofLocks.MatchString,
}

// linkedMode is the mode to whose page a cell leads; "" = it does not.
func linkedMode(cell string) string {
	m := modeLink.FindStringSubmatch(cell)
	if len(m) == 0 || m[1] != m[2] || !slices.Contains(modeNames(), m[1]) {
		return ""
	}
	return m[1]
}

// schemas say of what kinds the cells of tables are.
var schemas = []struct {
	doc      string
	from, to int // the tables of the document; to 0: all
	rows     int // so many at least, in each table, or together where all are meant
	kinds    string
}{
	{"write-ups", 0, 0, 60, "text verdict text mode test command"},
	{"articles", 0, 0, 60, "text verdict link command text"},
	{"articles", 0, 5, 12, "text verdict link command text"},
	{"choose", 0, 1, 2, "number text text text"},
	{"choose", 1, 2, 2, "link text text" + strings.Repeat(" text", len(stock.Hazards)) + " text command"},
	{"choose", 2, 3, 2, "text text link command link"},
	{"track-record", 0, 0, 15, "text source command code number"},
	{"locks", 1, 2, 20, "text constructor text text text"},
}

// searched are words that a reader searches for, and finds.
var searched = map[string]string{
	"articles.md": "localhost:8080/products/101/stock", // a load sells the product that the curls ask for
	"articles.zh.md": `localhost:8080/products/101/stock 案例1 案例2 案例3 案例4 案例5 案例6 多例模式 事务模式
		集群模式 羊群效应 脑裂 延迟重启 误删 续期 重入 CAP Curator 优惠券 闰秒 乐观锁 悲观锁 QPS`,
	"choose.md": "1205 1213 1062 thread`", "choose.zh.md": "1205 1213 1062 thread`", // not locked by current thread
}

// tablesOf returns the tables of a document in docs/, without its block of numbers.
func tablesOf(t *testing.T, doc, lang string) [][][]string {
	t.Helper()
	return doctest.Tables(numbers.ReplaceAllString(doctest.Read(t, "docs/"+docs.Name(doc, lang)), ""))
}

// TestTables: the cells of the tables are of their kinds, and full. A command runs the mode and the test of its row.
// Other cells are the same in both languages.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, s := range schemas {
		var same [2][]string
		for i, lang := range langs {
			tables := tablesOf(t, s.doc, lang)
			if s.to > 0 {
				tables = tables[s.from:s.to]
				for _, table := range tables {
					wantSeen(t, "rows of a table of "+s.doc, len(table), s.rows)
				}
			}
			rows := slices.Concat(tables...)
			wantSeen(t, "rows of "+s.doc, len(rows), s.rows)
			for _, row := range rows {
				for _, fault := range rowFaults(row, strings.Fields(s.kinds), lang, &same[i]) {
					t.Errorf("%s, %s: %q: %s", s.doc, lang, row, fault)
				}
			}
		}
		if diff := cmp.Diff(same[0], same[1]); diff != "" {
			t.Errorf("%s: the languages differ (-en +zh):\n%s", s.doc, diff)
		}
	}
	for doc, words := range searched {
		for word := range strings.FieldsSeq(words) {
			if !strings.Contains(doctest.Read(t, "docs/"+doc), word) {
				t.Errorf("%s: a reader who searches for %q finds nothing", doc, word)
			}
		}
	}
}

// rowFaults says what is wrong with a row, and adds the cells that are in no language to same.
func rowFaults(row, want []string, lang string, same *[]string) (faults []string) {
	if len(row) != len(want) {
		return []string{fmt.Sprintf("want %d cells", len(want))}
	}
	mode, test := "", ""
	for at, kind := range want {
		cell := row[at]
		if !kinds[kind](cell) || kind == "link" && strings.Contains(cell, ".zh.md") != (lang == "zh") {
			faults = append(faults, fmt.Sprintf("%q: want a %s", cell, kind))
		}
		if !slices.Contains([]string{"text", "link", "source", "constructor"}, kind) {
			*same = append(*same, cell)
		}
		switch kind {
		case "mode":
			mode = strings.Trim(cell, "`")
		case "link":
			mode = linkedMode(cell)
		case "test":
			test = strings.Trim(cell, "`")
		case "command":
			for _, names := range modeIn.FindAllStringSubmatch(cell, -1) {
				lacksTTL := mode == "setnx-ttl" && names[1] == "setnx" // the same lock without its TTL, to show what the TTL is for
				if mode != "" && !lacksTTL && !slices.Contains(strings.Split(names[1], ","), mode) {
					faults = append(faults, cell+" does not run "+mode)
				}
			}
			pkg, name, _ := strings.Cut(test, ".")
			m := ourTest.FindStringSubmatch(strings.Trim(cell, "`"))
			if test != "" && m != nil && (m[3] != name || path.Base(m[4]) != pkg) {
				faults = append(faults, cell+" does not run "+test)
			}
		}
	}
	return faults
}

// TestWriteUps: every claim is there once, and no mode and no exhibit is left out.
func TestWriteUps(t *testing.T) {
	t.Parallel()
	names, seen := modeNames(), map[string]int{}
	for name := range declared(t)["internal/writeups"] {
		if strings.HasPrefix(name, "Test") {
			names = append(names, "writeups."+name)
		}
	}
	for _, row := range slices.Concat(tablesOf(t, "write-ups", "en")...) {
		for _, what := range []string{row[0], strings.Trim(row[3], "`"), strings.Trim(row[4], "`")} {
			seen[what]++
		}
		if seen[row[0]] > 1 {
			t.Errorf("twice: %s", row[0])
		}
	}
	for _, name := range names {
		if seen[name] == 0 {
			t.Errorf("no claim about %s", name)
		}
	}
}

// headingLine is a line of the list of headings: the heading, its context, and where to look.
var headingLine = regexp.MustCompile(`(?m)^\* \*\*(.+?)\*\*.*?→ (.+)$`)

// TestArticles: the headings of the write-ups that the rows do not have word by word are in a list, each with the
// beginning of a row, or a link; those that say little are there as often as the write-ups have them.
func TestArticles(t *testing.T) {
	t.Parallel()
	var lists [2]string
	for i, lang := range langs {
		rows := slices.Concat(tablesOf(t, "articles", lang)...)
		for _, m := range headingLine.FindAllStringSubmatch(doctest.Read(t, "docs/"+docs.Name("articles", lang)), -1) {
			lists[i] += "\n" + m[1] + "\n"
			begins := func(row []string) bool { return strings.HasPrefix(row[0], m[2]) }
			if !strings.HasPrefix(m[2], "[") && !slices.ContainsFunc(rows, begins) {
				t.Errorf("%s: %s leads to %q, with which no row begins", lang, m[1], m[2])
			}
		}
	}
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
		t.Errorf("the languages list other headings (-en +zh):\n%s", diff)
	}
	for heading, want := range map[string]int{
		"实现思路": 4, "存在的问题": 4, "引入依赖": 2, "实现": 2, "注意事项": 2, "分布式锁": 1, "Redisson": 1,
		"Redisson实现分布式锁": 1, "问题 1：锁丢失问题": 1, "如何解决上述超卖问题": 1,
	} {
		if n := strings.Count(lists[0], "\n"+heading+"\n"); n != want {
			t.Errorf("the heading %s is there %d times, want %d", heading, n, want)
		}
	}
}

// TestChoose: at most fifteen questions, each of which is reached and leads on; each answer is a mode, and beside it is
// what it needs and claims. What a symptom is cured with does not oversell.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, lang := range langs {
		tables, choose := tablesOf(t, "choose", lang), doctest.Read(t, "docs/"+docs.Name("choose", lang))
		if len(tables) != 3 || len(tables[0]) > 15 {
			t.Fatalf("%s: %d tables, want at most fifteen questions, answers and symptoms", lang, len(tables))
		}
		reached, leaves, answered := map[string]bool{"1": true}, map[string]bool{}, map[string]bool{}
		for i, row := range tables[0] {
			if row[0] != strconv.Itoa(i+1) || !reached[row[0]] {
				t.Errorf("%s: %v: want question %d, to which another leads", lang, row, i+1)
			}
			for _, to := range row[2:] {
				next, isQuestion := strings.CutPrefix(to, "→ ")
				n, _ := strconv.Atoi(next)
				reached[next] = true
				switch {
				case isQuestion && (n <= i+1 || n > len(tables[0])), !isQuestion && linkedMode(to) == "":
					t.Errorf("%s: question %d leads to %s, want a later question or a mode", lang, i+1, to)
				case !isQuestion:
					leaves[linkedMode(to)] = true
				}
			}
		}
		for _, row := range tables[1] {
			mode := linkedMode(row[0])
			answered[mode] = true
			m := modeOf(mode)
			if needs := needsOf(m); needs != row[2] {
				t.Errorf("%s: %s needs %s, want %s", lang, mode, row[2], needs)
			}
			if !slices.Equal(m.Row(stock.Store(row[1])), row[3:3+len(stock.Hazards)]) {
				t.Errorf("%s: %v: these are not the claims of the mode", lang, row)
			}
			if !modeIn.MatchString(row[len(row)-1]) {
				t.Errorf("%s: %s does not run %s", lang, row[len(row)-1], mode)
			}
		}
		for _, row := range tables[2] {
			cure := linkedMode(row[len(row)-1])
			if m := modeOf(cure); strings.Contains(strings.Join(m.Row(m.Stores[0]), ""), "O") {
				t.Errorf("%s: %s: the cure %s oversells, by its own claims", lang, row[0], cure)
			}
		}
		if diff := cmp.Diff(leaves, answered); diff != "" {
			t.Errorf("%s: the questions lead to others than the answers (-questions +answers):\n%s", lang, diff)
		}
		_, copies, _ := strings.Cut(choose, "[examples/plain]")
		copies, _, _ = strings.Cut(copies, "\n")
		for mode := range leaves {
			_, err := os.Stat(filepath.Join(root, "examples", "plain", strings.ReplaceAll(mode, "-", "_")+".go"))
			if excepted := strings.Contains(copies, "`"+mode+"`"); excepted == (err == nil) {
				t.Errorf("%s: %s is excepted from what can be copied: %t, and its file: %v", lang, mode, excepted, err)
			}
		}
		paragraph := strings.SplitN(choose, "\n\n", 3)[1]
		m := regexp.MustCompile("\\[`([a-z-]+)`\\]").FindStringSubmatch(paragraph)
		if len(m) != 2 || !leaves[m[1]] {
			t.Errorf("%s: want the default answer in the first line, a mode that the questions lead to: %s", lang, paragraph)
		}
	}
}

func modeOf(name string) stock.Mode { return stock.Modes()[slices.Index(modeNames(), name)] }

// needsOf is what a mode needs as docs/choose.md says it: in brackets, if it works without.
func needsOf(m stock.Mode) string {
	var all []string
	for _, b := range m.Required() {
		all = append(all, string(b))
	}
	needs := strings.Join(all, ", ")
	for _, b := range m.Optional {
		needs += " (" + string(b) + ")"
	}
	return needs
}

// byRule are the hazards that an essay leaves out where they cannot happen to any of the mode's stores.
var byRule = []api.Hazard{api.Stale, api.Redelivery, api.Expiry}

// TestEssayTables: the hazards of an essay are the claims of its mode, and it has a command.
func TestEssayTables(t *testing.T) {
	t.Parallel()
	for _, m := range stock.Modes() {
		var want [][]string
		for i, hazard := range stock.Hazards {
			row := []string{hazard}
			happens := false
			for _, s := range m.Stores {
				if o := m.Row(s)[i]; o != "" {
					row, happens = append(row, o), happens || o != "–" || !slices.Contains(byRule, api.Hazard(hazard))
				}
			}
			if happens {
				want = append(want, row)
			}
		}
		for _, lang := range langs {
			essay, err := docs.Essay(m.Name, lang)
			testkit.Must(t, err)
			var got [][]string
			for _, row := range slices.Concat(doctest.Tables(essay)...) {
				if len(row) > 2 && slices.Contains(stock.Hazards, row[0]) {
					got = append(got, row[:len(row)-1])
				}
			}
			testkit.Same(t, got, want, "%s, %s: hazards against claims", m.Name, lang)
			if len(doctest.OutlineOf(essay).Commands) == 0 {
				t.Errorf("%s, %s: no command", m.Name, lang)
			}
		}
	}
}

// TestInterview: every question has one command, and what it prints; what an exhibit prints is held to it by the
// exhibit. Each begins with a short answer. The first twelve questions are those of the write-ups, each with the usual
// wrong answer and what follows.
func TestInterview(t *testing.T) {
	t.Parallel()
	mutants := doctest.Read(t, "internal/stock/mutants_test.go")
	passed := regexp.MustCompile(`\bPASS: (Test\w+)/(\w+)`)
	for doc, parts := range map[string][]string{
		"docs/interview.md": {"\n**In short:** ", "\n**In 30 seconds:** ", "\n**Often answered, and wrong:** ",
			"\n**Then they ask:** "},
		"docs/interview.zh.md": {"\n**一句话**：", "\n**30 秒回答**：", "\n**常见错误答案**：", "\n**追问**："},
	} {
		questions := strings.Split(doctest.Read(t, doc), "\n### ")[1:]
		wantSeen(t, "questions of "+doc, len(questions), 25)
		for i, q := range questions {
			title, _, _ := strings.Cut(q, "\n")
			if n := len(doctest.OutlineOf(q).Commands); n != 1 || !strings.HasPrefix(title, fmt.Sprintf("%d. ", i+1)) {
				t.Errorf("%s: %q has %d commands, want 1, and number %d", doc, title, n, i+1)
			}
			for at, part := range parts {
				if n := strings.Count(q, part); (n == 1) != (at == 0 == (i >= 12)) {
					t.Errorf("%s: question %d has %q %d times", doc, i+1, strings.TrimSpace(part), n)
				}
			}
			for _, sub := range passed.FindAllStringSubmatch(q, -1) {
				if !strings.Contains(mutants, "\""+strings.ReplaceAll(sub[2], "_", " ")+"\":") {
					t.Errorf("%s: %s: no such case", doc, sub[0])
				}
			}
		}
	}
}

// TestLockListings: the Go code of docs/locks.md stands, line for line, in an example that is run.
func TestLockListings(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile(`(?m)^[ \t]+`)
	example, listings := indent.ReplaceAllString(doctest.Read(t, "internal/lock/handoff/examples_test.go"), ""), 0
	for _, code := range doctest.OutlineOf(doctest.Read(t, "docs/locks.md")).Code {
		if strings.Contains(code, "lock.") || strings.Contains(code, "handoff.") {
			listings++
			if !strings.Contains(example, code+"\n") {
				t.Errorf("docs/locks.md: no example has this:\n%s", code)
			}
		}
	}
	wantSeen(t, "listings", listings, 1)
}

// TestReadme: the table of problem codes of docs/http.md is complete and right; in the README the first command stands
// where it is seen at once, and nothing has grown too long.
func TestReadme(t *testing.T) {
	t.Parallel()
	want := map[api.Code]string{}
	for code, facts := range api.Codes {
		want[code] = strconv.Itoa(facts.Status)
	}
	for _, lang := range langs {
		name, got := docs.Name("README", lang), map[api.Code]string{}
		text := doctest.Read(t, name)
		for _, row := range slices.Concat(doctest.Tables(doctest.Read(t, docs.Name("docs/http", lang)))...) {
			if len(row) == 3 && kinds["number"](row[2]) {
				for _, code := range doctest.Span.FindAllStringSubmatch(row[1], -1) {
					got[api.Code(code[1])] = row[2]
				}
			}
		}
		testkit.Same(t, got, want, "docs/http, %s: codes", lang)
		before, _, ok := strings.Cut(text, "\n```sh\nmake demo")
		if line := strings.Count(before, "\n") + 3; !ok || line > 25 {
			t.Errorf("%s: make demo is on line %d, want it by line 25", name, line)
		}
		if n := len(text); n > 9<<10 {
			t.Errorf("%s has %d bytes, want at most 9 KB: two screens", name, n)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(line); n > 161 && line[0] != '|' {
				t.Errorf("%s: a line of %d characters, want at most 160: %.60s", name, n, line)
			}
		}
		for _, block := range doctest.Fences.FindAllString(text, -1) { // a wider one scrolls sideways in a browser
			for line := range strings.Lines(block) {
				if n := report.Width(strings.TrimRight(line, "\n")); n > 110 {
					t.Errorf("%s: a line of code of %d columns, want at most 110: %s", name, n, line)
				}
			}
		}
	}
}
