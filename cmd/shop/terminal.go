package main

import (
	"fmt"
	"io"
	"strings"

	layout "lastitem/internal/report"
)

// writeMarkdownRows writes rows as a Markdown table; the first are the heads.
func writeMarkdownRows(w io.Writer, rows [][]string) error {
	var b strings.Builder
	for i, cells := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(cells)) + "|\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRows writes rows in columns.
func writeRows(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], layout.Width(cell))
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		line := ""
		for i, cell := range cells {
			line += layout.Left(cell, widths[i]+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
