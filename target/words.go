package target

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"lastitem/say/text"
)

var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// expand replaces the placeholders in a text by their values; unknown placeholders stay.
func expand(said string, values map[string]string) string { return filler(said)(values) }

// filler returns a function that does what expand does, and looks for the placeholders only once: a load test fills in
// thousands of requests a second.
func filler(said string) func(values map[string]string) string {
	found := placeholder.FindAllStringSubmatchIndex(said, -1)
	return func(values map[string]string) string {
		if found == nil {
			return said
		}
		var b strings.Builder
		from := 0
		for _, at := range found {
			b.WriteString(said[from:at[0]])
			v, known := values[said[at[2]:at[3]]]
			if from = at[1]; !known {
				v = said[at[0]:at[1]]
			}
			b.WriteString(v)
		}
		b.WriteString(said[from:])
		return b.String()
	}
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

// splitWords splits a command line into words as a shell does: at blanks outside quotes; a backslash, except within
// single quotes, takes the next character literally. It knows no variables and no pipes. An error: a quote or a
// backslash is left open.
func splitWords(line string) ([]string, error) {
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
