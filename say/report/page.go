// Package report writes a report as a single HTML file. It has no scripts and loads nothing; it has light and dark
// colours, fits wide and narrow windows, and draws its charts as inline SVG. [Page] is the document; [Lines] and [Bars]
// are the charts; [Hide] removes secrets.
package report

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.css
var css string

// Page is an HTML document.
type Page struct {
	Lang  string // "en" or "zh"
	Title string
	Body  template.HTML
}

// The Content-Security-Policy forbids the browser to load or run anything, whatever the body contains.
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
