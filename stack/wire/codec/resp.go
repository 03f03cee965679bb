package codec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// RESP 2 and 3, by https://redis.io/docs/latest/develop/reference/protocol-spec/.

var errRESP = errors.New("this is not Redis's protocol")

// respCommand reads one command: an array of bulk strings, or a line of words. n is its length, 0 when it is not whole
// yet.
func respCommand(p []byte) (words []string, n int, err error) {
	if p[0] != '*' {
		end := bytes.IndexByte(p, '\n')
		if bytes.ContainsFunc(p[:max(0, end)], func(r rune) bool {
			return r < ' ' && r != '\r' && r != '\t'
		}) || end < 0 && len(p) > 64<<10 {
			return nil, 0, fmt.Errorf("%w: a command begins with %q", errRESP, p[0])
		}
		return strings.Fields(string(p[:end+1])), end + 1, nil
	}
	count, n, err := respNumber(p)
	if n == 0 || err != nil {
		return nil, 0, err
	}
	words = make([]string, 0, max(0, min(count, 64)))
	for range count {
		if len(p) > n && p[n] != '$' {
			return nil, 0, fmt.Errorf("%w: an argument begins with %q", errRESP, p[n])
		}
		size, head, err := respNumber(p[n:])
		if head == 0 || err != nil {
			return nil, 0, err
		}
		if size < 0 {
			return nil, 0, fmt.Errorf("%w: an argument of %d bytes", errRESP, size)
		}
		if len(p) < n+head+size+2 {
			return nil, 0, nil
		}
		words = append(words, string(p[n+head:n+head+size]))
		n += head + size + 2
	}
	return words, n, nil
}

// respNumber reads a line of a mark and a number, and returns its length, 0 when it is not whole yet.
func respNumber(p []byte) (number, n int, err error) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		if len(p) > 32 {
			err = errRESP
		}
		return 0, 0, err
	}
	if end < 2 || p[end-1] != '\r' {
		return 0, 0, errRESP
	}
	number, err = strconv.Atoi(string(p[1 : end-1]))
	if err != nil || number < -1 || number > maxMessage {
		return 0, 0, fmt.Errorf("%w: a length of %q", errRESP, p[1:end-1])
	}
	return number, end + 1, nil
}

// respReply returns the length of the reply at the beginning of p, 0 when it is not whole yet.
func respReply(p []byte) (n int, err error) {
	for open := 1; open > 0; open-- {
		if n >= len(p) {
			return 0, nil
		}
		switch p[n] {
		case '+', '-', ':', '_', '#', ',', '(':
			end := bytes.IndexByte(p[n:], '\n')
			if end < 0 {
				return 0, nil
			}
			n += end + 1
		case '$', '=', '!', '*', '~', '>', '%', '|':
			size, head, err := respNumber(p[n:])
			if head == 0 || err != nil {
				return 0, err
			}
			mark := p[n]
			n += head
			switch {
			case mark == '%':
				open += 2 * max(0, size)
			case mark == '|': // what follows belongs to the reply after it
				open += 2*max(0, size) + 1
			case mark == '*' || mark == '~' || mark == '>':
				open += max(0, size)
			case size >= 0:
				n += size + 2
			}
		default:
			return 0, fmt.Errorf("%w: a reply begins with %q", errRESP, p[n])
		}
	}
	if n > len(p) {
		return 0, nil
	}
	return n, nil
}

// respWords reads the first words of a flat array that is whole.
func respWords(p []byte, most int) (words []string) {
	count, n, err := respNumber(p)
	if err != nil {
		return nil
	}
	for i := 0; i < count && i < most; i++ {
		switch p[n] {
		case '$':
			size, head, err := respNumber(p[n:])
			if err != nil {
				return words
			}
			words = append(words, string(p[n+head:n+head+max(0, size)]))
			n += head + max(0, size)
			if size >= 0 {
				n += 2
			}
		case '+', ':', '_':
			end := bytes.IndexByte(p[n:], '\n')
			words = append(words, strings.TrimSuffix(string(p[n+1:n+end]), "\r"))
			n += end + 1
		default:
			return words
		}
	}
	return words
}

// RedisText writes a command as one would type it: its name in capitals, what is not plain in quotes.
func RedisText(words []string) string {
	size := 0
	for _, w := range words {
		size += len(w) + 3
	}
	var b strings.Builder
	b.Grow(size)
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		} else {
			w = strings.ToUpper(w)
		}
		b.WriteString(quote(w))
	}
	return b.String()
}

// RedisWords reads words as MONITOR writes them, each in double quotes; ok is false where the line is none of that
// kind.
func RedisWords(line string) (words []string, ok bool) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, false
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, false
		}
		words = append(words, word)
		line = line[len(quoted):]
	}
	return words, len(words) > 0
}

// respSaid writes a reply that is whole.
func respSaid(p []byte) string {
	if n, err := respReply(p); n == 0 || err != nil {
		return ""
	}
	switch p[0] {
	case '$':
		size, head, _ := respNumber(p)
		if size < 0 {
			return "nil"
		}
		return string(p[head : head+size])
	case '_':
		return "nil"
	case '*':
		size, _, _ := respNumber(p)
		words := respWords(p, 8)
		switch {
		case size < 0:
			return "nil"
		case size > 0 && len(words) == 0:
			return "[…]" // lists in a list
		}
		return "[" + strings.Join(words, ", ") + "]"
	case '+', '-', ':', ',', '#', '(':
		line, _, _ := bytes.Cut(p[1:], []byte("\r\n"))
		return string(line)
	}
	return ""
}
