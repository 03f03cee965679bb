package testenv

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Edit is a part of a mutant, a defect that a test puts into sources to see whether other tests find it: a file, a text
// that stands in it once, and the text that replaces it.
type Edit [3]string

// Edited returns the texts of the edited files, by their absolute paths. The files of the edits are in dir.
func Edited(t testing.TB, dir string, edits []Edit) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, e := range edits {
		file, err := filepath.Abs(filepath.Join(dir, e[0]))
		if err != nil {
			t.Fatal(err)
		}
		if _, begun := texts[file]; !begun {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		if n := strings.Count(texts[file], e[1]); n != 1 {
			t.Fatalf("%s: %q stands there %d times, want once", e[0], e[1], n)
		}
		texts[file] = strings.Replace(texts[file], e[1], e[2], 1)
	}
	return texts
}

// Overlay writes the edited sources and returns the file for the flag -overlay of 'go build' and 'go test'.
func Overlay(t testing.TB, dir string, edits []Edit) (file string) {
	t.Helper()
	temp, replaced := t.TempDir(), map[string]string{}
	for file, text := range Edited(t, dir, edits) {
		replaced[file] = filepath.Join(temp, filepath.Base(file))
		if err := os.WriteFile(replaced[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
