package docs_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/docs"
	"lastitem/internal/api"
	"lastitem/internal/report"
	"lastitem/internal/stock"
	"lastitem/internal/testkit/doctest"
)

var (
	modeLink  = regexp.MustCompile("^\\[`([a-z-]+)`\\]\\(modes/([a-z-]+)(?:\\.zh)?\\.md\\)$")
	numbers   = regexp.MustCompile(`(?s)<!-- numbers:begin -->.*<!-- numbers:end -->`)
	isCommand = regexp.MustCompile("^`(?:make|curl) |^`bin/shop [a-z]|^`go test (?:-v )?-run '\\^\\w+\\$' \\./\\S+`$")
	ofHandoff = regexp.MustCompile("[)`]\\.([A-Z]\\w*)")
)

// kinds are the kinds of cells of a table. What a command or a test names is tested by TestDocsNameWhatExists.
var kinds = map[string]func(cell string) bool{
	"text":    func(cell string) bool { return cell != "" },
	"verdict": func(cell string) bool { return slices.Contains([]string{"✓", "✗", "½"}, cell) },
	"mode":    func(cell string) bool { return slices.Contains(modeNames(), strings.Trim(cell, "`")) },
	"link":    func(cell string) bool { return linkedMode(cell) != "" },
	"test":    regexp.MustCompile("^`\\w+\\.Test\\w+`$").MatchString,
	"command": isCommand.MatchString,
	"source":  regexp.MustCompile(`^\[[^\]]+\]\(https://[^)]+\)$`).MatchString,
	"code":    regexp.MustCompile("^`[^`]+`$").MatchString,
	"number":  regexp.MustCompile(`^\d+$`).MatchString,
}

// linkedMode is the mode to whose page a cell leads; "" = it does not.
func linkedMode(cell string) string {
	m := modeLink.FindStringSubmatch(cell)
	if len(m) == 0 || m[1] != m[2] || !slices.Contains(modeNames(), m[1]) {
		return ""
	}
	return m[1]
}

// A table is in which of the tables of a document what a row holds. All tables of that many columns with the first of these heads are meant.
var schemas = []struct {
	doc, kinds string
	tables     [2]int // the first, and the one after the last; 0 = all others
	rows       int    // so many at least, in each of the first tables, or in all of them together
	each       int    // how many tables have so many rows each; 0 = together
	words      string // what a reader searches for and finds, in both languages
}{
	{doc: "write-ups", kinds: "text verdict text mode test command", rows: 60},
	{doc: "articles", kinds: "text verdict link command text", rows: 12, each: 5, words: "curl_-X_PUT_localhost:8080/products/101/stock_"},
	{doc: "choose", kinds: "number text text text", tables: [2]int{0, 1}, rows: 2},
	{doc: "choose", kinds: "link text" + strings.Repeat(" text", len(stock.Hazards)) + " text command", tables: [2]int{1, 2}, rows: 2},
	{doc: "choose", kinds: "text text link command link", tables: [2]int{2, 3}, rows: 2, words: "1205 1213 1062 not_locked_by_current_thread"},
	{doc: "track-record", kinds: "text source command code number", rows: 15},
}

// tablesOf returns the tables of a document without its block of numbers.
func tablesOf(t *testing.T, doc string) [][][]string {
	t.Helper()
	return doctest.Tables(numbers.ReplaceAllString(doctest.Read(t, doc), ""))
}

// TestTables: the cells of the tables are of their kinds, and full; those that are in no language are the same in both.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, s := range schemas {
		var same [2][]string
		for i, lang := range langs {
			doc := "docs/" + docs.Name(s.doc, lang)
			tables := tablesOf(t, doc)
			if s.tables[1] > 0 {
				tables = tables[s.tables[0]:s.tables[1]]
			}
			for _, table := range tables[:s.each] {
				wantSeen(t, "rows of a table of "+doc, len(table), s.rows)
			}
			rows := slices.Concat(tables...)
			wantSeen(t, "rows of "+doc, len(rows), s.rows)
			want := strings.Fields(s.kinds)
			for _, row := range rows {
				if len(row) != len(want) {
					t.Errorf("%s: want %d cells: %q", doc, len(want), row)
					continue
				}
				for at, kind := range want {
					if !kinds[kind](row[at]) || kind == "link" && strings.Contains(row[at], ".zh.md") != (lang == "zh") {
						t.Errorf("%s: %q: want a %s in %q", doc, row[at], kind, row)
					}
					if kind != "text" && kind != "link" && kind != "source" {
						same[i] = append(same[i], row[at])
					}
				}
			}
			for word := range strings.FieldsSeq(s.words) {
				if word = strings.ReplaceAll(word, "_", " "); !strings.Contains(doctest.Read(t, doc), word) {
					t.Errorf("%s: a reader who searches for %q finds nothing", doc, word)
				}
			}
		}
		if diff := cmp.Diff(same[0], same[1]); diff != "" {
			t.Errorf("%s: the languages differ (-en +zh):\n%s", s.doc, diff)
		}
	}
}

// TestWriteUps: every claim is there once, a command that is a test is that of its row, and no mode and no exhibit is left out.
func TestWriteUps(t *testing.T) {
	t.Parallel()
	all, err := declared()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range slices.Concat(tablesOf(t, "docs/write-ups.md")...) {
		mode, test := strings.Trim(row[3], "`"), strings.Trim(row[4], "`")
		pkg, name, _ := strings.Cut(test, ".")
		if command := strings.Trim(row[5], "`"); strings.HasPrefix(command, "go test") &&
			(!strings.HasPrefix(command, "go test -run '^"+name+"$' ./") || !strings.HasSuffix(command, "/"+pkg)) {
			t.Errorf("%s: want the test %s", command, test)
		}
		for _, what := range []string{row[0], mode, test} {
			seen[what]++
		}
		if seen[row[0]] > 1 {
			t.Errorf("twice: %s", row[0])
		}
	}
	names := modeNames()
	for name := range all["internal/writeups"] {
		if strings.HasPrefix(name, "Test") {
			names = append(names, "writeups."+name)
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

// TestArticles: a command runs the mode of its row, and a reader finds the words of the write-ups: in the rows, or in the list of headings
// that the rows do not have word by word, each with the beginning of a row, or a link. Headings that say little are there as often as the
// write-ups have them.
func TestArticles(t *testing.T) {
	t.Parallel()
	var lists [2][]string
	for i, lang := range langs {
		doc := "docs/" + docs.Name("articles", lang)
		rows := slices.Concat(tablesOf(t, doc)...)
		for _, row := range rows {
			mode := linkedMode(row[2])
			for _, names := range modeIn.FindAllStringSubmatch(row[3], -1) {
				lacksTTL := mode == "setnx-ttl" && names[1] == "setnx" // the same lock without its TTL, to show what the TTL is for
				if !lacksTTL && !slices.Contains(strings.Split(names[1], ","), mode) {
					t.Errorf("%s: %s: does not run %s, the mode of its row", doc, row[3], mode)
				}
			}
		}
		for _, m := range headingLine.FindAllStringSubmatch(doctest.Read(t, doc), -1) {
			lists[i] = append(lists[i], m[1])
			begins := func(row []string) bool { return strings.HasPrefix(row[0], m[2]) }
			if !strings.HasPrefix(m[2], "[") && !slices.ContainsFunc(rows, begins) {
				t.Errorf("%s: %s leads to %q, with which no row begins", doc, m[1], m[2])
			}
		}
		for heading, want := range map[string]int{
			"实现思路": 4, "存在的问题": 4, "引入依赖": 2, "实现": 2, "注意事项": 2, "分布式锁": 1, "Redisson": 1,
			"Redisson实现分布式锁": 1, "问题 1：锁丢失问题": 1, "如何解决上述超卖问题": 1,
		} {
			if n := strings.Count("\n"+strings.Join(lists[i], "\n\n")+"\n", "\n"+heading+"\n"); n != want {
				t.Errorf("%s: the heading %s is there %d times, want %d", doc, heading, n, want)
			}
		}
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("the languages list other headings: %q and %q", lists[0], lists[1])
	}
	for word := range strings.FieldsSeq(`案例1 案例2 案例3 案例4 案例5 案例6 多例模式 事务模式
		集群模式 羊群效应 脑裂 延迟重启 误删 续期 重入 CAP Curator 优惠券 闰秒 乐观锁 悲观锁 QPS`) {
		if !strings.Contains(doctest.Read(t, "docs/articles.zh.md"), word) {
			t.Errorf("a reader who searches for %q finds nothing", word)
		}
	}
}

// TestChoose: at most twelve questions, each of which is reached and leads on; each answer is a mode, the claims beside it are those of the
// mode, and its command runs it.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, lang := range langs {
		doc := "docs/" + docs.Name("choose", lang)
		tables := tablesOf(t, doc)
		if len(tables) != 3 || len(tables[0]) > 12 {
			t.Fatalf("%s has %d tables, want at most twelve questions, answers and symptoms", doc, len(tables))
		}
		reached, leaves := map[string]bool{"1": true}, map[string]bool{}
		for i, row := range tables[0] {
			if row[0] != strconv.Itoa(i+1) || !reached[row[0]] {
				t.Errorf("%s: %v: want question %d, to which another leads", doc, row, i+1)
			}
			for _, to := range row[2:] {
				next, isQuestion := strings.CutPrefix(to, "→ ")
				n, _ := strconv.Atoi(next)
				reached[next] = true
				switch {
				case isQuestion && (n <= i+1 || n > len(tables[0])), !isQuestion && linkedMode(to) == "":
					t.Errorf("%s: question %d leads to %s, want a later question or a mode", doc, i+1, to)
				case !isQuestion:
					leaves[linkedMode(to)] = true
				}
			}
		}
		answered := map[string]bool{}
		for _, row := range tables[1] {
			mode := linkedMode(row[0])
			answered[mode] = true
			at := slices.Index(modeNames(), mode)
			if !slices.Equal(stock.Modes()[at].Claims[stock.Store(row[1])].Row(), row[2:2+len(stock.Hazards)]) {
				t.Errorf("%s: %v: these are not the claims of the mode", doc, row)
			}
			if m := modeIn.FindStringSubmatch(row[len(row)-1]); len(m) != 2 || m[1] != mode {
				t.Errorf("%s: %s does not run %s", doc, row[len(row)-1], mode)
			}
		}
		if diff := cmp.Diff(leaves, answered); diff != "" {
			t.Errorf("%s: the questions lead to others than the answers (-questions +answers):\n%s", doc, diff)
		}
		paragraph := strings.SplitN(doctest.Read(t, doc), "\n\n", 3)[1]
		m := regexp.MustCompile("\\[`([a-z-]+)`\\]").FindStringSubmatch(paragraph)
		if len(m) != 2 || !leaves[m[1]] {
			t.Errorf("%s: want the default answer in its first line, a mode that the questions lead to: %s", doc, paragraph)
		}
	}
}

// TestEssayTables: the hazards of an essay are the claims of its mode, and it has a command.
func TestEssayTables(t *testing.T) {
	t.Parallel()
	for _, m := range stock.Modes() {
		var want [][]string
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
		for _, lang := range langs {
			essay, err := docs.Essay(m.Name, lang)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]string
			for _, row := range slices.Concat(doctest.Tables(essay)...) {
				if len(row) > 2 && slices.Contains(stock.Hazards, row[0]) {
					got = append(got, row[:len(row)-1])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: hazards against claims (-want +got):\n%s", m.Name, lang, diff)
			}
			if len(doctest.OutlineOf(essay).Commands) == 0 {
				t.Errorf("%s, %s: no command", m.Name, lang)
			}
		}
	}
}

// TestInterview: every question has one command, and what it prints; what an exhibit prints is held to it by the exhibit. The first twelve
// questions are those of the write-ups, each with a short answer, the usual wrong one and what follows.
func TestInterview(t *testing.T) {
	t.Parallel()
	mutants := doctest.Read(t, "internal/stock/mutants_test.go")
	passed := regexp.MustCompile(`\bPASS: (Test\w+)/(\w+)`)
	for doc, parts := range map[string][]string{
		"docs/interview.md":    {"\n**In 30 seconds:** ", "\n**Often answered, and wrong:** ", "\n**Then they ask:** "},
		"docs/interview.zh.md": {"\n**30 秒回答**：", "\n**常见错误答案**：", "\n**追问**："},
	} {
		questions := strings.Split(doctest.Read(t, doc), "\n### ")[1:]
		wantSeen(t, "questions of "+doc, len(questions), 25)
		for i, q := range questions {
			title, _, _ := strings.Cut(q, "\n")
			if n := len(doctest.OutlineOf(q).Commands); n != 1 || !strings.HasPrefix(title, fmt.Sprintf("%d. ", i+1)) {
				t.Errorf("%s: %q has %d commands, want 1, and number %d", doc, title, n, i+1)
			}
			for _, part := range parts {
				if n := strings.Count(q, part); n != map[bool]int{true: 1}[i < 12] {
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

// TestLocks: the Go code of docs/locks.md stands, line for line, in an example that is run; each lock has its constructor.
func TestLocks(t *testing.T) {
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
	all, err := declared()
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range langs {
		page, rows := "docs/"+docs.Name("locks", lang), 0
		for _, table := range tablesOf(t, page) {
			if table[0][0] != "`mutex`" {
				continue
			}
			for _, row := range table {
				rows++
				if !ofLocks.MatchString(row[1]) {
					t.Errorf("%s: %s: %q names no constructor with its package", page, row[0], row[1])
				}
				for _, m := range ofHandoff.FindAllStringSubmatch(row[1], -1) {
					isMethod := func(name string) bool { return strings.HasSuffix(name, "."+m[1]) }
					if !slices.ContainsFunc(slices.Collect(maps.Keys(all["handoff"])), isMethod) {
						t.Errorf("%s: %s: there is no method %s", page, row[0], m[1])
					}
				}
			}
		}
		wantSeen(t, "constructors in "+page, rows, 20)
	}
}

// TestReadme: the table of problem codes is complete and right, the first command stands where it is seen at once, and nothing has grown
// too long.
func TestReadme(t *testing.T) {
	t.Parallel()
	want := map[api.Code]string{}
	for code, facts := range api.Codes {
		want[code] = strconv.Itoa(facts.Status)
	}
	for _, lang := range langs {
		name, got := docs.Name("README", lang), map[api.Code]string{}
		text := doctest.Read(t, name)
		for _, row := range slices.Concat(doctest.Tables(text)...) {
			if len(row) == 3 && kinds["number"](row[2]) {
				for _, code := range doctest.Span.FindAllStringSubmatch(row[1], -1) {
					got[api.Code(code[1])] = row[2]
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: codes (-want +got):\n%s", name, diff)
		}
		before, _, ok := strings.Cut(text, "\n```sh\nmake demo")
		if line := strings.Count(before, "\n") + 3; !ok || line > 25 {
			t.Errorf("%s: make demo is on line %d, want it by line 25", name, line)
		}
		if n := strings.Count(text, "\n"); n > 250 {
			t.Errorf("%s has %d lines, want at most 250", name, n)
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
