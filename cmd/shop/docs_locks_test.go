package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported returns what a package of locks exports: its top-level names, and its methods with a dot before them.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					names["."+d.Name.Name] = true
				} else {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

// TestLockNames: docs/locks.md names what the packages of the locks export, and a constructor in each row of its table.
func TestLockNames(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string]bool{"lock": exported(t, "internal/lock")}
	for _, name := range []string{"textbook", "handoff", "coord", "sqllock"} {
		packages[name] = exported(t, "internal/lock/"+name)
	}
	qualified := regexp.MustCompile(`\b(lock|textbook|handoff|coord|sqllock)\.([A-Z]\w*)`)
	method := regexp.MustCompile(`\)(\.[A-Z]\w*)|^` + "`" + `(\.[A-Z]\w*)`)
	code := regexp.MustCompile("`[^`]+`")
	for _, page := range []string{"docs/locks.md", "docs/locks.zh.md"} {
		for _, name := range qualified.FindAllStringSubmatch(readDoc(t, page), -1) {
			if !packages[name[1]][name[2]] {
				t.Errorf("%s: there is no %s", page, name[0])
			}
		}
		constructors := 0
		for _, table := range tablesOf(t, page) {
			if table[0][0] != "`mutex`" {
				continue
			}
			for _, row := range table {
				constructors++
				if !qualified.MatchString(row[1]) {
					t.Errorf("%s: %s: %q names no constructor with its package", page, row[0], row[1])
				}
				for _, c := range code.FindAllString(row[1], -1) {
					for _, m := range method.FindAllStringSubmatch(c, -1) {
						if !packages["handoff"][m[1]+m[2]] {
							t.Errorf("%s: %s: there is no method %s", page, row[0], c)
						}
					}
				}
			}
		}
		if constructors < 20 {
			t.Errorf("%s: %d constructors: the test does not see what it should", page, constructors)
		}
	}
}
