package internal_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The image is built from all that the program is made of: .dockerignore leaves out everything but the directories that it names.
func TestImageHasItsSources(t *testing.T) {
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for dir := range arrows {
		top, _, _ := strings.Cut(dir, "/")
		if top != "deploy" && top != "examples" && !slices.Contains(lines, "!"+top) { // the program imports nothing of these
			t.Errorf(".dockerignore leaves out %s, with package %s", top, dir)
		}
	}
}
