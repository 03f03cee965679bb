package report

import (
	"slices"
	"strings"
)

// barRunes are the signs of a sparkline, from the least that is not nothing to the greatest.
var barRunes = []rune("▁▂▃▄▅▆▇█")

// Spark draws each value as one character, as a share of the greatest; a value of zero or less is "·". It returns ""
// for no values.
func Spark(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	greatest := slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(barRunes[min(int(v/greatest*float64(len(barRunes))), len(barRunes)-1)])
	}
	return b.String()
}
