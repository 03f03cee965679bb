package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/stock/pages"
)

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
		name := "docs/" + pages.Name("redisson", lang)
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
