package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/loadtest"
)

// completions are what a flag of a name may be, in every command that has the flag.
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

// complete has the shell complete the values of flags, of which some take several, comma-separated; and the names of modes where a command
// takes one as its argument.
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

// inList puts what is typed already of a comma-separated list before each value that it does not have yet.
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
