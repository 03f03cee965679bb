package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	manual "lastitem/docs"
	"lastitem/internal/api"
	"lastitem/internal/stock"
	"lastitem/internal/text"
)

// Tables whose rows must hold more than what TestDocsNameWhatExists wants of each document. That both languages have
// the same modes, verdicts, commands and links is proven by TestTranslationsAgree.

var verdicts = []string{"✓", "✗", "½"}

var modeLink = regexp.MustCompile("^\\[`([a-z-]+)`\\]\\(modes/([a-z-]+)((?:\\.zh)?)\\.md\\)$")

// linkedMode is the mode to whose page a cell leads; "" = it does not, or leads to a page in the other language.
func linkedMode(doc, cell string) string {
	m := modeLink.FindStringSubmatch(cell)
	if len(m) == 0 || m[1] != m[2] || strings.Contains(doc, ".zh.") != (m[3] != "") || !slices.Contains(modeNames(), m[1]) {
		return ""
	}
	return m[1]
}

// rowsOf returns the full rows of the tables with so many columns, and calls others wrong.
func rowsOf(t *testing.T, doc string, columns int) (rows [][]string) {
	t.Helper()
	for _, table := range tablesOf(t, doc) {
		for _, row := range table {
			if len(row) != columns || slices.Contains(row, "") {
				t.Errorf("%s: want %d full cells: %q", doc, columns, row)
				continue
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// wantSameColumns holds columns that are in no language, and that a translation may not change, against each other.
func wantSameColumns(t *testing.T, doc string, columns int, same ...int) {
	t.Helper()
	var facts [2][][]string
	for i, name := range []string{doc + ".md", doc + ".zh.md"} {
		for _, row := range rowsOf(t, name, columns) {
			var cells []string
			for _, at := range same {
				cells = append(cells, row[at])
			}
			facts[i] = append(facts[i], cells)
		}
	}
	if diff := cmp.Diff(facts[0], facts[1]); diff != "" {
		t.Errorf("%s: the languages differ (-en +zh):\n%s", doc, diff)
	}
}

// wantWords checks that a reader who searches for a word finds it.
func wantWords(t *testing.T, doc string, words ...string) {
	t.Helper()
	said := readDoc(t, doc)
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%s: a reader who searches for %q finds nothing", doc, word)
		}
	}
}

// TestWriteUps: every claim has a verdict, a mode, a test and a command that exist, and no mode and no exhibit is left
// out.
func TestWriteUps(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	wantSameColumns(t, "docs/write-ups", 6, 1, 3, 4)
	for _, doc := range []string{"docs/write-ups.md", "docs/write-ups.zh.md"} {
		seen := map[string]int{}
		rows := rowsOf(t, doc, 6)
		for _, row := range rows {
			mode, test := strings.Trim(row[3], "`"), strings.Trim(row[4], "`")
			pkg, name, _ := strings.Cut(test, ".")
			if !slices.Contains(verdicts, row[1]) || !slices.Contains(c.modes, mode) ||
				!slices.Contains(testsIn(t, folderOf(pkg)), name) {
				t.Errorf("%s: %q: want a verdict, a mode and a test", doc, row)
			}
			command := c.wantCell(doc, row[5])
			want := fmt.Sprintf("go test -run '^%s$' ./%s", name, folderOf(pkg))
			if strings.HasPrefix(command, "go test") && command != want {
				t.Errorf("%s: %s: want %s", doc, command, want)
			}
			for _, what := range []string{row[0], mode, test} {
				seen[what]++
			}
			if seen[row[0]] > 1 {
				t.Errorf("%s: twice: %s", doc, row[0])
			}
		}
		if len(rows) < 60 {
			t.Errorf("%s: %d claims, want at least 60", doc, len(rows))
		}
		for _, name := range slices.Concat(c.modes, prefixed("writeups.", testsIn(t, "internal/writeups"))) {
			if seen[name] == 0 {
				t.Errorf("%s: no claim about %s", doc, name)
			}
		}
	}
}

func prefixed(prefix string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}

// folderOf is where a package of that name is.
func folderOf(pkg string) string {
	switch pkg {
	case "loadtest":
		return pkg
	case "coord", "handoff", "lease", "sqllock", "textbook":
		return "internal/lock/" + pkg
	}
	return "internal/" + pkg
}

// headingLine is a line of the list of headings: the heading, its context, and where to look.
var headingLine = regexp.MustCompile(`(?m)^\* \*\*(.+?)\*\*.*?→ (.+)$`)

// TestArticles maps the write-ups to modes and commands, which fit together, and a reader finds their words: in the
// rows, or in the list of headings that the rows do not have word by word, each with the beginning of a row, or a link.
func TestArticles(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	var before []string
	for _, doc := range []string{"docs/articles.md", "docs/articles.zh.md"} {
		var begins []string
		said := strings.Replace(readDoc(t, doc), numbersBlock(t, doc), "", 1) // which has rows of another kind
		sections := strings.Split(said, "\n## ")[1:]
		for i, section := range sections {
			rows := 0
			for line := range strings.Lines(section) {
				cells := cellsOf(line)
				if len(cells) == 0 || cells[1] == "" || strings.HasPrefix(cells[0], "---") {
					continue
				}
				if len(cells) != 5 || slices.Contains(cells, "") || linkedMode(doc, cells[2]) == "" ||
					!slices.Contains(verdicts, cells[1]) {
					t.Errorf("%s: want five full cells, with a verdict and a mode: %s", doc, line)
					continue
				}
				wantItsMode(t, linkedMode(doc, cells[2]), c.wantCell(doc, cells[3]))
				begins, rows = append(begins, cells[0]), rows+1
			}
			if i < 5 && rows < 12 || len(sections) < 5 {
				t.Errorf("%s: write-up %d of %d has %d rows, want five with a dozen at least", doc, i+1, len(sections), rows)
			}
		}
		headings := wantHeadings(t, doc, begins)
		if before != nil && !slices.Equal(before, headings) {
			t.Errorf("the languages list other headings: %q and %q", before, headings)
		}
		before = headings
		wantWords(t, doc, "curl -X PUT localhost:8080/products/101/stock ") // a load sells the product that the curls ask for
	}
	wantWords(t, "docs/articles.zh.md", strings.Fields(`案例1 案例2 案例3 案例4 案例5 案例6 多例模式 事务模式
		集群模式 羊群效应 脑裂 延迟重启 误删 续期 重入 CAP Curator 优惠券 闰秒 乐观锁 悲观锁 QPS`)...)
}

// wantItsMode checks that a command runs the mode of its row, if it names any.
func wantItsMode(t *testing.T, mode, command string) {
	t.Helper()
	for _, names := range modeIn.FindAllStringSubmatch(command, -1) {
		lacksTTL := mode == "setnx-ttl" && names[1] == "setnx" // the same lock without its TTL, to show what the TTL is for
		if !lacksTTL && !slices.Contains(strings.Split(names[1], ","), mode) {
			t.Errorf("%s: does not run %s, the mode of its row", command, mode)
		}
	}
}

// wantHeadings checks where the headings lead, and that those that say little are there as often as the write-ups have
// them.
func wantHeadings(t *testing.T, doc string, rows []string) (headings []string) {
	t.Helper()
	general := map[string]int{
		"实现思路": 4, "存在的问题": 4, "引入依赖": 2, "实现": 2, "注意事项": 2, "分布式锁": 1, "Redisson": 1,
		"Redisson实现分布式锁": 1, "问题 1：锁丢失问题": 1, "如何解决上述超卖问题": 1,
	}
	for _, m := range headingLine.FindAllStringSubmatch(readDoc(t, doc), -1) {
		headings = append(headings, m[1])
		if _, ok := general[m[1]]; ok {
			general[m[1]]--
		}
		begins := func(row string) bool { return strings.HasPrefix(row, m[2]) }
		if !strings.HasPrefix(m[2], "[") && !slices.ContainsFunc(rows, begins) {
			t.Errorf("%s: %s leads to %q, with which no row begins", doc, m[1], m[2])
		}
	}
	for name, missing := range general {
		if missing != 0 {
			t.Errorf("%s: %d more of the heading %s wanted", doc, missing, name)
		}
	}
	return headings
}

// TestChoose: at most twelve questions, each of which is reached and leads on; each answer is one mode with one
// command, and the claims beside it are those of the mode. Every symptom has a mode that shows it, a command and a mode
// to take instead.
func TestChoose(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	for _, doc := range []string{"docs/choose.md", "docs/choose.zh.md"} {
		tables := tablesOf(t, doc)
		if len(tables) != 3 {
			t.Fatalf("%s has %d tables, want questions, answers and symptoms", doc, len(tables))
		}
		leaves := leavesOf(t, doc, tables[0])
		var answered []string
		for _, row := range tables[1] {
			answered = append(answered, c.wantAnswer(doc, row))
		}
		slices.Sort(answered)
		if !slices.Equal(leaves, answered) {
			t.Errorf("%s: the questions lead to %v, and the answers are %v", doc, leaves, answered)
		}
		paragraph := strings.SplitN(readDoc(t, doc), "\n\n", 3)[1]
		m := regexp.MustCompile("\\[`([a-z-]+)`\\]").FindStringSubmatch(paragraph)
		if len(m) != 2 || !slices.Contains(leaves, m[1]) {
			t.Errorf("%s: want the default answer in its first line, a mode that the questions lead to: %s", doc, paragraph)
		}
		for _, row := range tables[2] {
			if len(row) != 5 || slices.Contains(row, "") || linkedMode(doc, row[2]) == "" || linkedMode(doc, row[4]) == "" {
				t.Errorf("%s: %v: want five full cells with two modes", doc, row)
				continue
			}
			c.wantCell(doc, row[3])
		}
		wantWords(t, doc, "1205", "1213", "1062", "not locked by current thread")
	}
}

// leavesOf follows the questions, and returns the modes that they lead to.
func leavesOf(t *testing.T, doc string, questions [][]string) (leaves []string) {
	t.Helper()
	if len(questions) > 12 {
		t.Errorf("%s: %d questions, want at most 12", doc, len(questions))
	}
	reached := map[int]bool{1: true}
	for i, row := range questions {
		if row[0] != strconv.Itoa(i+1) || len(row) != 4 {
			t.Errorf("%s: %v: want question %d with yes and no", doc, row, i+1)
			continue
		}
		for _, to := range row[2:] {
			n, err := strconv.Atoi(strings.TrimPrefix(to, "→ "))
			mode := linkedMode(doc, to)
			if mode == "" && (err != nil || n <= i+1 || n > len(questions)) {
				t.Errorf("%s: question %d leads to %s, want a later question or a mode", doc, i+1, to)
			}
			if mode != "" {
				leaves = append(leaves, mode)
			}
			reached[n] = true
		}
	}
	for i := range questions {
		if !reached[i+1] {
			t.Errorf("%s: no answer leads to question %d", doc, i+1)
		}
	}
	slices.Sort(leaves)
	return slices.Compact(leaves)
}

// wantAnswer checks an answer: its claims are the mode's, and its command runs the mode. It returns the mode.
func (c *commands) wantAnswer(doc string, row []string) string {
	c.t.Helper()
	mode := linkedMode(doc, row[0])
	if mode == "" || len(row) != 4+len(stock.Hazards) {
		c.t.Errorf("%s: %v: want a mode, a store, its claims, words and a command", doc, row)
		return ""
	}
	at := slices.IndexFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == mode })
	if !slices.Equal(stock.Modes()[at].Claims[stock.Store(row[1])].Row(), row[2:2+len(stock.Hazards)]) {
		c.t.Errorf("%s: %v: these are not the claims of the mode", doc, row)
	}
	command := c.wantCell(doc, row[len(row)-1])
	if m := modeIn.FindStringSubmatch(command); len(m) != 2 || m[1] != mode {
		c.t.Errorf("%s: %s does not run %s", doc, command, mode)
	}
	return mode
}

// TestEssayTables: the hazards of an essay are the claims of its mode.
func TestEssayTables(t *testing.T) {
	t.Parallel()
	for _, m := range stock.Modes() {
		for lang := range readmes {
			name := "docs/modes/" + manual.Name(m.Name, lang)
			var want, got [][]string
			for i, hazard := range stock.Hazards {
				row := []string{hazard}
				for _, s := range m.Stores {
					if o := m.Claims[s].Row()[i]; o != "" {
						row = append(row, o)
					}
				}
				if len(row) > 1 {
					want = append(want, row)
				}
			}
			for _, row := range slices.Concat(tablesOf(t, name)...) {
				if len(row) > 2 && slices.Contains(stock.Hazards, row[0]) {
					got = append(got, row[:len(row)-1])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: hazards against claims (-want +got):\n%s", name, diff)
			}
			if len(outlineOf(readDoc(t, name)).Commands) == 0 {
				t.Errorf("%s has no command", name)
			}
		}
	}
}

// TestInterview: every question has one command, and what it prints; what an exhibit prints is held to it by the
// exhibit. The first twelve questions are those of the write-ups, each with a short answer, the usual wrong one and
// what follows.
func TestInterview(t *testing.T) {
	t.Parallel()
	mutants := readDoc(t, "internal/stock/mutants_test.go")
	for doc, parts := range map[string][]string{
		"docs/interview.md":    {"\n**In 30 seconds:** ", "\n**Often answered, and wrong:** ", "\n**Then they ask:** "},
		"docs/interview.zh.md": {"\n**30 秒回答**：", "\n**常见错误答案**：", "\n**追问**："},
	} {
		questions := strings.Split(readDoc(t, doc), "\n### ")[1:]
		if len(questions) < 25 {
			t.Errorf("%s: %d questions, want at least 25", doc, len(questions))
		}
		for i, q := range questions {
			title, _, _ := strings.Cut(q, "\n")
			if n := len(outlineOf(q).Commands); n != 1 || !strings.HasPrefix(title, fmt.Sprintf("%d. ", i+1)) {
				t.Errorf("%s: %q has %d commands, want 1, and number %d", doc, title, n, i+1)
			}
			for _, part := range parts {
				if n := strings.Count(q, part); n != map[bool]int{true: 1}[i < 12] {
					t.Errorf("%s: question %d has %q %d times", doc, i+1, strings.TrimSpace(part), n)
				}
			}
			for _, sub := range regexp.MustCompile(`\bPASS: (Test\w+)/(\w+)`).FindAllStringSubmatch(q, -1) {
				if !strings.Contains(mutants, "\""+strings.ReplaceAll(sub[2], "_", " ")+"\":") {
					t.Errorf("%s: %s: no such case", doc, sub[0])
				}
			}
		}
	}
}

// TestMeanings: every hazard and every letter of the claims is explained, on each page with claims.
func TestMeanings(t *testing.T) {
	t.Parallel()
	for i, m := range api.Hazards {
		if m.Word != stock.Hazards[i] {
			t.Errorf("meaning %d is of %q, want %q", i, m.Word, stock.Hazards[i])
		}
	}
	words := map[string]bool{}
	for _, m := range append(slices.Clone(api.Hazards), api.Letters...) {
		words[m.Word] = true
		for _, said := range []text.Text{m.Short, m.Is, m.Story} {
			if said.En == "" || said.Zh == "" {
				t.Errorf("%q: want all texts in both languages: %+v", m.Word, said)
			}
		}
	}
	for lang := range readmes {
		files := []string{"docs/" + manual.Name("modes", lang), "docs/" + manual.Name("matrix", lang)}
		for _, m := range stock.Modes() {
			if len(m.Stores) > 0 {
				files = append(files, "docs/modes/"+manual.Name(m.Name, lang))
			}
			for store, claims := range m.Claims {
				for i, outcomes := range claims.Row() {
					for _, letter := range outcomes {
						if !words[string(letter)] {
							t.Errorf("%s on %s: %s: %q is not explained", m.Name, store, stock.Hazards[i], letter)
						}
					}
				}
			}
		}
		for _, page := range files {
			if !strings.Contains(readDoc(t, page), api.Definitions(lang)) {
				t.Errorf("%s does not explain its hazards and letters", page)
			}
		}
	}
}

// TestLockListings: the Go code of docs/locks.md stands, line for line, in an example that is run.
func TestLockListings(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile(`(?m)^[ \t]+`)
	example, listings := indent.ReplaceAllString(readDoc(t, "internal/lock/handoff/examples_test.go"), ""), 0
	for _, code := range outlineOf(readDoc(t, "docs/locks.md")).Code {
		if strings.Contains(code, "lock.") || strings.Contains(code, "handoff.") {
			listings++
			if !strings.Contains(example, code+"\n") {
				t.Errorf("docs/locks.md: no example has this:\n%s", code)
			}
		}
	}
	if listings == 0 {
		t.Error("found no listing: the test does not see what it should")
	}
}

// TestLockNames: docs/locks.md names what the packages of the locks declare, and a constructor in each row of its
// table.
func TestLockNames(t *testing.T) {
	t.Parallel()
	source := map[string]string{}
	for _, name := range []string{"lock", "textbook", "handoff", "coord", "sqllock"} {
		files, _ := filepath.Glob(filepath.Join(root, "internal", "lock", strings.TrimPrefix(name, "lock"), "*.go"))
		for _, file := range files {
			source[name] += readDoc(t, strings.TrimPrefix(file, root))
		}
	}
	qualified := regexp.MustCompile(`\b(lock|textbook|handoff|coord|sqllock)\.([A-Z]\w*)`)
	method := regexp.MustCompile("[)`]\\.([A-Z]\\w*)")
	for _, page := range []string{"docs/locks.md", "docs/locks.zh.md"} {
		for _, name := range qualified.FindAllStringSubmatch(readDoc(t, page), -1) {
			if !regexp.MustCompile(`(?m)^(func |type |var |const |\t)` + name[2] + `\b`).MatchString(source[name[1]]) {
				t.Errorf("%s: there is no %s", page, name[0])
			}
		}
		rows := 0
		for _, table := range tablesOf(t, page) {
			if table[0][0] != "`mutex`" {
				continue
			}
			rows += len(table)
			for _, row := range table {
				if !qualified.MatchString(row[1]) {
					t.Errorf("%s: %s: %q names no constructor with its package", page, row[0], row[1])
				}
				for _, m := range method.FindAllStringSubmatch(row[1], -1) {
					if !regexp.MustCompile(`(?m)^func \([^)]*\) ` + m[1] + `\(`).MatchString(source["handoff"]) {
						t.Errorf("%s: %s: there is no method %s", page, row[0], m[1])
					}
				}
			}
		}
		if rows < 20 {
			t.Errorf("%s: %d constructors: the test does not see what it should", page, rows)
		}
	}
}
