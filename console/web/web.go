// Package web is the page of the console: plain HTML, CSS and ES modules, served from the binary as they are here.
// There is no build step. Start with app.js. vendor/ holds third-party code with its licence.
package web

import (
	"embed"
	"io/fs"
)

//go:embed *.html *.css *.js *.json *.svg vendor
var files embed.FS

// Files are the files of the page; index.html is the page itself.
func Files() fs.FS { return files }
