package compare

import (
	"path"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// ErrUnknownMode is returned by [Select], wrapped with a list of the modes, for a word that names none.
var ErrUnknownMode = text.Of("unknown mode").Errorf()

// Select returns the modes that a comma-separated pattern names, in the order of all and each once: names, globs such
// as "set*", or "all". A word that matches nothing is an error wrapping [ErrUnknownMode] that lists the modes and the
// nearest name.
func Select(all []api.Mode, pattern string) ([]api.Mode, error) {
	wanted := map[string]bool{}
	words := 0
	for word := range strings.SplitSeq(pattern, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		words++
		found := false
		for _, m := range all {
			ok, err := path.Match(word, m.Name)
			if err != nil {
				return nil, plan.Fault(text.Of("mode pattern %q: %w"), word, err)
			}
			if ok || word == "all" {
				wanted[m.Name], found = true, true
			}
		}
		if !found {
			return nil, unknownMode(all, word)
		}
	}
	if words == 0 {
		return nil, plan.Fault(text.Of("no mode given: %w; there are: %s"), ErrUnknownMode,
			strings.Join(modeNames(all), ", "))
	}
	return slices.DeleteFunc(slices.Clone(all), func(m api.Mode) bool { return !wanted[m.Name] }), nil
}

// unknownMode returns the error for an unknown name, with the nearest name if that is near enough for a typing error.
func unknownMode(all []api.Mode, word string) error {
	var hint text.Text
	if nearest := text.Nearest(word, modeNames(all)); nearest != "" {
		hint = text.Of(" (did you mean %q?)").With(nearest)
	}
	return plan.Fault(text.Of("%w %q%s; there are: %s"), ErrUnknownMode, word, hint, strings.Join(modeNames(all), ", "))
}

func modeNames(all []api.Mode) []string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	return names
}
