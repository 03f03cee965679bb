package text

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
)

// directive matches what [Sprintf] reads in a format: a verb with its argument's index, if it has one, or a choice of
// two forms.
var directive = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0-9.]*([a-zA-Z%])|\[([^][|%]*)\|([^][|%]*)\]`)

// Sprintf is [fmt.Sprintf] with plurals, for texts in English: "%d [order is|orders are] left" has the first form if
// the integer before it is 1, else the second. A width must not be given as "*".
func Sprintf(format string, args ...any) string { return fmt.Sprintf(numbered(format, args), args...) }

// numbered returns a format with the forms that its arguments want.
func numbered(format string, args []any) string {
	next, one := 0, false
	return directive.ReplaceAllStringFunc(format, func(found string) string {
		m := directive.FindStringSubmatch(found)
		switch {
		case m[2] == "%":
		case m[2] != "":
			if index, err := strconv.Atoi(m[1]); err == nil {
				next = index - 1
			}
			if next < len(args) {
				switch v := reflect.ValueOf(args[next]); {
				case v.CanInt():
					one = v.Int() == 1
				case v.CanUint():
					one = v.Uint() == 1
				}
			}
			next++
		case one:
			return m[3]
		default:
			return m[4]
		}
		return found
	})
}
