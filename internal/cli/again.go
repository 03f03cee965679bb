package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Again is the command line that gives a command the same flags again, for a shell, without those of except. masked
// takes passwords and other credentials out of a value.
func Again(command string, set *pflag.FlagSet, masked func(flag, value string) string, except ...string) string {
	words := []string{command}
	set.Visit(func(f *pflag.Flag) {
		if slices.Contains(except, f.Name) {
			return
		}
		if f.Value.Type() == "bool" {
			words = append(words, "--"+f.Name+map[bool]string{false: "=" + f.Value.String()}[f.Value.String() == "true"])
			return
		}
		for _, value := range Values(f) {
			words = append(words, "--"+f.Name, Argument(masked(f.Name, value)))
		}
	})
	return strings.Join(words, " ")
}

// Values are the values of a flag: one for each time that it is to be given.
func Values(f *pflag.Flag) []string {
	list, ok := f.Value.(pflag.SliceValue)
	switch {
	case !ok:
		return []string{f.Value.String()}
	case f.Value.Type() == "stringArray":
		return list.GetSlice()
	}
	return []string{strings.Join(list.GetSlice(), ",")}
}

// plainWord matches a word that a shell takes without quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Argument writes a word for a shell, in quotes only where it needs them.
func Argument(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return Quote(word)
}

// Quote quotes text as one word of a POSIX shell.
func Quote(said string) string { return "'" + strings.ReplaceAll(said, "'", `'\''`) + "'" }
