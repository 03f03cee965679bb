package docs_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/docs"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
	"lastitem/say/text"
	"lastitem/testkit"
	"lastitem/testkit/doctest"
)

//go:generate go test -count=1 -run ^TestBlocks$|^TestInterviewCards$ . -update

var (
	update = flag.Bool("update", false, "write the generated blocks, or with -seen the servers")
	// serversSeen adds to docs/servers.json, with -update, what runs of 'shop demo' have seen, as scripts/test-newer
	// passes it.
	serversSeen = flag.String("seen", "", "ROW=DEMO.json,...: with -update, these runs' servers become the row")
)

// rewrite writes a document with -update, and otherwise holds it against what it should be.
func rewrite(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		testkit.Must(t, os.WriteFile(filepath.Join(root, name), []byte(want), 0o644))
	} else if diff := cmp.Diff(want, doctest.Read(t, name)); diff != "" {
		t.Errorf("%s is stale: run 'make generate' (-want +got):\n%s", name, diff)
	}
}

// TestBlocks: the generated blocks are what they are generated from: the modes of the READMEs, the meanings of
// the glossary, and the pages of the modes, which 'shop modes --docs' writes. A page has what its mode has.
func TestBlocks(t *testing.T) {
	for _, lang := range langs {
		for _, block := range []struct{ doc, name, want string }{
			{"README", "modes", pages.Table(lang)},
			{"docs/glossary", "meanings", api.Definitions(lang)},
		} {
			name := docs.Name(block.doc, lang)
			want, err := docs.Fill(doctest.Read(t, name), block.name, block.want)
			testkit.Mustf(t, err, "%s", name)
			rewrite(t, name, want)
		}
	}
	for _, m := range stock.Modes() {
		code, err := os.ReadFile(filepath.Join(root, "examples", "plain", strings.ReplaceAll(m.Name, "-", "_")+".go"))
		if err != nil || m.Reserves { // a page leads to a file that is too long to be shown
			continue
		}
		for lang, said := range map[string]string{
			"en": "## Copy it\n\nWithout lastitem: [examples/plain](../../examples/plain), where " +
				"[plain.go](../../examples/plain/plain.go) has what the files share and what a copy leaves out, and " +
				"[lock.go](../../examples/plain/lock.go) what the locks share. Go 1.26; tested on real servers.",
			"zh": "## 抄走\n\n不依赖 lastitem，见 [examples/plain](../../examples/plain)；各份代码共用的几行、抄走后少了什么，" +
				"在 [plain.go](../../examples/plain/plain.go)，锁共用的在 [lock.go](../../examples/plain/lock.go)。" +
				"要 Go 1.26；在真实服务器上测过。",
		} {
			name := "docs/modes/" + docs.Name(m.Name, lang)
			want, err := docs.Fill(doctest.Read(t, name), "copy", said+"\n\n```go\n"+string(code)+"```\n")
			testkit.Mustf(t, err, "%s", name)
			rewrite(t, name, want)
		}
	}
	all, err := pages.All(".")
	testkit.Must(t, err)
	for name, want := range all {
		rewrite(t, "docs/"+name, want)
	}
	there, err := filepath.Glob("modes/*.md")
	for _, file := range there {
		if all[file] == "" {
			t.Errorf("docs/%s is no page of a mode (%v)", file, err)
		}
	}
	for _, lang := range langs {
		meanings, index := api.Definitions(lang), all[docs.Name("modes", lang)]
		if matrix := doctest.Read(t, "docs/"+docs.Name("matrix", lang)); !strings.Contains(index, meanings) ||
			!strings.Contains(matrix, meanings) {
			t.Errorf("%s: the index or the matrix does not explain the hazards and letters", lang)
		}
		for _, m := range stock.Modes() {
			name, d := "modes/"+docs.Name(m.Name, lang), m.Diagrams(lang)
			pictures := map[bool]int{true: 1}[d.Good != ""] + map[bool]int{true: 1}[d.Break != ""]
			if got := strings.Count(all[name], "\n```mermaid\nsequenceDiagram\n"); got != pictures {
				t.Errorf("%s: %d diagrams, want %d", name, got, pictures)
			}
			trace := "\n$ shop trace " + m.Name + " --store "
			if want := m.Trace() != ""; strings.Contains(all[name], trace) != want {
				t.Errorf("%s: it has a trace: %t, want %t", name, !want, want)
			}
			if !strings.Contains(index, "]("+name+")") {
				t.Errorf("%s: the index does not lead there", name)
			}
		}
	}
}

// TestMeanings: every hazard and every letter of the claims is explained, in both languages.
func TestMeanings(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for i, m := range append(slices.Clone(api.Hazards), api.Letters...) {
		words[m.Word] = true
		if i < len(stock.Hazards) && m.Word != stock.Hazards[i] {
			t.Errorf("meaning %d is of %q, want %q", i, m.Word, stock.Hazards[i])
		}
		for _, said := range []text.Text{m.Short, m.Is, m.Story} {
			if said.En == "" || said.Zh == "" {
				t.Errorf("%q: want all texts in both languages: %+v", m.Word, said)
			}
		}
	}
	for _, m := range stock.Modes() {
		for store := range m.Claims {
			for _, letter := range strings.Join(m.Row(store), "") {
				if !words[string(letter)] {
					t.Errorf("%s on %s: %q is not explained", m.Name, store, letter)
				}
			}
		}
	}
}

// seenServer is a line by which a stack says what it has chosen.
var seenServer = regexp.MustCompile(
	`^(redis|redlock|sql|etcd|zookeeper|consul|balancer): (?:\d+ × )?(.+?)(?: \(private\))? at `)

// record returns the servers of runs, as a row. A row of newer servers leaves out those that the first row has.
func record(t *testing.T, name, files string, installed []string) (seen []string) {
	t.Helper()
	for file := range strings.SplitSeq(files, ",") {
		text, err := os.ReadFile(file)
		var run struct{ Stack []string }
		if err != nil || json.Unmarshal(text, &run) != nil {
			t.Fatalf("%s is no result of a demo (%v)", file, err)
		}
		for _, line := range run.Stack {
			m := seenServer.FindStringSubmatch(line)
			if len(m) > 0 && (name == "installed" || !slices.Contains(installed, m[2])) {
				seen = append(seen, m[2])
			}
		}
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}

// TestServersTable: the table of servers in docs/servers.md has a row for each of docs/servers.json, with the versions
// that runs have seen.
func TestServersTable(t *testing.T) {
	const file = "docs/servers.json"
	var rows map[string][]string
	testkit.Must(t, json.Unmarshal([]byte(doctest.Read(t, file)), &rows))
	// cell is what the table says before its words.
	cell := func(row, lang string) string {
		return "| " + strings.Join(rows[row], map[string]string{"en": ", ", "zh": "、"}[lang])
	}
	name, files, given := strings.Cut(*serversSeen, "=")
	if *update && given {
		old := map[string]string{"en": cell(name, "en"), "zh": cell(name, "zh")}
		rows[name] = record(t, name, files, rows["installed"])
		text, err := json.MarshalIndent(rows, "", "  ")
		testkit.Must(t, err)
		rewrite(t, file, string(text)+"\n")
		for lang, was := range old {
			page := docs.Name("docs/servers", lang)
			rewrite(t, page, strings.Replace(doctest.Read(t, page), was, cell(name, lang), 1))
		}
	}
	for _, lang := range langs {
		for _, row := range []string{"installed", "newer", "compose"} {
			want := cell(row, lang) + map[string]string{"en": ", ", "zh": "，"}[lang]
			if page := docs.Name("docs/servers", lang); len(rows[row]) == 0 || !strings.Contains(doctest.Read(t, page), want) {
				t.Errorf("the table in %s does not have %q, the row %s of %s", page, want, row, file)
			}
		}
	}
}
