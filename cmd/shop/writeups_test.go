package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/stock"
)

// guides are documents in both languages whose commands and names are tested here, by path from the root without ".md".
var guides = []string{"docs/write-ups", "docs/articles", "docs/choose", "docs/glossary", "docs/interview", "docs/locks", "docs/servers", "docs/track-record"}

// knownModes are the names that a document may use.
func knownModes() map[string]bool {
	names := map[string]bool{}
	for _, name := range modeNames() {
		names[name] = true
	}
	return names
}

// testsIn lists the tests and examples of a package, by its folder from the root.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, f[1])
		}
	}
	if len(names) == 0 {
		t.Errorf("no tests in %s", dir)
	}
	return names
}

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	goTest   = regexp.MustCompile(`^go test (?:-v )?-run '\^(\w+)\$' \./(\S+)`)
	faultIn  = regexp.MustCompile(`bin/shop lab .*--fault ([a-z,-]+)`)
	modeIn   = regexp.MustCompile(`(?:MODE=|--mode |deduct_stock/)([a-z,-]+)`)
	subtest  = regexp.MustCompile(`\bPASS: (Test\w+)/(\w+)`)
)

// wantRuns checks a command: the test that it runs is there, and the modes that it names.
func wantRuns(t *testing.T, doc, command string) {
	t.Helper()
	if strings.HasPrefix(command, "go test") {
		call := goTest.FindStringSubmatch(command)
		if len(call) != 3 {
			t.Errorf("%s: %s: want one test of one package", doc, command)
		} else if !slices.Contains(testsIn(t, call[2]), call[1]) {
			t.Errorf("%s: %s: no such test", doc, command)
		}
	}
	for _, names := range faultIn.FindAllStringSubmatch(command, -1) {
		for name := range strings.SplitSeq(names[1], ",") {
			if !slices.Contains(faultNames(), name) {
				t.Errorf("%s: %s: no fault %q", doc, command, name)
			}
		}
	}
	known := knownModes()
	for _, names := range modeIn.FindAllStringSubmatch(command, -1) {
		for name := range strings.SplitSeq(names[1], ",") {
			if !known[name] {
				t.Errorf("%s: %s: no mode %q", doc, command, name)
			}
		}
	}
}

// TestGuidesAgree: both languages have the same sections, tables and commands, and each command runs something that exists.
func TestGuidesAgree(t *testing.T) {
	for _, guide := range guides {
		en, zh := outlineOf(readDoc(t, guide+".md")), outlineOf(readDoc(t, guide+".zh.md"))
		if diff := cmp.Diff(en, zh); diff != "" {
			t.Errorf("%s: the languages differ (-en +zh):\n%s", guide, diff)
		}
		for _, command := range en.Commands {
			wantRuns(t, guide, command)
		}
	}
}

// TestLockListings: the Go code of docs/locks.md stands, line for line, in an example that is run.
func TestLockListings(t *testing.T) {
	var example strings.Builder
	for line := range strings.Lines(readDoc(t, "internal/lock/handoff/examples_test.go")) {
		example.WriteString(strings.TrimSpace(line) + "\n")
	}
	listings := 0
	for _, code := range outlineOf(readDoc(t, "docs/locks.md")).Code {
		if strings.Contains(code, "lock.") || strings.Contains(code, "handoff.") {
			listings++
			if !strings.Contains(example.String(), code+"\n") {
				t.Errorf("docs/locks.md: no example has this:\n%s", code)
			}
		}
	}
	if listings == 0 {
		t.Error("found no listing: the test does not see what it should")
	}
}

// claim is a row of the write-ups, but for its words.
type claim struct{ verdict, mode, test, command string }

// claimsOf reads the rows of a language.
func claimsOf(t *testing.T, name string) (all []claim) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(readDoc(t, name)) {
		cells := cellsOf(line)
		if len(cells) == 0 || strings.HasPrefix(cells[0], "---") || cells[1] == "" {
			continue
		}
		if len(cells) != 6 || slices.Contains(cells, "") {
			t.Errorf("%s: want six full cells: %s", name, line)
			continue
		}
		if seen[cells[0]] {
			t.Errorf("%s: twice: %s", name, cells[0])
		}
		seen[cells[0]] = true
		c := claim{verdict: cells[1]}
		for i, to := range []*string{&c.mode, &c.test, &c.command} {
			*to = strings.Trim(cells[3+i], "`")
		}
		all = append(all, c)
	}
	return all
}

// TestWriteUps: every claim has a verdict, a mode, a test and a command that exist, and no mode and no exhibit is left out.
func TestWriteUps(t *testing.T) {
	en, zh := claimsOf(t, "docs/write-ups.md"), claimsOf(t, "docs/write-ups.zh.md")
	if diff := cmp.Diff(en, zh, cmp.AllowUnexported(claim{})); diff != "" {
		t.Errorf("the languages differ (-en +zh):\n%s", diff)
	}
	if len(en) < 60 {
		t.Errorf("%d claims, want at least 60", len(en))
	}
	known := knownModes()
	modes, tests := map[string]bool{}, map[string]bool{}
	for _, c := range en {
		if !slices.Contains([]string{"✓", "✗", "½"}, c.verdict) {
			t.Errorf("%+v: want a verdict", c)
		}
		if !known[c.mode] {
			t.Errorf("%+v: no such mode", c)
		}
		pkg, name, _ := strings.Cut(c.test, ".")
		if !slices.Contains(testsIn(t, folderOf(pkg)), name) {
			t.Errorf("%+v: no such test", c)
		}
		want := fmt.Sprintf("go test -run '^%s$' ./%s", name, folderOf(pkg))
		if strings.HasPrefix(c.command, "go test") && c.command != want {
			t.Errorf("%+v: want the command %s", c, want)
		}
		wantRuns(t, "write-ups", c.command)
		modes[c.mode], tests[c.test] = true, true
	}
	for _, m := range stock.Modes() {
		if !modes[m.Name] {
			t.Errorf("no claim about the mode %s", m.Name)
		}
	}
	for _, name := range testsIn(t, "internal/writeups") {
		if !tests["writeups."+name] {
			t.Errorf("no claim that the exhibit %s is about", name)
		}
	}
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

// wantTwelve: the first twelve questions are those of the write-ups, each with a short answer, the usual wrong one and what follows.
func wantTwelve(t *testing.T, name string, questions []string) {
	t.Helper()
	parts := []string{"\n**In 30 seconds:** ", "\n**Often answered, and wrong:** ", "\n**Then they ask:** "}
	if strings.Contains(name, ".zh.") {
		parts = []string{"\n**30 秒回答**：", "\n**常见错误答案**：", "\n**追问**："}
	}
	for i, q := range questions {
		for _, part := range parts {
			if n := strings.Count(q, part); n != map[bool]int{true: 1}[i < 12] {
				t.Errorf("%s: question %d has %q %d times", name, i+1, strings.TrimSpace(part), n)
			}
		}
	}
}

// TestInterview: every question has one command, and what it prints; what an exhibit prints is held to it by the exhibit.
func TestInterview(t *testing.T) {
	mutants := readDoc(t, "internal/stock/mutants_test.go")
	for _, name := range []string{"docs/interview.md", "docs/interview.zh.md"} {
		questions := strings.Split(readDoc(t, name), "\n### ")[1:]
		if len(questions) < 25 {
			t.Errorf("%s: %d questions, want at least 25", name, len(questions))
		}
		for i, q := range questions {
			title, _, _ := strings.Cut(q, "\n")
			if !strings.HasPrefix(title, fmt.Sprintf("%d. ", i+1)) {
				t.Errorf("%s: %q: want number %d", name, title, i+1)
			}
			if n := len(outlineOf(q).Commands); n != 1 {
				t.Errorf("%s: %q has %d commands, want 1", name, title, n)
			}
		}
		wantTwelve(t, name, questions)
		for _, sub := range subtest.FindAllStringSubmatch(strings.Join(questions, "\n"), -1) {
			if !strings.Contains(mutants, "\""+strings.ReplaceAll(sub[2], "_", " ")+"\":") {
				t.Errorf("%s: %s: no such case", name, sub[0])
			}
		}
	}
}
