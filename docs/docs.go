// Package docs is the documentation, for the program to show it: the console all of it, 'shop modes NAME' and the API
// the essay on a mode. Start with console.md. What stands between two markers, <!-- name:begin --> and <!-- name:end
// -->, is generated; the rest is the source.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed *.md modes/*.md decisions/*.md diagrams/*.svg *.svg
var files embed.FS

// Files are the pages and their pictures.
func Files() fs.FS { return files }

// Name returns the file of a page in a language, "en" or "zh".
func Name(page, lang string) string {
	if lang == "zh" {
		return page + ".zh.md"
	}
	return page + ".md"
}

// generated is a generated block, with the blank line after it.
var generated = regexp.MustCompile(`(?s)<!-- [a-z]+:begin -->\n.*?<!-- [a-z]+:end -->\n\n?`)

// Essay returns the page of a mode without its generated blocks.
func Essay(mode, lang string) (string, error) {
	page, err := files.ReadFile("modes/" + Name(mode, lang))
	if err != nil {
		return "", err
	}
	return strings.TrimRight(generated.ReplaceAllString(string(page), ""), "\n") + "\n", nil
}

// Fill returns a page with what a generated block is to hold.
func Fill(page, block, content string) (string, error) {
	begin, end := "<!-- "+block+":begin -->\n", "<!-- "+block+":end -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("want the lines %s%s", begin, end)
	}
	return before + begin + content + end + after, nil
}
