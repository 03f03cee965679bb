package internal_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/docs"
	"lastitem/testkit"
)

// The load generator and the lab send what a customer sends: a figure or a verdict under a lease time that no customer
// can ask for would be one about another service. A trace is neither: it may hold a lock to show it.
func TestNoRunIsAnExperiment(t *testing.T) {
	field := regexp.MustCompile(`lease_ms|hold_ms|[?&"]depth["=]`)
	files := 0
	for _, dir := range []string{"../loadtest", "../faultlab"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "/trace/") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			reserves := bytes.Contains(text, []byte("/reserve_stock/")) // there hold_ms is a customer's
			for _, found := range field.FindAll(text, -1) {
				if !reserves || string(found) != "hold_ms" {
					t.Errorf("%s sends %s: experiments with the lock are not for runs", path, found)
				}
			}
			return err
		})
		testkit.Must(t, err)
	}
	if files < 10 {
		t.Errorf("%d files looked at", files)
	}
}

// The image is built from all that the program is made of: .dockerignore leaves out everything but the directories that
// it names.
func TestImageHasItsSources(t *testing.T) {
	text := testkit.Read(t, "../.dockerignore")
	lines := strings.Split(string(text), "\n")
	for dir := range arrows {
		top, _, _ := strings.Cut(dir, "/")
		ofProgram := top != "deploy" && top != "examples" && top != "testkit" // which the program does not import
		if ofProgram && !slices.Contains(lines, "!"+top) {
			t.Errorf(".dockerignore leaves out %s, with package %s", top, dir)
		}
	}
}

// The program is built stripped and without gin's MessagePack, a third less than with both. The image says from which
// commit it was built: the Dockerfile takes it as an argument, and Compose passes it on. (That scripts/compose sets it
// is tested in deploy.)
func TestBuild(t *testing.T) {
	for name, want := range map[string][]string{
		"../Dockerfile":         {"ARG GIT_COMMIT", `-tags nomsgpack -ldflags="-s -w -X main.commit=$GIT_COMMIT" -o /shop`},
		"../Makefile":           {"-tags=nomsgpack", `-ldflags "-s -w -X main.commit=$$(scripts/commit)" -o bin/shop`},
		"../docker-compose.yml": {"GIT_COMMIT:"},
	} {
		text := testkit.Read(t, name)
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s lacks %q", name, w)
			}
		}
	}
}

//go:generate go test -count=1 -run ^TestArchitecturePage$ . -update

var update = flag.Bool("update", false, "write the picture of the house into docs/architecture.md")

// The page on the architecture has a picture of the folders at the first level, made from what the program's files
// import, and how much somebody reads who wants one product.
func TestArchitecturePage(t *testing.T) {
	imported := programImports(t)
	for name, heading := range map[string]string{
		"":    "| who reads | reads at most so many packages | and so many lines |\n| --- | --- | --- |\n",
		".zh": "| 想了解 | 最多读几个包 | 多少行 |\n| --- | --- | --- |\n",
	} {
		file := "../docs/architecture" + name + ".md"
		text := testkit.Read(t, file)
		table := heading
		for _, of := range slices.Sorted(maps.Keys(products)) {
			table += fmt.Sprintf("| `%s` | %d | %d |\n", of, products[of].packages, products[of].lines)
		}
		want, err := docs.Fill(string(text), "wings", picture(draw(imported, plans[0].room).arrows))
		testkit.Must(t, err)
		want, err = docs.Fill(want, "closures", table)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		case want == string(text):
		case *update:
			testkit.Must(t, os.WriteFile(file, []byte(want), 0o600))
		default:
			t.Errorf("%s is stale: run 'make generate'", file)
		}
	}
}

// programImports says what each package of the program imports of ours. Test files, and packages for tests, are left
// out.
func programImports(t *testing.T) map[string][]string {
	t.Helper()
	all, _ := outsideTests(t)
	maps.DeleteFunc(all, func(dir string, _ []string) bool {
		return slices.Contains(testOnly, dir) || dir == "internal/stock/newmode" || strings.HasPrefix(dir, "examples/")
	})
	return all
}

// picture draws each import that does not follow from others: where a imports b and b imports c, no arrow from a to c.
func picture(imported map[string][]string) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(imported)) {
		for _, to := range slices.Sorted(slices.Values(imported[from])) {
			other := func(via string) bool { return via != to && slices.Contains(closure(via, imported), to) }
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
	testkit.Is(t, got, "```mermaid\nflowchart TD\n  a --> b\n  a --> d\n  b --> c\n```\n", "picture")
}
