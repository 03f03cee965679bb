package report

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Terminal says whether w is a terminal, and how many columns it has. If w is not a terminal, wide is the value of the
// variable COLUMNS. 0 = unknown.
func Terminal(w io.Writer) (is bool, wide int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil {
			return true, wide
		}
		return true, 0
	}
	wide, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil {
		return false, 0
	}
	return false, max(0, wide)
}

// Rewritable says whether the last line of w can be rewritten, as on a terminal other than TERM=dumb, and how many
// columns it has; 0 = unknown.
func Rewritable(w io.Writer) (is bool, wide int) {
	is, wide = Terminal(w)
	return is && os.Getenv("TERM") != "dumb", wide
}

// Fitted cuts s so that it does not fill a line of wide columns: the terminal would begin another. 0 columns = unknown,
// then nothing is cut.
func Fitted(s string, wide int) string {
	runes := []rune(s)
	for wide > 1 && Width(string(runes)) >= wide {
		runes = runes[:len(runes)-1]
	}
	return string(runes)
}
