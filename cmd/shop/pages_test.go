package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestModePages holds docs/ against 'shop modes --docs', which also removes the page of a mode that is no more.
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
}

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestModePagesHold: every link leads to a file, every block is closed, and a page has what its mode has.
func TestModePagesHold(t *testing.T) {
	t.Parallel()
	all, err := pages.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		prose := fences.ReplaceAllString(text, "")
		if strings.Contains(prose, "```") {
			t.Errorf("%s: a block is not closed", name)
		}
		for _, link := range markdownLink.FindAllStringSubmatch(prose, -1) {
			if fragment, ok := strings.CutPrefix(link[1], "#"); ok {
				if !anchorsOf(text)[fragment] {
					t.Errorf("%s: a link to %s, which is no heading of it", name, link[1])
				}
				continue
			}
			target := filepath.ToSlash(filepath.Join(filepath.Dir(name), link[1]))
			if !strings.Contains(link[1], "://") && all[target] == "" {
				t.Errorf("%s: a link to %s, which is no page of the modes", name, link[1])
			}
		}
	}
	for _, m := range stock.Modes() {
		for _, lang := range []string{"en", "zh"} {
			name := pages.Name(m.Name, lang)
			page := all["modes/"+name]
			d := m.Diagrams(lang)
			pictures := map[bool]int{true: 1}[d.Good != ""] + map[bool]int{true: 1}[d.Break != ""]
			if got := strings.Count(page, "\n```mermaid\nsequenceDiagram\n"); got != pictures {
				t.Errorf("%s: %d diagrams, want %d", name, got, pictures)
			}
			if traced := strings.Contains(page, "\n$ shop trace "+m.Name+" --store "); traced != (m.Trace() != "") {
				t.Errorf("%s: traced %t, want %t", name, traced, m.Trace() != "")
			}
			if !strings.Contains(all[pages.Name("modes", lang)], "](modes/"+name+")") {
				t.Errorf("%s: the index does not lead there", name)
			}
		}
	}
}

// TestPagesAgree: the pages have the same sections, tables and commands in both languages.
func TestPagesAgree(t *testing.T) {
	t.Parallel()
	all, err := pages.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		if zh, ok := strings.CutSuffix(name, ".zh.md"); ok {
			if diff := cmp.Diff(outlineOf(all[zh+".md"]), outlineOf(text)); diff != "" {
				t.Errorf("%s.md and %s differ (-en +zh):\n%s", zh, name, diff)
			}
		}
	}
}
