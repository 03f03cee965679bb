package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The load generator and the lab send what a customer sends: a figure or a verdict under a lease time that no customer can ask for would be
// one about another service.
func TestNoRunIsAnExperiment(t *testing.T) {
	field := regexp.MustCompile(`lease_ms|hold_ms|[?&"]depth["=]`)
	files := 0
	for _, dir := range []string{"../loadtest", "../faultlab"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			if found := field.Find(text); found != nil {
				t.Errorf("%s sends %s: experiments with the lock are not for runs", path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Errorf("%d files looked at", files)
	}
}
