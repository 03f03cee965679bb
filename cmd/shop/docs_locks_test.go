package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLockNames: docs/locks.md names what the packages of the locks declare, and a constructor in each row of its
// table.
func TestLockNames(t *testing.T) {
	t.Parallel()
	source := map[string]string{}
	for name, dir := range map[string]string{
		"lock": "", "textbook": "textbook", "handoff": "handoff", "coord": "coord", "sqllock": "sqllock",
	} {
		files, _ := filepath.Glob(filepath.Join(root, "internal", "lock", dir, "*.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source[name] += string(text)
		}
	}
	qualified := regexp.MustCompile(`\b(lock|textbook|handoff|coord|sqllock)\.([A-Z]\w*)`)
	method := regexp.MustCompile("[)`]\\.([A-Z]\\w*)")
	for _, page := range []string{"docs/locks.md", "docs/locks.zh.md"} {
		for _, name := range qualified.FindAllStringSubmatch(readDoc(t, page), -1) {
			if !regexp.MustCompile(`(?m)^(func |type |var |const |\t)` + name[2] + `\b`).MatchString(source[name[1]]) {
				t.Errorf("%s: there is no %s", page, name[0])
			}
		}
		rows := 0
		for _, table := range tablesOf(t, page) {
			for _, row := range table {
				if table[0][0] != "`mutex`" {
					continue
				}
				rows++
				if !qualified.MatchString(row[1]) {
					t.Errorf("%s: %s: %q names no constructor with its package", page, row[0], row[1])
				}
				for _, m := range method.FindAllStringSubmatch(row[1], -1) {
					if !regexp.MustCompile(`(?m)^func \([^)]*\) ` + m[1] + `\(`).MatchString(source["handoff"]) {
						t.Errorf("%s: %s: there is no method %s", page, row[0], m[1])
					}
				}
			}
		}
		if rows < 20 {
			t.Errorf("%s: %d constructors: the test does not see what it should", page, rows)
		}
	}
}
