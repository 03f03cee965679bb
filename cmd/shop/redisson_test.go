package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/stock/pages"
)

var (
	redissonLink = regexp.MustCompile(`^https://github\.com/redisson/redisson/blob/redisson-(3\.6\.5|3\.52\.0)/redisson/src/main/java/org/redisson/(?:[a-z]+/)?[A-Z]\w+\.java#L(\d+)-L(\d+)$`)
	ourFile      = regexp.MustCompile("`(internal/[^`]+\\.(?:go|lua))`")
	ourFunction  = regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`")
)

// TestRedissonPage: both languages name the same lines of Redisson, at its tags, and the files and methods of ours that they name exist.
func TestRedissonPage(t *testing.T) {
	declared := lockMethods(t)
	places := map[string][]string{}
	for _, lang := range []string{"en", "zh"} {
		name := "docs/" + pages.Name("redisson", lang)
		text := readDoc(t, name)
		for _, l := range outbound.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(l[1], "/redisson/blob/") {
				continue
			}
			places[lang] = append(places[lang], l[1])
			m := redissonLink.FindStringSubmatch(l[1])
			if m == nil {
				t.Errorf("%s: %s: want a file of Redisson at one of two tags, with lines", name, l[1])
				continue
			}
			from, _ := strconv.Atoi(m[2])
			to, _ := strconv.Atoi(m[3])
			if from > to {
				t.Errorf("%s: %s: lines from %d to %d", name, l[1], from, to)
			}
		}
		for _, f := range ourFile.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, f[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		found := 0
		for _, f := range ourFunction.FindAllStringSubmatch(text, -1) {
			methods, ours := declared[f[1]]
			if !ours {
				continue // of Redisson
			}
			if found++; !slices.Contains(methods, f[2]) {
				t.Errorf("%s: %s has no %s", name, f[1], f[2])
			}
		}
		if found < 8 || len(places[lang]) < 25 {
			t.Errorf("%s: %d methods of ours, %d places in Redisson: the test does not see what it should", name, found, len(places[lang]))
		}
	}
	if diff := cmp.Diff(places["en"], places["zh"]); diff != "" {
		t.Errorf("the languages name other lines (-en +zh):\n%s", diff)
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
