package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// read returns a file of the page.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(Files(), name)
	testkit.Must(t, err)
	return string(text)
}

// names lists our own files of a kind.
func names(t *testing.T, ext string) (all []string) {
	t.Helper()
	entries, err := fs.ReadDir(Files(), ".")
	testkit.Must(t, err)
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
		testkit.Is(t, hex.EncodeToString(sum[:]), want, "%s has the SHA-256", name)
	}
	if !strings.Contains(read(t, "vendor/uplot/LICENSE"), "MIT License") {
		t.Error("uPlot's licence is missing")
	}
}

// chinese is the catalog: the Chinese of each English text of the page.
func chinese(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Must(t, json.Unmarshal([]byte(read(t, "zh.json")), &all))
	return all
}

// Each English text of the page has its Chinese, with the same {names}, and no Chinese is stale or in the code.
func TestWords(t *testing.T) {
	t.Parallel()
	catalog, code := chinese(t), ""
	for _, name := range slices.Concat(names(t, ".js"), names(t, ".html")) {
		text := read(t, name)
		if m := regexp.MustCompile(`\p{Han}+`).FindString(text); m != "" {
			t.Errorf("%s has Chinese: %s", name, m)
		}
		if m := regexp.MustCompile("\\bt\\([^\"].*").FindString(text); m != "" && name != "i18n.js" {
			t.Errorf("%s: %q, but t wants a constant, so that it is found in the catalog", name, m)
		}
		code += text
	}
	literal := `"((?:[^"\\]|\\.)*)"`
	said := regexp.MustCompile(`\bt\(`+literal).FindAllStringSubmatch(code, -1)
	for _, table := range regexp.MustCompile(`(?s)\bwords\(\{(.*?)\}\)`).FindAllStringSubmatch(code, -1) {
		said = append(said, regexp.MustCompile(`: `+literal).FindAllStringSubmatch(table[1], -1)...)
	}
	used := map[string]bool{"English": true} // the name of the other language
	for _, m := range said {
		used[m[1]] = true
		if _, ok := catalog[m[1]]; !ok && m[1] != "" {
			t.Errorf("zh.json lacks %q", m[1])
		}
	}
	if len(used) < 250 {
		t.Errorf("%d texts found, want hundreds", len(used))
	}
	named := func(text string) []string {
		all := regexp.MustCompile(`\{\w+\}`).FindAllString(text, -1)
		slices.Sort(all)
		return all
	}
	for en, zh := range catalog {
		if !used[en] {
			t.Errorf("zh.json has %q, which nothing says", en)
		}
		if !slices.Equal(named(en), named(zh)) {
			t.Errorf("%q and %q name different things", en, zh)
		}
	}
}

// The Chinese page and the Chinese documents call a hazard and an outcome the same.
func TestNamesOfTheDocuments(t *testing.T) {
	t.Parallel()
	catalog := chinese(t)
	word := func(name string) string { // the Chinese of a table's word
		m := regexp.MustCompile(`\b` + name + `"?: "([^"]+)"`).FindStringSubmatch(read(t, "say.js"))
		return catalog[strings.Join(m[min(1, len(m)):], "")]
	}
	for _, h := range api.Hazards {
		if zh := word(h.Word); zh != h.Named.Zh {
			t.Errorf("the documents call %s %q, the page %q", h.Word, h.Named.Zh, zh)
		}
	}
	for _, l := range api.Letters {
		if zh := word(l.Word); slices.Contains([]string{"O", "L", "D", "X"}, l.Word) &&
			(zh == "" || !strings.HasPrefix(l.Short.Zh, zh)) {
			t.Errorf("the documents call %s %q, the page %q", l.Word, l.Short.Zh, zh)
		}
	}
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
