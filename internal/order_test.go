package internal_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"lastitem/testkit"
)

// A type has at most 40 methods, and a package at most 20 files, without tests and generated ones. More than that needs
// a line in exceptions. A line without a reason says how many there are today, and that number may only fall.
const mostMethods, mostFiles, anyNumber = 40, 20, 1 << 30

var exceptions = map[string]exception{
	"internal/stock":        {anyNumber, "a file is a mode"},
	"faultlab/fault":        {anyNumber, "a file is a fault"},
	"cmd/shop":              {anyNumber, "a file is a command"},
	"faultlab/rig":          {22, "requests, reservations, tickets and buyers are what one scene has"},
	"target":                {21, "a description, its requests and its books are one service"},
	"judge":                 {25, "a file is a rule of the judge"},
	"internal/lock/handoff": {24, "the engine is one algorithm"},
}

// tangled says how many pairs of files of a package use each other: each names something that the other declares, be it
// a method or a field. A number may only fall; a package that is not listed has no such pair.
var tangled = map[string]int{
	"cmd/shop": 7, "faultlab": 4, "faultlab/fault": 37, "faultlab/rig": 2, "faultlab/stepper": 5, "judge": 11,
	"internal/backend": 9, "console": 9, "internal/guest": 1, "internal/lock": 1,
	"internal/lock/handoff": 32, "internal/lock/textbook": 2, "internal/redisbatch": 3, "internal/replica": 6,
	"internal/shop": 7, "internal/shop/kafka": 7, "internal/step": 2, "internal/stock": 5, "internal/store/redisdb": 1,
	"testkit/locktest": 3, "testkit/stocktest": 7, "say/text": 1, "faultlab/trace": 7,
	"stack/wire": 9, "target": 1, "loadtest/client": 4, "loadtest/report": 5,
}

type exception struct {
	most   int
	reason string
}

// tooMany says what is wrong with a number that may be so high at most, or as high as an exception says; "" = nothing.
func tooMany(what string, n, most int, e exception) string {
	switch {
	case n > max(most, e.most):
		return fmt.Sprintf("%s: %d, at most %d; part it, and merge nothing for the number", what, n, max(most, e.most))
	case e.most > 0 && n <= most:
		return fmt.Sprintf("%s: %d, an exception is not needed any more", what, n)
	case n < e.most && e.reason == "":
		return fmt.Sprintf("%s: %d, lower the ceiling of %d to that", what, n, e.most)
	}
	return ""
}

// A typist checks the types of our packages. All others are empty to it, so that it needs nothing compiled: a name that
// is reached only through them, as a field of what slices.Max returns, does not count.
type typist struct {
	set      *token.FileSet
	files    map[string][]*ast.File    // by folder
	packages map[string]*types.Package // by import path
	sizes    map[string]int            // files by folder, methods by folder.Type
	pairs    map[string][]string       // by folder, of files that use each other
}

// Import makes a typist a [types.Importer].
func (y *typist) Import(imported string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case y.packages[imported] != nil:
	case ours:
		y.check(dir)
	default:
		y.packages[imported] = types.NewPackage(imported, path.Base(imported))
		y.packages[imported].MarkComplete()
	}
	return y.packages[imported], nil
}

func (y *typist) check(dir string) {
	names := types.Info{Uses: map[*ast.Ident]types.Object{}}
	ignore := types.Config{Importer: y, Error: func(error) {}}
	pkg, _ := ignore.Check(module+"/"+dir, y.set, y.files[dir], &names)
	y.packages[pkg.Path()] = pkg
	for _, name := range pkg.Scope().Names() {
		if named, ok := pkg.Scope().Lookup(name).Type().(*types.Named); ok && named.Obj().Name() == name {
			y.sizes[dir+"."+name] = named.NumMethods()
		}
	}
	uses := map[[2]string]bool{}
	for name, object := range names.Uses {
		if object.Pkg() == pkg {
			uses[[2]string{y.file(name), y.file(object)}] = true
		}
	}
	for use := range uses {
		if use[0] < use[1] && uses[[2]string{use[1], use[0]}] {
			y.pairs[dir] = append(y.pairs[dir], use[0]+" and "+use[1])
		}
	}
}

func (y *typist) file(at interface{ Pos() token.Pos }) string {
	return path.Base(y.set.File(at.Pos()).Name())
}

// typed reads Go files, tests and generated ones left out, and checks the types of those that are compiled for Linux.
func typed(t *testing.T, files map[string][]byte) *typist {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	linux.OpenFile = func(name string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files[name])), nil }
	y := &typist{set: token.NewFileSet(), files: map[string][]*ast.File{}, packages: map[string]*types.Package{},
		sizes: map[string]int{}, pairs: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := parser.ParseFile(y.set, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		testkit.Must(t, err)
		compiled, err := linux.MatchFile(path.Split(name))
		testkit.Must(t, err)
		if dir := path.Dir(name); !strings.HasSuffix(name, "_test.go") && !ast.IsGenerated(file) {
			y.sizes[dir]++
			if compiled {
				y.files[dir] = append(y.files[dir], file)
			}
		}
	}
	for dir := range y.files {
		_, _ = y.Import(module + "/" + dir)
	}
	return y
}

func TestOrder(t *testing.T) {
	files := map[string][]byte{}
	sources(t, func(name string, src []byte) { files[name] = src })
	y := typed(t, files)
	wrong, pairs := map[string]bool{}, 0
	for name := range exceptions {
		y.sizes[name] += 0 // also of what is gone
	}
	for name, n := range y.sizes {
		what, most := "files of "+name, mostFiles
		if strings.Contains(name, ".") {
			what, most = "methods of "+name, mostMethods
		}
		wrong[tooMany(what, n, most, exceptions[name])] = true
	}
	for dir := range tangled {
		y.pairs[dir] = slices.Sorted(slices.Values(y.pairs[dir]))
	}
	for dir, all := range y.pairs {
		pairs += len(all)
		what := "pairs of files of " + dir + " that use each other, " + strings.Join(all, ", ")
		wrong[tooMany(what, len(all), 0, exception{tangled[dir], ""})] = true
	}
	delete(wrong, "")
	for _, w := range slices.Sorted(maps.Keys(wrong)) {
		t.Error(w)
	}
	t.Logf("%d pairs of files use each other", pairs)
}

func TestOrderCatches(t *testing.T) {
	for _, c := range []struct {
		n      int
		except exception
		want   string // part of the complaint; "" = none
	}{
		{20, exception{}, ""}, {21, exception{}, "part it"}, {20, exception{24, "why"}, "not needed"},
		{21, exception{24, "why"}, ""}, {25, exception{24, "why"}, "part it"}, {33, exception{33, ""}, ""},
		{34, exception{33, ""}, "part it"}, {32, exception{33, ""}, "lower"}, {0, exception{33, ""}, "not needed"},
	} {
		got := tooMany("files", c.n, 20, c.except)
		testkit.Is(t, got != "" && strings.Contains(got, c.want), c.want != "", "%d, %v: %q", c.n, c.except, got)
	}
}

// Two files use each other, or not; files for other systems, tests and generated ones are not looked into.
func TestOrderFinds(t *testing.T) {
	for name, c := range map[string]struct {
		a, b           string
		pairs, methods int // of T
	}{
		"functions":        {"func A() { B() }", "func B() { A() }", 1, 0},
		"one way":          {"func A() { B() }", "func B() {}", 0, 0},
		"type and method":  {"type T struct{}; func (t T) A() { t.B() }", "func (*T) B() {}; type I = T", 1, 2},
		"field, generic":   {"type T[K any] struct { f K }; var _ = B", "func B(t T[int]) int { return t.f }", 1, 0},
		"field by a call":  {"type T struct{ f int }; func A() T { B() }", "func B() int { return A().f }", 1, 0},
		"same name":        {"func A() { B() }", "func B() { A := 1; _ = A }", 0, 0},
		"other's method":   {"type T int; func (T) Do() { B() }", "type U int; func (U) Do() {}; func B() { U.Do(0) }", 0, 1},
		"module of others": {`import "a.b/x"; var A = x.Do(); func C() { x.B(); B() }`, "func B() { C() }", 1, 0},
	} {
		const neither = "package p; func B() { A() }; func (T) C() {}"
		y := typed(t, map[string][]byte{"p/a.go": []byte("package p;" + c.a), "p/b.go": []byte("package p;" + c.b),
			"p/a_darwin.go": []byte(neither), "p/a_test.go": []byte(neither),
			"p/made.go": []byte("// Code generated by hand. DO NOT EDIT.\n" + neither)})
		testkit.Same(t, []int{len(y.pairs["p"]), y.sizes["p.T"], y.sizes["p"]}, []int{c.pairs, c.methods, 3},
			"%s: pairs, methods of T, files", name)
	}
}
