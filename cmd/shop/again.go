package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lastitem/judge"
	"lastitem/loadtest/compare"
	"lastitem/say/redact"
)

// notAgain are the flags that say where a result goes and how it looks, and the one that is a secret.
var notAgain = []string{"output", "out", "html", "markdown", "history", "details", "lang", "quiet", "no-color", "token"}

// again is the command line that makes the same result again, for a shell. Tokens are left out, and passwords and other
// credentials are masked. The flags of except are left out too.
func again(command string, set *pflag.FlagSet, except ...string) string {
	words := []string{"bin/shop", command}
	set.Visit(func(f *pflag.Flag) {
		if slices.Contains(notAgain, f.Name) || slices.Contains(except, f.Name) {
			return
		}
		if f.Value.Type() == "bool" {
			words = append(words, "--"+f.Name+map[bool]string{false: "=" + f.Value.String()}[f.Value.String() == "true"])
			return
		}
		for _, value := range values(f) {
			words = append(words, "--"+f.Name, argument(masked(f.Name, value)))
		}
	})
	return strings.Join(words, " ")
}

// decide notes beside each undecided claim the command that decides it: the mode alone, with twice as many runs where
// their number can be given, and holds as long as the machine needs.
func decide(c *compare.Comparison, command string, set *pflag.FlagSet) {
	for i := range c.Summaries {
		s := &c.Summaries[i]
		if s.Finding != judge.Undecided {
			continue
		}
		s.Decide = again(command, set, append([]string{"mode", "insist", "threshold"}, scales...)...) + " --mode " + s.Mode
		if set.Lookup("insist") != nil {
			s.Decide += fmt.Sprintf(" --insist %d", max(2*s.Runs, 4))
		}
	}
}

// masked is a value of a flag without passwords and other credentials.
func masked(flag, value string) string {
	switch {
	case flag == "header" || flag == "env":
		return redact.Pair(value)
	case flag == "url" || slices.Contains(ownFlags, flag):
		return redact.Address(value)
	}
	return redact.Text(value)
}

// values are the values of a flag: one for each time that it is to be given.
func values(f *pflag.Flag) []string {
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

// argument writes a word for a shell, in quotes only where it needs them.
func argument(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return shellWord(word)
}

// secretsIn are the tokens and passwords that the command line and the environment of a command hold, with those given:
// what must not be in a report.
func secretsIn(set *pflag.FlagSet, more ...string) []string {
	secrets := append(slices.Clone(more), adminToken())
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name == "token" {
			secrets = append(secrets, f.Value.String())
		}
		for _, value := range values(f) {
			secrets = append(secrets, redact.Secrets(value, masked(f.Name, value))...)
		}
	})
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.Sort(secrets)
	return slices.Compact(secrets)
}
