// Text is laid out in the columns of a terminal, in which a Chinese character takes two: [Width], [Left], [Right]
// and [Align] for tables, [Wrap] for paragraphs.

package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// runeWidth returns how many terminal columns r takes: two for East Asian wide characters, none for combining marks.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Width returns how many terminal columns s takes; s carries no control sequences.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// Left aligns s to the left in n columns.
func Left(s string, n int) string { return s + blanks(s, n) }

// Right aligns s to the right in n columns.
func Right(s string, n int) string { return blanks(s, n) + s }

func blanks(s string, n int) string { return strings.Repeat(" ", max(0, n-Width(s))) }

// Align writes rows in columns, two blanks apart; the first columns, so many, are aligned to the right.
func Align(rows [][]string, right int) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if i < right {
				line += Right(cell, widths[i]) + "  "
			} else {
				line += Left(cell, widths[i]) + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// marks is the Chinese punctuation after which a line may end.
const marks = "，；：。）"

// joiner after a mark says that the line must not end there (U+2060, which takes no column).
const joiner = '\u2060'

// Unbroken returns s with blanks and punctuation at which [Wrap] does not break the line.
func Unbroken(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(s, " ", "\u00a0") {
		b.WriteRune(r)
		if strings.ContainsRune(marks, r) {
			b.WriteRune(joiner)
		}
	}
	return b.String()
}

// broken undoes Unbroken.
var broken = strings.NewReplacer("\u00a0", " ", string(joiner), "")

// Wrap breaks s at blanks, and after the punctuation of Chinese, into lines of at most n columns; a longer word stays
// whole, so that an id can be copied.
func Wrap(s string, n int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range words(s) {
		w := Width(word)
		if line != "" && used+Width(strings.TrimRight(word, " ")) > n {
			lines = append(lines, strings.TrimRight(line, " "))
			line, used = "", 0
		}
		line, used = line+broken.Replace(word), used+w
	}
	if line != "" {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// words splits s after everything at which a line may end.
func words(s string) []string {
	var words []string
	start := 0
	for i, r := range s {
		end := i + utf8.RuneLen(r)
		if strings.ContainsRune(" "+marks, r) && !strings.HasPrefix(s[end:], string(joiner)) {
			words, start = append(words, s[start:end]), end
		}
	}
	return append(words, s[start:])
}
