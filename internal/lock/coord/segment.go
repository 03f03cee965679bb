package coord

import "strings"

// segment writes a key as one segment of a path, for services whose names are hierarchical: the keys below "a" must not be
// those of a lock named "a/b".
func segment(key string) string { return segmentEscapes.Replace(key) }

var segmentEscapes = strings.NewReplacer("%", "%25", "/", "%2F")
