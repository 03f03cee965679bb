package codec

import "strings"

// Key is a key, path or name without what differs from run to run: digits are "#", and ids and tokens (UUIDs, hex,
// base64url, more than seven digits) are "*".
func Key(key string) string {
	var b strings.Builder
	b.Grow(len(key))
	for i := 0; i < len(key); {
		end := i
		for end < len(key) && (isWord(key[end]) || key[end] == '-' || key[end] == '_') {
			end++
		}
		if end == i {
			b.WriteByte(key[i])
			i++
			continue
		}
		run := key[i:end]
		padded := end
		for padded < len(key) && key[padded] == '=' {
			padded++
		}
		if isToken(run) {
			b.WriteByte('*')
			end = padded
		} else {
			keyPieces(&b, run)
		}
		i = end
	}
	return b.String()
}

// keyPieces writes the pieces of a run between hyphens and underscores.
func keyPieces(b *strings.Builder, run string) {
	for len(run) > 0 {
		end := strings.IndexAny(run, "-_")
		switch {
		case isUUID(run):
			end = uuidLength
		case end < 0:
			end = len(run)
		}
		if piece := run[:end]; end == uuidLength && isUUID(run) || isRandom(piece) || isHex(piece) {
			b.WriteByte('*')
		} else {
			digits := false
			for _, c := range []byte(piece) {
				if digit := c >= '0' && c <= '9'; !digit {
					b.WriteByte(c)
					digits = false
				} else if !digits {
					b.WriteByte('#')
					digits = true
				}
			}
		}
		if end < len(run) {
			b.WriteByte(run[end])
			end++
		}
		run = run[end:]
	}
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// isHex says whether a piece is a number in hex, or a long one in decimal.
func isHex(piece string) bool {
	digits := 0
	for _, c := range []byte(piece) {
		if !isHexDigit(c) {
			return false
		}
		if c <= '9' {
			digits++
		}
	}
	return len(piece) >= 8 && digits > 0 || len(piece) >= 16
}

// isToken says whether a run of letters, digits, hyphens and underscores is one id, such as base64: upper and lower
// case are mixed as in no words. A run with a piece in hex is not, because its pieces are judged one by one.
func isToken(run string) bool {
	if len(run) < 16 {
		return false
	}
	upper, lower, words, letters, begin := 0, 0, 0, 0, 0
	last := byte('-')
	for i := range len(run) {
		class := classOf(run[i])
		switch class {
		case '-':
			if isHex(run[begin:i]) {
				return false
			}
			begin = i + 1
		case 'A':
			upper++
		case 'a':
			lower++
		}
		if class != '-' {
			letters++
			if class == 'A' || class != last && (class != 'a' || last != 'A') {
				words++
			}
		}
		last = class
	}
	// words are longer than 2.6 letters on average
	return upper > 0 && lower > 0 && !isHex(run[begin:]) && letters*5 < words*13
}

// isRandom says whether a piece is longer than words are, or is long and has two groups of digits before letters.
func isRandom(piece string) bool {
	if len(piece) < 16 {
		return false
	}
	groups := 0
	for i := range len(piece) - 1 {
		if classOf(piece[i]) == '0' && classOf(piece[i+1]) != '0' {
			groups++
		}
	}
	return len(piece) >= 24 || groups >= 2
}

func classOf(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return 'A'
	case c >= '0' && c <= '9':
		return '0'
	case c == '-' || c == '_':
		return '-'
	}
	return 'a'
}

const uuidLength = 36

// isUUID says whether a run begins with a UUID.
func isUUID(run string) bool {
	if len(run) < uuidLength || len(run) > uuidLength && classOf(run[uuidLength]) != '-' {
		return false
	}
	for i := range uuidLength {
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen != (run[i] == '-') || !hyphen && !isHexDigit(run[i]) {
			return false
		}
	}
	return true
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
