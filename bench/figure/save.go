package figure

import (
	"os"
	"path/filepath"
)

// Save writes a file, and the directories above it that are missing.
func Save(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}
