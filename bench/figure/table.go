package figure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// PrintRows aligns the columns named by toLeft to the left and all others to the right.
func PrintRows(out io.Writer, rows [][]string, toLeft ...int) {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if slices.Contains(toLeft, i) {
				fmt.Fprintf(&line, "%-*s  ", width[i], cell)
			} else {
				fmt.Fprintf(&line, "%*s  ", width[i], cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// Short prints about three digits.
func Short(n Number) string {
	v := math.Abs(float64(n))
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsInf(v, 0):
		return "inf"
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.3f", float64(n))
	case v < 10:
		return fmt.Sprintf("%.2f", float64(n))
	case v < 100:
		return fmt.Sprintf("%.1f", float64(n))
	}
	return fmt.Sprintf("%.0f", float64(n))
}
