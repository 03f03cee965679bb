package internal_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -count=1 -run ^TestPackagePicture$ . -update

var update = flag.Bool("update", false, "write the picture of the packages into CONTRIBUTING.md")

// CONTRIBUTING.md has a picture of the packages, made from what the program's files import.
func TestPackagePicture(t *testing.T) {
	const file, begin, end = "../CONTRIBUTING.md", "<!-- packages: made by 'make generate' -->\n", "<!-- end of packages -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks %q or %q", file, begin, end)
	}
	picture := picture(programImports(t))
	switch {
	case old == picture:
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+picture+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the picture of the packages in %s is stale: run 'make generate'", file)
	}
}

// programImports says what each package of the program imports of ours. Test files, and packages for tests, are left out.
func programImports(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	sources(t, func(name string, src []byte) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || slices.Contains(testOnly, dir) || dir == "internal/stock/newmode" {
			return
		}
		for _, imported := range imports(name, src) {
			if to, ok := strings.CutPrefix(imported, module+"/"); ok && !slices.Contains(all[dir], to) {
				all[dir] = append(all[dir], to)
			}
		}
	})
	return all
}

// picture draws each import that does not follow from others: where a imports b and b imports c, no arrow from a to c.
func picture(imported map[string][]string) string {
	reach := map[string]map[string]bool{}
	var visit func(string) map[string]bool
	visit = func(from string) map[string]bool {
		if reach[from] == nil {
			reach[from] = map[string]bool{}
			for _, to := range imported[from] {
				reach[from][to] = true
				maps.Copy(reach[from], visit(to))
			}
		}
		return reach[from]
	}
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(imported)) {
		for _, to := range slices.Sorted(slices.Values(imported[from])) {
			other := func(via string) bool { return via != to && visit(via)[to] }
			if !slices.ContainsFunc(imported[from], other) {
				fmt.Fprintf(&b, "  %s --> %s\n", from, to)
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// An import that follows from two others is left out, and no other.
func TestPictureOfPackages(t *testing.T) {
	got := picture(map[string][]string{"a": {"b", "c", "d"}, "b": {"c"}, "c": {}})
	if want := "```mermaid\nflowchart TD\n  a --> b\n  a --> d\n  b --> c\n```\n"; got != want {
		t.Errorf("picture = %s, want %s", got, want)
	}
}
