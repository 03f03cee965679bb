package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Cleaner is a file whose readers may be terminals; see [Clean].
type Cleaner struct {
	to       *os.File // not embedded: it has other methods that write
	terminal bool

	mu   sync.Mutex
	rest []byte // the beginning of a rune, until the next Write brings the rest
}

// Clean returns f as a writer that shows control characters as \u001b instead of sending them, other than \n and \t: in
// the name of a replica, in an answer or in a file, a foreign program may have left sequences that rewrite the screen.
// On a terminal it lets the colours of reports pass; [Rewrite] is the one way to move the cursor.
func Clean(f *os.File) *Cleaner {
	is, _ := Terminal(f)
	return &Cleaner{to: f, terminal: is}
}

// Fd says which file it is, for [Terminal].
func (c *Cleaner) Fd() uintptr { return c.to.Fd() }

// Rewrite replaces the last line of w, a terminal, by text. It moves the cursor past all writers around the terminal.
func Rewrite(w io.Writer, text string) {
	const begin = "\r\x1b[K"
	f, ok := w.(interface{ Fd() uintptr })
	if ok {
		_, err := syscall.Write(int(f.Fd()), []byte(begin))
		ok = err == nil
	}
	if !ok {
		text = begin + text
	}
	_, _ = io.WriteString(w, text)
}

// ours are the sequences that package report sends. None can do more than colour.
var ours = []string{"\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"}

// Write implements io.Writer.
func (c *Cleaner) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	left := slices.Concat(c.rest, p)
	c.rest = nil
	for len(left) > 0 {
		n := c.next(&out, left)
		if n == 0 {
			c.rest = bytes.Clone(left)
			break
		}
		left = left[n:]
	}
	if _, err := c.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next writes what left begins with, and returns how many bytes that is; 0 = its end is not there yet.
func (c *Cleaner) next(out *bytes.Buffer, left []byte) int {
	if left[0] == '\x1b' && c.terminal {
		for _, s := range ours {
			if bytes.HasPrefix(left, []byte(s)) {
				out.WriteString(s)
				return len(s)
			}
		}
	}
	r, n := utf8.DecodeRune(left)
	switch {
	case r == utf8.RuneError && n == 1 && !utf8.FullRune(left):
		return 0
	case r == utf8.RuneError && n == 1:
		fmt.Fprintf(out, `\x%02x`, left[0])
	case unicode.IsControl(r) && r != '\n' && r != '\t', unicode.Is(unicode.Bidi_Control, r):
		fmt.Fprintf(out, `\u%04x`, r) // as JSON has it, so that JSON stays JSON
	default:
		out.Write(left[:n])
	}
	return n
}
