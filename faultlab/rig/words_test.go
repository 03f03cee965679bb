package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The examples' scripts give --serve the path of a program as one word, whatever is in it.
func TestExamplesQuoteTheirPrograms(t *testing.T) {
	t.Parallel()
	const program = "/a user's/.cache/bin/program"
	shop := filepath.Join(t.TempDir(), "shop")
	syscall.ForkLock.RLock() // a child would hold the file open, and it could not be executed: https://go.dev/issue/22315
	err := os.WriteFile(shop, []byte("#!/bin/sh\nwhile [ \"$1\" != --serve ]; do shift; done; printf %s \"$2\""), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for name, variable := range map[string]string{"redis-py-flask": "PYTHON", "redsync": "EXAMPLE", "redisson": "JAVA"} {
		cmd := exec.CommandContext(t.Context(), "../../examples/"+name+"/explore")
		cmd.Env = append(os.Environ(), "SHOP="+shop, variable+"="+program)
		line, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s/explore: %v", name, err)
		}
		if words, err := SplitWords(string(line)); err != nil || words[0] != program {
			t.Errorf("%s/explore starts %q (%v), want %q", name, words, err, program)
		}
	}
}
