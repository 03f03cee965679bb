package main

import (
	"slices"

	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/say/redact"
)

// notAgain are the flags that say where a result goes and how it looks, and the one that is a secret.
var notAgain = []string{"output", "out", "html", "markdown", "history", "details", "lang", "quiet", "no-color", "token"}

// again is the command line that makes the same result again, for a shell. Tokens are left out, and passwords and other
// credentials are masked. The flags of except are left out too.
func again(command string, set *pflag.FlagSet, except ...string) string {
	set.Visit(func(f *pflag.Flag) {
		if f.Annotations[fromFile] != nil {
			except = append(except, f.Name)
		}
	})
	return cli.Again("bin/shop "+command, set, masked, append(except, notAgain...)...)
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

// secretsIn are the tokens and passwords that the command line and the environment of a command hold, with those given:
// what must not be in a report.
func secretsIn(set *pflag.FlagSet, more ...string) []string {
	secrets := append(slices.Clone(more), adminToken())
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name == "token" {
			secrets = append(secrets, f.Value.String())
		}
		for _, value := range cli.Values(f) {
			secrets = append(secrets, redact.Secrets(value, masked(f.Name, value))...)
		}
	})
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.Sort(secrets)
	return slices.Compact(secrets)
}
