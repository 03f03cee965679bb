package coord

import "strings"

// segment writes a key as one segment of a path, for services whose names are hierarchical: a lock named "a/b" must not have its
// keys below those of a lock named "a".
func segment(key string) string { return segmentEscapes.Replace(key) }

var segmentEscapes = strings.NewReplacer("%", "%25", "/", "%2F")
