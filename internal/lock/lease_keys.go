package lock

import (
	_ "embed"
	"strings"
)

// keyTag is what the names of all keys of a lock begin with, which has the key's hash tag, and what follows it, so that they
// are not the same for "a" as for "{a}".
func keyTag(key string) (tag, dot string) {
	if hashTag(key) == "" {
		return "{" + key + "}", "."
	}
	return key, ":"
}

// besideKey names a key that is kept beside a lock's, in the same slot of a Redis Cluster: "{a}.name" for "a", "x{a}:name" for "x{a}".
func besideKey(key, name string) string {
	tag, dot := keyTag(key)
	return tag + dot + name
}

// hashTag is the part of a key that Redis Cluster hashes, "" where it hashes all of it.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed {
			return tag
		}
	}
	return ""
}
