package localstack

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every line that a stack logs has a Chinese text with the same arguments in the same order, and there is no other.
func TestChineseLog(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	call, verb := regexp.MustCompile(`opts\.Log\("([^"]+)"`), regexp.MustCompile(`%[a-z]`)
	logged := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "%s" { // the argument is in the user's language already
				continue
			}
			logged[m[1]] = true
			if got := chinese[m[1]]; !slices.Equal(verb.FindAllString(got, -1), verb.FindAllString(m[1], -1)) {
				t.Errorf("%s logs %q, whose Chinese is %q: want the same arguments", file, m[1], got)
			}
		}
	}
	for format := range chinese {
		if !logged[format] {
			t.Errorf("%q is logged nowhere", format)
		}
	}
	var said []string
	log := func(format string, _ ...any) { said = append(said, format) }
	inLanguage("zh", log)("replica %s: at %s")
	inLanguage("en", log)("replica %s: at %s")
	inLanguage("zh", log)("something else")
	if want := []string{"副本 %s：%s", "replica %s: at %s", "something else"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
