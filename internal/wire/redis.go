package wire

import (
	"bytes"
	"strconv"
	"strings"
)

// Redis reads Redis's protocol. A connection that has subscribed to something is left out from then on: it waits for messages,
// and what it sends is no part of anybody's request.
func Redis() (sent, heard Reader) {
	var buf []byte
	subscribed := false
	return func(p []byte) (calls []*Call) {
		buf = append(buf, p...)
		for !subscribed {
			words, n := respCommand(buf)
			if n == 0 {
				return calls
			}
			buf = buf[n:]
			if len(words) == 0 {
				continue
			}
			switch strings.ToUpper(words[0]) {
			case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
				subscribed = true
			default:
				calls = append(calls, &Call{Words: words, Text: RedisText(words)})
			}
		}
		buf = nil
		return calls
	}, nil
}

// respCommand reads one command, an array of bulk strings, from the beginning of p; n is its length, 0 when it is not whole yet.
// What is no array, and no client library sends, is skipped up to the end of its line, and gives no words.
func respCommand(p []byte) (words []string, n int) {
	count, n := respNumber(p, '*')
	if n <= 0 {
		return nil, -n
	}
	for range count {
		size, head := respNumber(p[n:], '$')
		if head <= 0 || len(p) < n+head+size+2 {
			return nil, 0
		}
		words = append(words, string(p[n+head:n+head+size]))
		n += head + size + 2
	}
	return words, n
}

// respNumber reads a line of a mark and a number, and returns its length: 0 when it is not whole yet, and negative when it is
// something else.
func respNumber(p []byte, mark byte) (number, n int) {
	end := bytes.Index(p, []byte("\r\n"))
	if end < 0 {
		return 0, 0
	}
	number, err := strconv.Atoi(string(p[min(1, end):end]))
	if err != nil || number < 0 || p[0] != mark {
		return 0, -(end + 2)
	}
	return number, end + 2
}

// RedisText writes a command as one would type it: its name in capitals, what is not plain in quotes.
func RedisText(words []string) string {
	var b strings.Builder
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

func quote(w string) string {
	has := func(bad func(r rune) bool) bool { return strings.ContainsFunc(w, bad) }
	switch {
	case w != "" && !has(func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\", r) }):
		return w
	case w != "" && !has(func(r rune) bool { return r < ' ' || r > '~' || r == '\'' }):
		return "'" + w + "'"
	}
	return strconv.Quote(w)
}

// RedisWords reads words as MONITOR writes them, each in double quotes; ok is false where the line is none of that kind.
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
