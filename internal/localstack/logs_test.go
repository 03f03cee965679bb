package localstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	s := &Stack{Dir: dir, Replicas: []Service{{Name: "replica 1"}, {Name: "replica 2"}, {Name: "replica 3"}}}
	write("replica-1.log", "before\n")
	since := s.MarkLogs()
	if got := since(5); got != nil {
		t.Errorf("nothing logged: %q, want nothing", got)
	}
	write("replica-1.log", "one\ntwo\nthree\n")
	write("replica-2.log", "only\n") // no log yet when it was marked
	if diff := cmp.Diff([]string{"replica 1: two", "replica 1: three", "replica 2: only"}, since(2)); diff != "" {
		t.Errorf("lines since the mark (-want +got):\n%s", diff)
	}
	write("replica-3.log", strings.Repeat(strings.Repeat("x", 99)+"\n", 1000)+"last\n")
	got := since(3)
	if want := "replica 3: " + strings.Repeat("x", 99); len(got) != 7 || got[4] != want || got[6] != "replica 3: last" {
		t.Errorf("of a long log: %d lines, want 7 with whole ones of the third replica at the end: %q", len(got), got)
	}
}
