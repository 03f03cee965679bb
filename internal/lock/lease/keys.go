package lease

import (
	"strings"
)

// KeyTag is what the names of all keys of a lock begin with, which has the key's hash tag, and what follows it, so that they
// are not the same for "a" as for "{a}".
func KeyTag(key string) (tag, dot string) {
	if HashTag(key) == "" {
		return "{" + key + "}", "."
	}
	return key, ":"
}

// BesideKey names a key that is kept beside a lock's, in the same slot of a Redis Cluster: "{a}.name" for "a", "x{a}:name" for "x{a}".
func BesideKey(key, name string) string {
	tag, dot := KeyTag(key)
	return tag + dot + name
}

// HashTag is the part of a key that Redis Cluster hashes, "" where it hashes all of it.
func HashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed {
			return tag
		}
	}
	return ""
}
