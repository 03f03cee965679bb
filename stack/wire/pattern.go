package wire

import (
	"crypto/sha1" //nolint:gosec // Redis names its scripts by it
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// ScriptNames has names for the scripts of Redis, by their hash. The hash itself is no good name: it changes with every
// edit.
type ScriptNames struct{ names sync.Map }

// Names has the scripts that passed the proxies of this process, and those that Learn was given.
var Names ScriptNames

// Learn notes a script, and returns its name: the first name of a .lua file in the first line of its comment, else the
// first sentence of that line. A script that begins without a comment is named by its first four words and the
// beginning of its hash.
func (n *ScriptNames) Learn(body string) string {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // not ours to choose
	hash := hex.EncodeToString(sum[:])
	if known, ok := n.names.Load(hash); ok {
		name, _ := known.(string)
		return name
	}
	name := scriptName(body, hash)
	n.names.Store(hash, name)
	return name
}

// Of is the name of the script with a hash; of one that nobody has learned, the beginning of the hash.
func (n *ScriptNames) Of(hash string) string {
	if known, ok := n.names.Load(strings.ToLower(hash)); ok {
		name, _ := known.(string)
		return name
	}
	return "script-" + strings.ToLower(hash[:min(8, len(hash))])
}

var luaFile = regexp.MustCompile(`[\w-]+\.lua\b`)

func scriptName(body, hash string) string {
	body = strings.TrimSpace(body)
	if strings.HasPrefix(body, "#!") { // a shebang
		_, body, _ = strings.Cut(body, "\n")
		body = strings.TrimSpace(body)
	}
	line, _, _ := strings.Cut(body, "\n")
	if comment, ok := strings.CutPrefix(line, "--"); ok {
		if file := luaFile.FindString(comment); file != "" {
			return file
		}
		sentence, _, _ := strings.Cut(strings.Trim(comment, "-[ \t\r"), ". ")
		if sentence = strings.TrimSuffix(sentence, "."); sentence != "" {
			return quote(sentence)
		}
	}
	words := strings.Fields(body)
	return quote(strings.Join(words[:min(4, len(words))], " ") + " ~" + hash[:4])
}

// redisPattern names a command: what it does, and to which key.
func redisPattern(verb string, words []string) string {
	at := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return " " + Key(words[i])
	}
	switch verb {
	case "EVAL", "EVAL_RO":
		if len(words) > 1 {
			return verb + " " + Names.Learn(words[1]) + firstKey(words)
		}
	case "EVALSHA", "EVALSHA_RO":
		if len(words) > 1 {
			return verb + " " + Names.Of(words[1]) + firstKey(words)
		}
	case "FCALL", "FCALL_RO":
		if len(words) > 1 {
			return verb + " " + words[1] + firstKey(words)
		}
	case "SCRIPT":
		if len(words) > 2 && strings.EqualFold(words[1], "LOAD") {
			return "SCRIPT LOAD " + Names.Learn(words[2])
		}
		return verb + upper(words, 1)
	case "CLIENT", "CONFIG", "COMMAND", "CLUSTER", "FUNCTION", "ACL", "SENTINEL", "DEBUG", "LATENCY", "SLOWLOG":
		return verb + upper(words, 1)
	case "OBJECT", "MEMORY", "XGROUP", "XINFO", "PUBSUB":
		return verb + upper(words, 1) + at(2)
	case "XREAD", "XREADGROUP":
		for i, w := range words {
			if strings.EqualFold(w, "STREAMS") {
				return verb + at(i+1)
			}
		}
	case "BITOP":
		return verb + at(2)
	case "HELLO", "AUTH", "SELECT", "PING", "ECHO", "WAIT", "WAITAOF", "INFO", "SCAN", "KEYS", "QUIT", "SWAPDB",
		"REPLICAOF", "SLAVEOF", "FLUSHALL", "FLUSHDB":
		return verb
	}
	return verb + at(1)
}

func upper(words []string, i int) string {
	if i >= len(words) {
		return ""
	}
	return " " + strings.ToUpper(words[i])
}

// firstKey is the first key of a command whose second argument is the number of its keys.
func firstKey(words []string) string {
	if len(words) < 4 {
		return ""
	}
	if n, err := strconv.Atoi(words[2]); err != nil || n < 1 {
		return ""
	}
	return " " + Key(words[3])
}

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
