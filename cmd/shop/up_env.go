package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lastitem/internal/localstack"
)

// writeEnv writes the line of [exports] to a file, for other shells to source while the stack is up. Only the user may read it, since
// it holds the token. remove deletes it, because a later stack has another token; with file "" both do nothing.
func writeEnv(file string, s *localstack.Stack) (remove func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a directory such as out/, which others may read
		return nil, fmt.Errorf("--env: %w", err)
	}
	// A file that is there already keeps its mode when it is written, so it goes first.
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("--env: %w", err)
	}
	if err := os.WriteFile(file, []byte(exports(s)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("--env: %w", err)
	}
	return func() error { return os.Remove(file) }, nil
}
