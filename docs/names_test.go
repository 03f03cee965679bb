package docs_test

import (
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/docs"
	"lastitem/internal/stock"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

var (
	makeCall = regexp.MustCompile(`(?:^|[\s;&])make ([a-z][a-z-]*)((?: [A-Za-z]+=[^ ]*)*)`)
	quoted   = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	ourPath  = regexp.MustCompile(`(?:^|[\s=,]|\./)((?:\.ci|bench|cmd|deploy|docs|examples|faultlab|internal|loadtest|` +
		`migrations|scripts|web)/[\w./-]*\w)(?:/?$|[\s,:#])`)
	ourTest   = regexp.MustCompile(`^(?:([\w/]+)\.(Test\w+)|go test (?:-v )?-run '\^(\w+)\$' \./(\S+))`)
	modeIn    = regexp.MustCompile(`(?:MODE=|--mode |deduct_stock/)([a-z,-]+)`)
	ofLocks   = regexp.MustCompile(`\b(lock|textbook|handoff|coord|sqllock)\.([A-Z]\w*)`)
	ofHandoff = regexp.MustCompile(`^(?:handoff\.New\(.*\))?\.([A-Z]\w*)\(\w*\)$`)
	ourMethod = regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`")
	declares  = regexp.MustCompile(`(?m)^(?:(?:func|type|var|const) |\t)(\w+)|^func \(\w* ?\*?(\w+)[^)]*\) (\w+)`)
)

// declared says what the packages declare, their tests included, by folder from the root and by its last word: "New",
// "keeper.renewDue", "keeper." for a type with methods, and ".renewDue" for a method of any.
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	texts, err := readTexts()
	testkit.Must(t, err)
	all := map[string]map[string]bool{}
	for file, text := range texts {
		if path.Ext(file) != ".go" {
			continue
		}
		for _, m := range declares.FindAllStringSubmatch(text, -1) {
			for _, key := range []string{path.Dir(file), path.Base(path.Dir(file))} {
				if all[key] == nil {
					all[key] = map[string]bool{}
				}
				for _, name := range []string{m[1], m[2] + "." + m[3], m[2] + ".", "." + m[3]} {
					all[key][name] = true
				}
			}
		}
	}
	return all
}

func modeNames() (names []string) {
	for _, m := range stock.Modes() {
		names = append(names, m.Name)
	}
	return names
}

// TestDocsNameWhatExists: what the shell blocks and the code spans of all documents name is there: targets and
// variables of make, tests, modes, paths, and what the packages of locks declare. (The commands of shop are tested in
// cmd/shop.)
func TestDocsNameWhatExists(t *testing.T) {
	t.Parallel()
	makefile, seen, modes := doctest.Read(t, "Makefile"), map[string]int{}, append(modeNames(), "all")
	want := func(kind, doc, name string, there bool) {
		seen[kind]++
		if !there {
			t.Errorf("%s: %s: no such %s", doc, name, kind)
		}
	}
	all := declared(t)
	for doc, text := range doctest.All(t) {
		for _, command := range doctest.Named(text) {
			bare := quoted.ReplaceAllString(command, "''")
			for _, call := range makeCall.FindAllStringSubmatch(bare, -1) {
				want("target", doc, call[1], strings.Contains(makefile, "\n"+call[1]+":"))
				for _, assignment := range strings.Fields(call[2]) {
					variable, _, _ := strings.Cut(assignment, "=")
					want("variable", doc, assignment, strings.Contains(makefile, "$("+variable+")"))
				}
			}
			test, method := ourTest.FindStringSubmatch(command), ofHandoff.FindStringSubmatch(command)
			switch {
			case test != nil:
				want("test", doc, command, all[test[1]+test[4]][test[2]+test[3]])
			case method != nil:
				want("method", doc, command, all["handoff"]["."+method[1]])
			}
			for _, p := range ourPath.FindAllStringSubmatch(bare, -1) {
				seen["path"]++
				file, _, _ := strings.Cut(p[1], ".Test") // of a package's test
				wantExists(t, doc, file)
			}
			for _, names := range modeIn.FindAllStringSubmatch(command, -1) {
				for name := range strings.SplitSeq(names[1], ",") {
					want("mode", doc, name, slices.Contains(modes, name))
				}
			}
		}
		for _, m := range ofLocks.FindAllStringSubmatch(text, -1) {
			want("name", doc, m[0], all[m[1]][m[2]])
		}
		for _, m := range ourMethod.FindAllStringSubmatch(text, -1) {
			ours, there := false, false
			for _, folder := range []string{"lock", "textbook", "handoff", "coord", "sqllock"} {
				ours = ours || all[folder][m[1]+"."]
				isField := all[folder][m[1]+"."] && m[2] < "a" && all[folder][m[2]]
				there = there || isField || all[folder][m[1]+"."+m[2]]
			}
			if ours {
				want("method", doc, m[0], there)
			}
		}
	}
	for _, kind := range []string{"target", "variable", "test", "path", "mode", "name", "method"} {
		wantSeen(t, kind, seen[kind], 10)
	}
}

var (
	ratio   = regexp.MustCompile(`\d+\.\d+`)
	whole   = regexp.MustCompile(`[（(](\d+)`)
	timesOf = regexp.MustCompile(`([\d.]+) (?:times \(|倍（)([\d,]+)/s(?:, |、)([\d,]+)/s`)
	goOf    = regexp.MustCompile(`\bGo (1\.\d+)`)
	commits = regexp.MustCompile(`(?:commit|提交|lastitem) ([0-9a-f]{8,12})\b`)
)

// wantRatio fails a test where a ratio is not that of the two numbers, to its last digit.
func wantRatio(t *testing.T, doc, said, of, to string) {
	t.Helper()
	var a, b float64
	_, err := fmt.Sscan(strings.ReplaceAll(of+" "+to, ",", ""), &a, &b)
	testkit.Must(t, err)
	_, decimals, _ := strings.Cut(said, ".")
	if want := strconv.FormatFloat(a/b, 'f', len(decimals), 64); want != said {
		t.Errorf("%s: %s to %s is %s, not %s", doc, of, to, want, said)
	}
}

// TestFigures: a ratio is that of the numbers beside it, modes and lessons are as many as there are, every mode has its
// speed or a word on why not, the version of Go is that of go.mod, and a commit that is named is there.
func TestFigures(t *testing.T) {
	t.Parallel()
	ratios, all := 0, doctest.All(t)
	shallow, _ := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	for doc, text := range all {
		for _, m := range timesOf.FindAllStringSubmatch(text, -1) {
			wantRatio(t, doc, m[1], m[2], m[3])
			ratios++
		}
		for _, m := range goOf.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(doctest.Read(t, "go.mod"), "\ngo "+m[1]+".") {
				t.Errorf("%s says %s, which is not that of go.mod", doc, m[0])
			}
		}
		for _, m := range commits.FindAllStringSubmatch(text, -1) {
			if string(shallow) == "false\n" && exec.CommandContext(t.Context(), "git", "cat-file", "-e", m[1]).Run() != nil {
				t.Errorf("%s: there is no commit %s", doc, m[1])
			}
		}
	}
	lessons := strings.Count(doctest.Read(t, "faultlab/stepper/lessons.go"), "\n\t\tName: ")
	for i, lang := range langs {
		ways := fmt.Sprintf([]string{"\n%d ways of deducting", "扣库存的 %d 种写法"}[i], len(modeNames())-1) // not noop
		steps := fmt.Sprintf([]string{"\n%d lessons, ", "\n共有 %d 关"}[i], lessons)
		for page, want := range map[string]string{"README": ways, "docs/console": steps} {
			if !strings.Contains(all[docs.Name(page, lang)], want) {
				t.Errorf("%s in %s does not say %q", page, lang, want)
			}
		}
		doc := docs.Name("docs/speed", lang)
		tables := doctest.Tables(all[doc])
		table := tables[len(tables)-1] // of reservations: sales, and their ratio to what a bracket or another row says
		for _, row := range table {
			for _, i := range []int{2, 4} {
				base := whole.FindStringSubmatch(row[i])
				for _, of := range table {
					if base == nil && strings.Contains(row[i], of[0]) {
						base = []string{"", of[i-1]}
					}
				}
				if base != nil {
					wantRatio(t, doc, ratio.FindString(row[i]), row[i-1], base[1])
					ratios++
				}
			}
		}
		for _, name := range modeNames() {
			if !strings.Contains(all[doc], "`"+name+"`") {
				t.Errorf("%s has no speed of %s, and does not say why", doc, name)
			}
		}
	}
	wantSeen(t, "ratios", ratios, 18)
}
