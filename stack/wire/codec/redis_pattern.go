package codec

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
