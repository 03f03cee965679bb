// Package page makes a report that is one file: a page without scripts that loads nothing, for light and dark, wide and narrow, with charts as
// inline SVG. [Page] is the document, [Lines] and [Bars] are the charts, and [Hide] takes secrets out of what was written.
package page

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.css
var css string

// Page is a document.
type Page struct {
	Lang  string // "en" or "zh"
	Title string
	Body  template.HTML
}

// The policy forbids the browser to load or to run anything, whatever the body holds.
var document = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Lang}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{{.Title}}</title>
<style>{{.CSS}}</style>
</head>
<body>
{{.Body}}
</body>
</html>
`))

// Write writes the document.
func (p Page) Write(w io.Writer) error {
	return document.Execute(w, struct {
		Page
		CSS template.CSS
	}{p, template.CSS(css)}) //nolint:gosec // our own, from the binary
}
