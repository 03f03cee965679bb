package words

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// all are the texts of a language.
func all(lang string) map[string]string {
	texts := maps.Clone(messages.In(lang))
	maps.Copy(texts, pageTexts.In(lang))
	return texts
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
	for _, m := range regexp.MustCompile(`words\.Say\((?:style\.)?[lL]ang, "([^"]+)"[,)]|\{say "([^"]+)"`).
		FindAllStringSubmatch(sources.String(), -1) {
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
		case slices.Contains([]string{"exact", "breaks", "confirmed", "contradicted", "inconclusive", "unclaimed"}, key),
			prefix == "outcome":
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
