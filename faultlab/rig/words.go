package rig

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"lastitem/say/text"
)

var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// expand replaces the placeholders in a text by their values; unknown placeholders stay.
func expand(said string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(said, func(found string) string {
		if v, known := values[placeholder.FindStringSubmatch(found)[1]]; known {
			return v
		}
		return found
	})
}

// mentions returns the names of the placeholders in texts, sorted, each once.
func mentions(texts ...string) []string {
	found := map[string]bool{}
	for _, said := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(said, -1) {
			found[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// onlyMentions returns an error that names a placeholder of text that is not known; nil = all are known.
func onlyMentions(option, said string, known []string) error {
	for _, name := range mentions(said) {
		if !slices.Contains(known, name) {
			return text.Of("--%s: unknown placeholder {{%s}}; known are {{%s}}").Errorf(option, name,
				strings.Join(known, "}}, {{"))
		}
	}
	return nil
}

// SplitWords splits a command line into words as a shell does: at blanks outside quotes; a backslash, except within
// single quotes, takes the next character literally. It knows no variables and no pipes. An error: a quote or a
// backslash is left open.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inside, quote := false, rune(0)
	escaped := false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inside = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 || escaped {
		return nil, text.Of("a quote is not closed").Errorf()
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}
