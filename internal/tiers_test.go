package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/testkit"
)

// The tiers of tests, see package testenv. A test is in byHand if a variable or a build tag asks for it.
const (
	quick  = "make quick"
	normal = "make test"
	all    = "make test-all"
	engine = "make test-engines"
	byHand = "by hand"
)

// suites are the conformance suites: every rule of theirs is a subtest.
var suites = []string{"testkit/locktest.()run", "testkit/reservationtest.Play", "testkit/stocktest.()run"}

// function is a function of ours, or a variable, and the names that it mentions: of its own package or "folder.Name".
type function struct {
	mentions []string
	test     bool   // go test lists it
	tagged   bool   // its file has a build tag that names no system
	left     string // the tier that its first statement leaves it to
}

// functions reads all functions and variables of the module, by "folder.Name"; a method by "folder.()Name", whatever
// its type.
func functions(t *testing.T) map[string]function {
	t.Helper()
	found := map[string]function{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".go" {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(file)[len("../"):])
		imports := map[string]string{}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
				imports[localName(spec, imported)] = ours
			}
		}
		tagged := len(f.Comments) > 0 && strings.HasPrefix(f.Comments[0].List[0].Text, "//go:build mutants")
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				s := function{mentions: mentions(decl, dir, imports), tagged: tagged}
				s.test = strings.HasSuffix(file, "_test.go") && decl.Recv == nil && strings.HasPrefix(decl.Name.Name, "Test")
				if s.test && len(decl.Body.List) > 0 {
					s.left = leftTo(mentions(decl.Body.List[0], dir, imports))
				}
				if decl.Recv != nil {
					found[dir+".()"+decl.Name.Name] = s
				} else {
					found[dir+"."+decl.Name.Name] = s
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						found[dir+"."+v.Names[0].Name] = function{mentions: mentions(v, dir, imports)}
					}
				}
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return found
}

func mentions(n ast.Node, dir string, imports map[string]string) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
				names = append(names, imports[x.Name]+"."+n.Sel.Name)
			} else {
				names = append(append(names, dir+".()"+n.Sel.Name), mentions(n.X, dir, imports)...)
			}
			return false
		case *ast.Ident:
			names = append(names, dir+"."+n.Name)
		}
		return true
	})
	return names
}

// leftTo is the tier that a call among the names leaves a test to, or "".
func leftTo(names []string) string {
	for _, kit := range []string{"testkit/testenv.", "testkit."} {
		for call, tier := range map[string]string{"Slow": all, "Engines": engine, "Redisson": engine} {
			if slices.Contains(names, kit+call) {
				return tier
			}
		}
	}
	return ""
}

// reaches returns what a function mentions, and what that mentions, and so on.
func reaches(from string, all map[string]function, seen map[string]bool) map[string]bool {
	if !seen[from] {
		seen[from] = true
		for _, name := range all[from].mentions {
			reaches(name, all, seen)
		}
	}
	return seen
}

// tierOf is the first tier in which at least a part of a test runs.
func (s function) tierOf(reached map[string]bool) string {
	embedded := reached["testkit/testenv.Miniredis"] || reached["testkit/testenv.SQLite"]
	switch {
	case s.left != "":
		return s.left
	case s.tagged || reached["testkit.Asked"]:
		return byHand
	case reached["testkit.NotQuick"] && !embedded:
		return normal
	}
	return quick
}

// TestTiers lists which tests each tier leaves to a later one. It fails if a conformance suite is in no test of the
// first tier, or only in slow tests of a package, and if testenv.Slow, Engines or Redisson stands where scripts/test
// does not find it.
func TestTiers(t *testing.T) {
	t.Parallel()
	found, later, calls := functions(t), map[string][]string{}, map[[2]string][]string{} // calls: by suite and folder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		s, dir := found[name], name[:strings.LastIndex(name, ".")]
		if late := leftTo(s.mentions); !strings.HasPrefix(dir, "testkit") && late != s.left {
			t.Errorf("%s is left to %s: only the first statement of a test that go test lists may do that", name, late)
		}
		if !s.test {
			continue
		}
		reached := reaches(name, found, map[string]bool{})
		tier := s.tierOf(reached)
		later[tier] = append(later[tier], name)
		for _, suite := range suites {
			if reached[suite] {
				calls[[2]string{suite, dir}] = append(calls[[2]string{suite, dir}], tier)
			}
		}
	}
	for _, suite := range suites {
		inQuick := false
		for at, tiers := range calls {
			inQuick = inQuick || at[0] == suite && slices.Contains(tiers, quick)
			if at[0] == suite && !slices.Contains(tiers, quick) && !slices.Contains(tiers, normal) {
				t.Errorf("%s calls %s in the tiers %v only", at[1], at[0], tiers)
			}
		}
		if !inQuick {
			t.Errorf("no test of %s calls %s", quick, suite)
		}
	}
	for _, tier := range []string{normal, all, engine, byHand} {
		t.Logf("first in %s: %d tests\n\t%s", tier, len(later[tier]), strings.Join(later[tier], "\n\t"))
	}
	t.Logf("in %s: %d tests, or a part of them", quick, len(later[quick]))
}

// raceful are the packages that the race detector looks into: modes, locks, stores, handler and judge.
var raceful = regexp.MustCompile(`^(internal/)?(stock|shop|lock|store|handler|audit|judge)(/|$)`)

// TestRaced compares the packages that scripts/test runs with the race detector with the tree.
func TestRaced(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`(?m)^raced=\((.*)\)$`).FindSubmatch(testkit.Read(t, "../scripts/test"))
	if list == nil {
		t.Fatal("scripts/test has no line raced=(...)")
	}
	left := map[string]bool{} // of the tree
	for dir := range arrows {
		left[dir] = raceful.MatchString(dir)
	}
	for _, pattern := range strings.Fields(string(list[1])) {
		dir := strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/...")
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 || pattern != "./"+dir+"/..." {
			t.Errorf("scripts/test runs %s with the race detector, %v: want ./PACKAGE/...", pattern, err)
		}
		maps.DeleteFunc(left, func(of string, _ bool) bool { return of == dir || strings.HasPrefix(of, dir+"/") })
	}
	for dir, is := range left {
		if is {
			t.Errorf("scripts/test does not run %s with the race detector", dir)
		}
	}
}
