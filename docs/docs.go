// Package docs is the documentation, for the console to show it from the binary. Start with console.md.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md modes/*.md decisions/*.md diagrams/*.svg *.svg
var files embed.FS

// Files are the pages and their pictures.
func Files() fs.FS { return files }
