package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/api"
)

// read returns a file of the page.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(Files(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names lists our own files of a kind.
func names(t *testing.T, ext string) (all []string) {
	t.Helper()
	entries, err := fs.ReadDir(Files(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ext {
			all = append(all, e.Name())
		}
	}
	if len(all) == 0 {
		t.Fatalf("no *%s", ext)
	}
	return all
}

// uPlot 1.6.32 is what it was when it was vendored, and its licence is with it.
func TestVendored(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"vendor/uplot/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"vendor/uplot/uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		sum := sha256.Sum256([]byte(read(t, name)))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has the SHA-256 %s, want %s", name, got, want)
		}
	}
	if !strings.Contains(read(t, "vendor/uplot/LICENSE"), "MIT License") {
		t.Error("uPlot's licence is missing")
	}
}

// The page has every word in both languages, no word twice, and no word that is used is missing.
func TestWords(t *testing.T) {
	t.Parallel()
	var english []string
	for _, name := range names(t, ".js") {
		if name != "i18n.js" && !strings.HasPrefix(name, "words-") {
			continue
		}
		en, zh, ok := strings.Cut(read(t, name), "\n  zh: {")
		zh, _, end := strings.Cut(zh, "\n};")
		if !ok || !end {
			t.Fatalf("%s has no list of words, or the test does not find it", name)
		}
		e, z := wordsOf(en), wordsOf(zh)
		if len(e) < 10 || !slices.Equal(e, z) {
			t.Errorf("%s: %d words in English, %d in Chinese, want the same, and ten or more\n%v\n%v", name, len(e), len(z), e,
				z)
		}
		english = append(english, e...)
	}
	slices.Sort(english)
	if twice := slices.Compact(slices.Clone(english)); len(twice) != len(english) || len(english) < 100 {
		t.Errorf("%d of %d words are there twice", len(english)-len(twice), len(english))
	}
	for _, name := range names(t, ".js") {
		for _, m := range regexp.MustCompile(`\bt\("([\w-]+)"`).FindAllStringSubmatch(read(t, name), -1) {
			if !slices.Contains(english, m[1]) {
				t.Errorf("%s uses %q, which is in no list", name, m[1])
			}
		}
	}
}

// The Chinese page and the Chinese documents call a hazard and an outcome the same.
func TestNamesOfTheDocuments(t *testing.T) {
	t.Parallel()
	_, zh, _ := strings.Cut(read(t, "i18n.js"), "\n  zh: {")
	for _, h := range api.Hazards {
		if !regexp.MustCompile(`\bh_` + h.Word + `"?: "` + h.Named.Zh + `"`).MatchString(zh) {
			t.Errorf("the documents call %s %q, and i18n.js does not", h.Word, h.Named.Zh)
		}
	}
	for _, l := range api.Letters {
		if !slices.Contains([]string{"O", "L", "D", "X"}, l.Word) {
			continue
		}
		m := regexp.MustCompile(`\b` + l.Word + `: "([^"]+)"`).FindStringSubmatch(zh)
		if len(m) == 0 || !strings.HasPrefix(l.Short.Zh, m[1]) {
			t.Errorf("the documents call %s %q, i18n.js %q", l.Word, l.Short.Zh, m)
		}
	}
}

// wordsOf lists the keys of one language of a list of words.
func wordsOf(text string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)(?:^\s+|, |\{ )(?:"([\w-]+)"|(\w+)): "`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1]+m[2])
	}
	slices.Sort(all)
	return all
}

// The page sets text as text, runs nothing inline, and knows no other host.
func TestPageIsSafe(t *testing.T) {
	t.Parallel()
	unsafe := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new ` +
		`Function|setTimeout\("|javascript:`)
	foreign := regexp.MustCompile(`(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	for _, name := range slices.Concat(names(t, ".js"), names(t, ".html"), names(t, ".css")) {
		text := read(t, name)
		if m := unsafe.FindString(text); m != "" {
			t.Errorf("%s uses %s", name, m)
		}
		if m := foreign.FindString(text); m != "" {
			t.Errorf("%s names another host: %s", name, m)
		}
	}
	if m := regexp.MustCompile(`(?i)\son\w+=|style="|<script>|<style>`).FindString(read(t, "index.html")); m != "" {
		t.Errorf("index.html has %q inline, which its policy forbids", m)
	}
}

// The modules of the page import each other in no circle, so that each can be read after what it stands on.
func TestModulesHaveNoCircle(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	for _, name := range names(t, ".js") {
		for _, m := range regexp.MustCompile(`from "\./([\w-]+\.js)"`).FindAllStringSubmatch(read(t, name), -1) {
			imports[name] = append(imports[name], m[1])
		}
	}
	if len(imports) < 10 {
		t.Fatalf("%d modules import another, want the page's", len(imports))
	}
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if slices.Contains(way, name) {
			t.Errorf("a circle: %s", strings.Join(append(way, name), " -> "))
			return
		}
		for _, next := range imports[name] {
			visit(next, append(slices.Clone(way), name))
		}
	}
	visit("app.js", nil)
}
