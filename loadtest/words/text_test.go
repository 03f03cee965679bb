package words

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

// all are the texts of a language.
func all(lang string) map[string]string {
	texts := maps.Clone(messages[lang])
	maps.Copy(texts, pageTexts(lang))
	return texts
}

// Both languages say the same things, with the same arguments in the same order.
func TestMessagesInEveryLanguage(t *testing.T) {
	verb := regexp.MustCompile(`%[.0-9]*[a-z]`)
	en := all("en")
	for _, lang := range Languages {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(en)), slices.Sorted(maps.Keys(all(lang)))); diff != "" {
			t.Errorf("keys of %s differ from en (-en +%s):\n%s", lang, lang, diff)
		}
		for key, text := range all(lang) {
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
	var files []string
	for _, dir := range []string{"..", filepath.Join("..", "report")} {
		found, err := filepath.Glob(filepath.Join(dir, "*.[gt][om]*")) // .go and .tmpl
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var sources strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
	}
	for _, m := range regexp.MustCompile(`words\.Say\((?:style\.)?[lL]ang, "([^"]+)"[,)]|\{say "([^"]+)"`).FindAllStringSubmatch(sources.String(), -1) {
		if _, ok := all("en")[m[1]+m[2]]; !ok {
			t.Errorf("Say(%q): no such text", m[1]+m[2])
		}
	}
	for key := range all("en") {
		prefix, word, _ := strings.Cut(key, " ")
		named := strings.Contains(sources.String(), `"`+key+`"`)
		switch {
		case prefix == "col" && strings.Contains(sources.String(), `"`+word+`"`):
		case prefix == "letter", prefix == "row", key == strings.ToUpper(key): // built from constants
		case slices.Contains([]string{"exact", "breaks", "confirmed", "contradicted", "inconclusive", "unclaimed"}, key), prefix == "outcome":
		case !named:
			t.Errorf("text %q is used nowhere", key)
		}
	}
}

func TestSayUnknown(t *testing.T) {
	if got := Say("de", "exact"); got != "exact" {
		t.Errorf(`Say("de", "exact") = %q, want English`, got)
	}
	if got := Say("en", "no such key"); got != "no such key" {
		t.Errorf(`Say of an unknown key = %q, want the key`, got)
	}
}
