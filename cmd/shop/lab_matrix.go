package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lastitem/faultlab"
)

// updateMatrix merges the explored cells into the file.
func updateMatrix(file string, res *faultlab.Result) error {
	var known faultlab.Matrix
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	merged, err := known.Merge(res.Cells, res.Order).JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(file, merged, 0o644) //nolint:gosec // a file of the repository
}

// writeMatrixPages renders the committed matrix.
func writeMatrixPages(dir string) error {
	matrix, err := faultlab.Committed()
	if err != nil {
		return err
	}
	modes, err := registry()
	if err != nil {
		return err
	}
	for lang, name := range map[string]string{"en": "matrix.md", "zh": "matrix.zh.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(matrix.Markdown(lang, modes)), 0o644); err != nil { //nolint:gosec // a page of the repository
			return err
		}
	}
	return nil
}
