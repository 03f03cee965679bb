package loadtest

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

// displayWidth returns how many terminal columns s takes; s carries no control sequences.
func displayWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// pad fills s with blanks to n columns, on the left if right-aligned.
func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-displayWidth(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// unbroken returns s with blanks at which [wrap] does not break.
func unbroken(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

// wrap breaks s at blanks, and after the punctuation of Chinese, into lines of at most n columns; a longer word stays whole,
// so that an id can be copied.
func wrap(s string, n int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range words(s) {
		w := displayWidth(word)
		if line != "" && used+displayWidth(strings.TrimRight(word, " ")) > n {
			lines = append(lines, strings.TrimRight(line, " "))
			line, used = "", 0
		}
		line, used = line+strings.ReplaceAll(word, "\u00a0", " "), used+w
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
		if strings.ContainsRune(" ，；：。）", r) {
			end := i + utf8.RuneLen(r)
			words, start = append(words, s[start:end]), end
		}
	}
	return append(words, s[start:])
}
