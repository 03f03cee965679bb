package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	manual "lastitem/docs"
	"lastitem/internal/api"
	"lastitem/internal/stock"
)

// markdownBelow reads the pages of the modes in a directory, by path.
func markdownBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"modes.md", "modes.zh.md", "modes/*.md"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(dir, file)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.ToSlash(name)] = string(text)
		}
	}
	return all
}

// TestModePages holds docs/ against 'shop modes --docs'. A page has what its mode has.
func TestModePages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, errOut := commandLine(t.Context(), newModes("en"), "--docs", dir); code != exitOK {
		t.Fatalf("shop modes --docs: exit %d: %s", code, errOut)
	}
	want := markdownBelow(t, dir)
	if n := 2 * (1 + len(stock.Modes())); len(want) != n {
		t.Errorf("wrote %d pages, want %d: %v", len(want), n, slices.Sorted(maps.Keys(want)))
	}
	got := markdownBelow(t, filepath.Join(root, "docs"))
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			t.Errorf("docs/%s is no page of a mode", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(want[name], got[name]); diff != "" {
			t.Fatalf("docs/%s and maybe others are stale: run 'make generate' (-want +got):\n%s", name, diff)
		}
	}
	for _, m := range stock.Modes() {
		wantModePage(t, m, "en", want)
		wantModePage(t, m, "zh", want)
	}
}

// TestModeTables holds the mode tables of the READMEs against 'shop modes -o markdown'.
func TestModeTables(t *testing.T) {
	for lang, name := range readmes {
		code, table, errOut := commandLine(t.Context(), newModes("en"), "-o", "markdown", "--lang", lang)
		if code != exitOK {
			t.Fatalf("shop modes: exit %d: %s", code, errOut)
		}
		between(t, name, "modes", table)
	}
}

// TestGlossary holds the hazards and letters of the glossary against their source.
func TestGlossary(t *testing.T) {
	for lang := range readmes {
		between(t, "docs/"+manual.Name("glossary", lang), "meanings", api.Definitions(lang))
	}
}

// wantModePage: a page has the diagrams and the trace of its mode, and the index leads there.
func wantModePage(t *testing.T, m stock.Mode, lang string, all map[string]string) {
	t.Helper()
	name, d, pictures := manual.Name(m.Name, lang), m.Diagrams(lang), 0
	for _, source := range []string{d.Good, d.Break} {
		if source != "" {
			pictures++
		}
	}
	if got := strings.Count(all["modes/"+name], "\n```mermaid\nsequenceDiagram\n"); got != pictures {
		t.Errorf("%s: %d diagrams, want %d", name, got, pictures)
	}
	if traced := strings.Contains(all["modes/"+name], "\n$ shop trace "+m.Name+" --store "); traced != (m.Trace() != "") {
		t.Errorf("%s: traced %t, want %t", name, traced, m.Trace() != "")
	}
	if !strings.Contains(all[manual.Name("modes", lang)], "](modes/"+name+")") {
		t.Errorf("%s: the index does not lead there", name)
	}
}

var (
	redissonLink = regexp.MustCompile(`^https://github\.com/redisson/redisson/blob/redisson-(3\.6\.5|3\.52\.0)/` +
		`redisson/src/main/java/org/redisson/(?:[a-z]+/)?[A-Z]\w+\.java#L(\d+)-L(\d+)$`)
	ourFunction = regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`")
)

// TestRedissonPage names lines of Redisson at its tags, and methods of ours that exist.
func TestRedissonPage(t *testing.T) {
	t.Parallel()
	declared := lockMethods(t)
	for lang := range readmes {
		name := "docs/" + manual.Name("redisson", lang)
		text := readDoc(t, name)
		places, methods := 0, 0
		for _, l := range outbound.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(l[1], "/redisson/blob/") {
				continue
			}
			places++
			m := redissonLink.FindStringSubmatch(l[1])
			if len(m) == 0 || len(m[2]) > len(m[3]) || len(m[2]) == len(m[3]) && m[2] > m[3] {
				t.Errorf("%s: %s: want a file of Redisson at one of two tags, with lines", name, l[1])
			}
		}
		for _, f := range ourFunction.FindAllStringSubmatch(text, -1) {
			if of, ours := declared[f[1]]; ours { // the others are of Redisson
				methods++
				if !slices.Contains(of, f[2]) {
					t.Errorf("%s: %s has no %s", name, f[1], f[2])
				}
			}
		}
		if methods < 8 || places < 25 {
			t.Errorf("%s: %d methods of ours, %d places in Redisson: too few to be all", name, methods, places)
		}
	}
}

// lockMethods are the methods of the types in and below internal/lock, by type.
func lockMethods(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "internal", "lock"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			receiver := f.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			if name, ok := receiver.(*ast.Ident); ok {
				all[name.Name] = append(all[name.Name], f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A cited is an outbound link of the documents, and how it was confirmed.
type cited struct {
	URL       string `json:"url"`
	Confirmed bool   `json:"confirmed"` // somebody looked it up, and it says what the documents cite it for
	How       string `json:"how"`       // how it was confirmed; begins with "unverified" if it was not
}

var (
	outbound = regexp.MustCompile(`\]\((https?://[^)\s]+)\)`)
	wholeURL = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	// citation is what must be a link: Name#123 or #123 of an issue, RFC nnnn, a paper by its conference and year.
	citation = regexp.MustCompile(`#\d{2,5}\b|\bRFC ?\d{4}\b|\b(?:SIGMOD|OSDI|SOSP|NSDI|VLDB|ATC) ?\d{4}\b`)
)

// citing are the documents that may cite somebody, without their blocks of code.
func citing(t *testing.T) map[string]string {
	t.Helper()
	texts := docs(t)
	for name, text := range texts {
		texts[name] = fences.ReplaceAllString(text, "")
		if strings.HasPrefix(name, "examples/") {
			delete(texts, name)
		}
	}
	return texts
}

// TestSources: docs/sources.json lists the outbound links, all of them and no other, and says how each was confirmed.
func TestSources(t *testing.T) {
	var listed []cited
	if err := json.Unmarshal([]byte(readDoc(t, "docs/sources.json")), &listed); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, text := range citing(t) {
		for _, l := range outbound.FindAllStringSubmatch(text, -1) {
			used[l[1]] = true
		}
	}
	known := map[string]bool{}
	for _, s := range listed {
		known[s.URL] = true
		if s.How == "" || s.Confirmed == strings.HasPrefix(s.How, "unverified") {
			t.Errorf("%s: confirmed %t, %q: want what was seen, or why it is unverified", s.URL, s.Confirmed, s.How)
		}
		if !used[s.URL] {
			t.Errorf("docs/sources.json: no document links to %s", s.URL)
		}
	}
	for url := range used {
		if !known[url] {
			t.Errorf("%s: add it to docs/sources.json, with how it was confirmed", url)
		}
	}
	if len(listed) < 40 {
		t.Errorf("%d sources: the test does not see what it should", len(listed))
	}
}

// TestCitationsAreLinks: an issue by its number, an RFC or a paper is a link.
func TestCitationsAreLinks(t *testing.T) {
	for _, c := range []string{"opencart#4811", "(#7272)", "RFC 9457", "OSDI 2006"} {
		if !citation.MatchString(c) {
			t.Errorf("%s is not seen as a citation", c)
		}
	}
	for file, text := range citing(t) {
		text = codeSpan.ReplaceAllString(wholeURL.ReplaceAllString(text, ""), "")
		for line := range strings.Lines(text) {
			if c := citation.FindString(line); c != "" {
				t.Errorf("%s: %s is not a link: %s", file, c, strings.TrimSpace(line))
			}
		}
	}
}
