package figure

import (
	"fmt"
	"io"
	"strings"
)

// A Column is a column of a table with rows of type R. Its head has two lines, as in "wait ms|p99".
type Column[R any] struct {
	Head string
	Cell func(R) string
}

// Plain shows a measure as a number; of returns it.
func Plain[R any](head string, of func(R) Number) Column[R] {
	return Column[R]{head, func(r R) string { return Short(of(r)) }}
}

// Percent shows a share in percent.
func Percent[R any](head string, of func(R) Number) Column[R] {
	return Column[R]{head, func(r R) string {
		if n := of(r); n.Known() {
			return fmt.Sprintf("%.0f%%", 100*n)
		}
		return "-"
	}}
}

// PrintTable prints the rows below the heads; the columns named by toLeft are aligned to the left.
func PrintTable[R any](out io.Writer, columns []Column[R], rows []R, toLeft ...int) {
	lines := make([][]string, 2, 2+len(rows))
	for _, c := range columns {
		above, below, _ := strings.Cut(c.Head, "|")
		lines[0], lines[1] = append(lines[0], above), append(lines[1], below)
	}
	for _, r := range rows {
		var line []string
		for _, c := range columns {
			line = append(line, c.Cell(r))
		}
		lines = append(lines, line)
	}
	PrintRows(out, lines, toLeft...)
}
