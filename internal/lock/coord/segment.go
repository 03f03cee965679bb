package coord

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// segment writes a key as one segment of a path, for services whose names are hierarchical: a lock named "a/b" must not
// have its keys below those of a lock named "a".
func segment(key string) string { return segmentEscapes.Replace(key) }

var segmentEscapes = strings.NewReplacer("%", "%25", "/", "%2F")

// zkSegment writes a key as one segment of a path. It also escapes the characters that ZooKeeper or its client refuses
// in a path, so that every key can be locked.
func zkSegment(key string) string {
	var b strings.Builder
	for i, rest := 0, segment(key); i < len(rest); {
		r, width := utf8.DecodeRuneInString(rest[i:])
		if zkAccepts(r) {
			b.WriteString(rest[i : i+width])
		} else {
			for _, c := range []byte(rest[i : i+width]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		i += width
	}
	return b.String()
}

// zkAccepts says whether a character may stand in a path: neither a control character, nor one for private use, nor one
// that UTF-16 writes as two, nor a byte that is no UTF-8 (which is read as U+FFFD). "." could stand, except as a whole
// segment.
func zkAccepts(r rune) bool {
	return r >= 0x20 && r < 0x7f && r != '.' || r > 0x9f && r < 0xe000 || r > 0xf8ff && r < 0xfff0
}
