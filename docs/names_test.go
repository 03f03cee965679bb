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
	"lastitem/internal/testkit"
	"lastitem/internal/testkit/doctest"
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
			for _, path := range ourPath.FindAllStringSubmatch(bare, -1) {
				seen["path"]++
				file, _, _ := strings.Cut(path[1], ".Test") // of a package's test
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

// inWords is a number up to 99 as the documents write it where a sentence begins.
func inWords(n int, lang string) string {
	ones := strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " +
		"sixteen seventeen eighteen nineteen")
	tens := strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
	digits := strings.Split("零一二三四五六七八九", "")
	if lang == "zh" {
		if n < 10 {
			return digits[n]
		}
		return strings.TrimPrefix(digits[n/10], "一") + "十" + strings.TrimPrefix(digits[n%10], "零")
	}
	word := ones[n%10]
	if n < 20 {
		word = ones[n]
	} else {
		word = strings.TrimSuffix(tens[n/10-2]+"-"+word, "-zero")
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// TestCounts: what the documents count is as many as there are.
func TestCounts(t *testing.T) {
	t.Parallel()
	holding := 0
	for _, m := range stock.Modes() {
		if m.Reserves {
			holding++
		}
	}
	lessons := strings.Count(doctest.Read(t, "faultlab/stepper/lessons.go"), "\n\t\tName: ")
	wantSeen(t, "lessons", lessons, 10)
	for _, lang := range langs {
		for _, c := range []struct {
			n           int
			doc, en, zh string
		}{
			{len(stock.Modes()) - 1, "README", "\n%s ways of deducting stock", "扣库存的%s种写法"}, // noop deducts nothing
			{holding, "README", "\n%s modes hold stock", "有%s种先预扣"},
			{lessons, "docs/console", "\n%s lessons, from", "共有%s关"},
			{len(tablesOf(t, "choose", lang)[0]), "docs/choose", "\n## %s questions", "## %s个"},
		} {
			want := fmt.Sprintf(map[string]string{"en": c.en, "zh": c.zh}[lang], inWords(c.n, lang))
			if name := docs.Name(c.doc, lang); !strings.Contains(doctest.Read(t, name), want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}

var (
	named   = regexp.MustCompile("`([a-z-]+)`")
	ratio   = regexp.MustCompile(`\d+\.\d+`)
	whole   = regexp.MustCompile(`[（(](\d+)`)
	timesOf = regexp.MustCompile(`([\d.]+) (?:times \(|倍（)([\d,]+)/s(?:, |、)([\d,]+)/s`)
	goOf    = regexp.MustCompile(`\bGo (1\.\d+)`)
	commits = regexp.MustCompile(`(?:commit|提交|lastitem) ([0-9a-f]{8,12})\b`)
)

// wantRatio fails a test where a ratio is not that of the two numbers, to its last digit.
func wantRatio(t *testing.T, doc, ratio, of, to string) {
	t.Helper()
	a, err := strconv.ParseFloat(strings.ReplaceAll(of, ",", ""), 64)
	testkit.Must(t, err)
	b, err := strconv.ParseFloat(strings.ReplaceAll(to, ",", ""), 64)
	testkit.Must(t, err)
	_, decimals, _ := strings.Cut(ratio, ".")
	if want := strconv.FormatFloat(a/b, 'f', len(decimals), 64); want != ratio {
		t.Errorf("%s: %s to %s is %s, not %s", doc, of, to, want, ratio)
	}
}

// TestFigures: a ratio is that of the numbers beside it, every mode has its speed or a word on why not, the version of
// Go is that of go.mod, and a commit that is named is there.
func TestFigures(t *testing.T) {
	t.Parallel()
	ratios, history := 0, exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository")
	shallow, _ := history.Output()
	all := doctest.All(t)
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
	for _, lang := range langs {
		doc := docs.Name("docs/speed", lang)
		for _, table := range doctest.Tables(all[doc]) {
			for _, row := range table {
				for i, cell := range row {
					mode, r := named.FindStringSubmatch(cell), ratio.FindString(cell)
					if mode == nil || r == "" {
						continue
					}
					base := whole.FindStringSubmatch(cell)
					if base == nil {
						of := slices.IndexFunc(table, func(row []string) bool { return row[0] == mode[0] })
						base = []string{"", table[of][i-1]}
					}
					wantRatio(t, doc, r, row[i-1], base[1])
					ratios++
				}
			}
		}
		for _, name := range modeNames() {
			if !strings.Contains(all[doc], "`"+name+"`") && !(strings.HasPrefix(name, "reserve-") &&
				strings.Contains(all[doc], "`reserve-*`")) {
				t.Errorf("%s has no speed of %s, and does not say why", doc, name)
			}
		}
	}
	wantSeen(t, "ratios", ratios, 18)
}
