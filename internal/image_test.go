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

// The image says from which commit it was built: the Dockerfile takes it as an argument, and Compose passes it on. (That scripts/compose sets
// it is tested in deploy.)
func TestImageNamesItsCommit(t *testing.T) {
	for name, want := range map[string][]string{
		"../Dockerfile":         {"ARG GIT_COMMIT", "-X main.commit=$GIT_COMMIT"},
		"../docker-compose.yml": {"GIT_COMMIT:"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s lacks %q", name, w)
			}
		}
	}
}
