package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/loadtest"
)

// completions has the values of a flag by its name, for every command that has the flag.
var completions = map[string]func() []string{
	"mode":  modeNames,
	"store": func() []string { return []string{string(stock.Redis), string(stock.SQL), string(stock.Etcd)} },
	"fault": faultNames,
	"plan": func() (names []string) {
		for _, p := range loadtest.Plans {
			names = append(names, p.Name)
		}
		return names
	},
	"engine":  func() []string { return loadtest.EngineNames },
	"backend": func() []string { return []string{localstack.Auto, localstack.Embedded, localstack.Local} },
	"lang":    func() []string { return loadtest.Languages },
}

func modeNames() (names []string) {
	for _, m := range stock.Modes() {
		names = append(names, m.Name)
	}
	return names
}

// complete makes the shell complete the values of flags, some of which take several, comma-separated, and the names of modes where a
// command takes one as its argument.
func complete(cmd *cobra.Command) {
	for name, values := range completions {
		if cmd.Flags().Lookup(name) == nil || cmd.Hidden {
			continue
		}
		err := cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return inList(values(), typed), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil { // the flag is there, and registered once
			panic(err)
		}
	}
	if cmd.Name() == "modes" || cmd.Name() == "trace" {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return modeNames(), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// inList returns the values that the typed comma-separated list does not have yet, each after what is typed already.
func inList(values []string, typed string) []string {
	before := typed[:strings.LastIndex(typed, ",")+1]
	has := strings.Split(before, ",")
	var all []string
	for _, v := range values {
		if !slices.Contains(has, v) {
			all = append(all, before+v)
		}
	}
	return all
}
