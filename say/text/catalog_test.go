package text_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/testkit"
)

// sources calls f with each Go file of the module that is no test and not in this package.
func sources(t *testing.T, f func(name string, file *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if d.IsDir() {
			_, foreign := os.Stat(filepath.Join(path, "go.mod"))
			if name != "." && (foreign == nil || strings.HasPrefix(d.Name(), ".") || name == "bin" || name == "say/text") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(name, file)
		return nil
	})
	testkit.Must(t, err)
}

// constant is the value of a string constant that is written as literals; false = it is none.
func constant(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil && x.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := constant(x.X)
		b, too := constant(x.Y)
		return a + b, ok && too && x.Op == token.ADD
	}
	return "", false
}

// values adds the strings of a composite literal to said; its keys are no sentences.
func values(x ast.Expr, said map[string]bool) {
	if s, ok := constant(x); ok {
		said[s] = true
		return
	}
	if list, ok := x.(*ast.CompositeLit); ok {
		for _, e := range list.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e = kv.Value
			}
			values(e, said)
		}
	}
}

// said are the sentences of the code: the arguments of Of, the strings of tables, and the help of settings.
func said(t *testing.T) (sentences, tables map[string]bool) {
	t.Helper()
	sentences, tables = map[string]bool{}, map[string]bool{}
	sources(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if n.Tag != nil && strings.HasPrefix(name, "internal/replica/") {
					tag, _ := strconv.Unquote(n.Tag.Value)
					if help := reflect.StructTag(tag).Get("help"); help != "" {
						sentences[help] = true
					}
				}
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.SelectorExpr)
				if ok && f.Sel.Name == "Log" && strings.HasPrefix(name, "stack/") { // what a stack tells
					if s, ok := constant(n.Args[0]); ok && s != "%s" {
						sentences[s] = true
					}
				}
				if !ok || fmt.Sprint(f.X) != "text" || len(n.Args) != 1 {
					return true
				}
				switch f.Sel.Name {
				case "Of":
					if s, ok := constant(n.Args[0]); ok {
						sentences[s] = true
					} else if name != "internal/replica/settings.go" { // the help of a setting
						t.Errorf("%s: text.Of wants a constant, so that it is found in the catalog", name)
					}
				case "Table":
					values(n.Args[0], tables)
				}
			}
			return true
		})
	})
	page := testkit.Read(t, filepath.Join("..", "..", "loadtest", "report", "page.tmpl"))
	for _, m := range regexp.MustCompile(`\{\{say "([^"]+)"\}\}`).FindAllStringSubmatch(string(page), -1) {
		sentences[m[1]] = true
	}
	return sentences, tables
}

func catalog(t *testing.T) map[string]string {
	t.Helper()
	data := testkit.Read(t, "zh.json")
	all := map[string]string{}
	testkit.Must(t, json.Unmarshal(data, &all))
	return all
}

// The catalog has each sentence of the code, and no other. A table may hold words that are the same in both languages.
func TestCatalogIsComplete(t *testing.T) {
	t.Parallel()
	sentences, tables := said(t)
	if len(sentences) < 800 {
		t.Errorf("%d sentences found, want hundreds", len(sentences))
	}
	all := catalog(t)
	for s := range sentences {
		if all[s] == "" {
			t.Errorf("zh.json lacks %q", s)
		}
	}
	for s := range tables {
		if all[s] == "" && !testkit.InChinese(s) && strings.Contains(s, " ") {
			t.Errorf("zh.json lacks %q, of a table", s)
		}
	}
	for s := range all {
		if !sentences[s] && !tables[s] {
			t.Errorf("zh.json has %q, which nothing says", s)
		}
	}
}

// numerals are the numbers that a text may spell out, by their digits.
var numerals = map[string][]string{"0": {"零"}, "1": {"一"}, "2": {"两", "二"}, "3": {"三"}, "5": {"五"}}

// sameNames says how the Chinese of a text differs from the English in what it names; "" = not at all.
func sameNames(en, zh string) string {
	of := func(text string) []string {
		text = strings.ReplaceAll(text, "%%", "%")
		all := testkit.Names.FindAllString(text, -1)
		for i, word := range all { // %[2]s is %s in another place
			if strings.HasPrefix(word, "%[") {
				all[i] = "%" + word[strings.Index(word, "]")+1:]
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	ours, theirs := of(zh), of(en)
	for _, word := range theirs {
		if !slices.Contains(ours, word) && !slices.ContainsFunc(numerals[word], func(n string) bool {
			return strings.Contains(zh, n)
		}) {
			return fmt.Sprintf("the Chinese lacks %s", word)
		}
	}
	for _, word := range ours {
		if !slices.Contains(theirs, word) && strings.Trim(word, "0123456789.") != "" {
			return fmt.Sprintf("the English lacks %s", word)
		}
	}
	return ""
}

// alike are the texts without words, and the numbers of write-ups, which the Chinese ones state in their own way.
var alike = []string{
	"%s, %s/%s, %s × %d, GOMAXPROCS %d, lastitem %s", "p90", "p95", "p99", "p99.9", "中文",
	"GET %s: %s", "Redis: 100,000 and more", "3000 and more, 1000 and more", "500 in 5 segments of 100, against one lock",
	"1000 in 10 segments of 100, against one lock",
}

// Chinese stands in the catalog, not in the code. Excepted are what the code reads, and the names of languages and
// files.
func TestNoChineseInCode(t *testing.T) {
	t.Parallel()
	excepted := map[string]string{
		"say/redact/redact.go":           "places of secrets, in either language",
		"internal/stock/newmode/main.go": "the title of a skeleton",
		"internal/stock/essays.go":       "a comment shows a note in both languages",
		"testkit/stocktest/answers.go":   "input of a test",
		"cmd/shop/settings.go":           "the link to the other language",
		"target/tried.go":                "what rows say that were cancelled",
		"faultlab/tell/pages.go":         "the link to the other language",
		"internal/stock/pages/pages.go":  "the link to the other language",
	}
	sources(t, func(name string, _ *ast.File) {
		code := testkit.Read(t, filepath.Join("..", "..", name))
		if found := testkit.HasChinese(string(code)); found != (excepted[name] != "") {
			t.Errorf("%s: has Chinese: %v, excepted: %q", name, found, excepted[name])
		}
	})
}

// Both halves of every sentence name the same things, with the same arguments, and no Chinese sentence stands for two.
func TestCatalogSaysTheSame(t *testing.T) {
	t.Parallel()
	verb := regexp.MustCompile(`%(?:\[\d\])?[.0-9]*[a-zA-Z]`)
	count := func(text string) int { return len(verb.FindAllString(strings.ReplaceAll(text, "%%", ""), -1)) }
	all, of := catalog(t), map[string]string{}
	for _, en := range slices.Sorted(maps.Keys(all)) {
		zh := all[en]
		if other := of[zh]; other != "" && len([]rune(zh)) > 8 { // short words have more than one English
			t.Errorf("%q and %q are both %q", en, other, zh)
		}
		of[zh] = en
		if slices.Contains(alike, en) {
			continue
		}
		if !testkit.InChinese(zh) && en != zh {
			t.Errorf("%q: no Chinese in %q", en, zh)
		}
		if strings.Contains(en, "--reset-url") &&
			strings.Contains(en, "--reset-sql") != strings.Contains(en, "--reset-redis") {
			t.Errorf("%q names some of the ways to reset a service, not all", en)
		}
		if differ := sameNames(en, zh); differ != "" || count(en) != count(zh) {
			t.Errorf("%q and %q: %s, %d and %d arguments", en, zh, differ, count(en), count(zh))
		}
	}
}
