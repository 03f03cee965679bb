package loadtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Both languages say the same things, with the same arguments in the same order.
func TestMessagesInEveryLanguage(t *testing.T) {
	verb := regexp.MustCompile(`%[.0-9]*[a-z]`)
	en := messages["en"]
	for _, lang := range Languages {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(en)), slices.Sorted(maps.Keys(messages[lang]))); diff != "" {
			t.Errorf("keys of %s differ from en (-en +%s):\n%s", lang, lang, diff)
		}
		for key, text := range messages[lang] {
			// %% is no verb.
			verbs := verb.FindAllString(strings.ReplaceAll(text, "%%", ""), -1)
			want := verb.FindAllString(strings.ReplaceAll(en[key], "%%", ""), -1)
			if diff := cmp.Diff(want, verbs); diff != "" && !strings.HasPrefix(key, "col ") {
				t.Errorf("%s %q takes other arguments than en:\n%s", lang, key, diff)
			}
		}
	}
}

// Every key that the sources name exists, and every text is used.
func TestMessagesAreUsed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "text.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
	}
	for _, m := range regexp.MustCompile(`say\((?:style\.)?[lL]ang, "([^"]+)"[,)]`).FindAllStringSubmatch(sources.String(), -1) {
		if _, ok := messages["en"][m[1]]; !ok {
			t.Errorf("say(%q): no such text", m[1])
		}
	}
	for key := range messages["en"] {
		prefix, word, _ := strings.Cut(key, " ")
		named := strings.Contains(sources.String(), `"`+key+`"`)
		switch {
		case prefix == "col" && strings.Contains(sources.String(), `"`+word+`"`):
		case prefix == "letter", prefix == "row", key == strings.ToUpper(key): // built from constants
		case slices.Contains([]string{"exact", "breaks", "confirmed", "contradicted", "inconclusive", "unclaimed"}, key):
		case !named:
			t.Errorf("text %q is used nowhere", key)
		}
	}
}

func TestSayUnknown(t *testing.T) {
	if got := say("de", "exact"); got != "exact" {
		t.Errorf(`say("de", "exact") = %q, want English`, got)
	}
	if got := say("en", "no such key"); got != "no such key" {
		t.Errorf(`say of an unknown key = %q, want the key`, got)
	}
}
