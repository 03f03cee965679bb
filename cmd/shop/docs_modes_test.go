package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/stock"
	"lastitem/internal/stock/pages"
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

// TestModePages holds docs/ against 'shop modes --docs', which also removes the page of a mode that is no more. A page has
// what its mode has.
func TestModePages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gone := filepath.Join(dir, "modes", "gone.md")
	if err := os.MkdirAll(filepath.Dir(gone), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gone, []byte("# gone\n"), 0o644); err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("docs/%s is no page of a mode; run 'make generate'", name)
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
		between(t, "docs/"+pages.Name("glossary", lang), "meanings", api.Definitions(lang))
	}
}

// wantModePage: a page has the diagrams and the trace of its mode, and the index leads there.
func wantModePage(t *testing.T, m stock.Mode, lang string, all map[string]string) {
	t.Helper()
	name, d, pictures := pages.Name(m.Name, lang), m.Diagrams(lang), 0
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
	if !strings.Contains(all[pages.Name("modes", lang)], "](modes/"+name+")") {
		t.Errorf("%s: the index does not lead there", name)
	}
}
