package lock

import (
	"strings"
)

// KeyTag returns the prefix, with the hash tag of key, of the names of all keys that are kept beside a lock, and the
// separator that follows it. The separator differs between "a" and "{a}", so that their names do not collide.
func KeyTag(key string) (tag, dot string) {
	if HashTag(key) == "" {
		return "{" + key + "}", "."
	}
	return key, ":"
}

// BesideKey names a key that is kept beside a lock's own key, in the same slot of a Redis Cluster: "{a}.name" for "a",
// "x{a}:name" for "x{a}".
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
