package main

import (
	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/stack"
)

// newCompletion prints the script by which a shell completes our command lines.
func newCompletion(lang string) *cobra.Command {
	long := text.Of(`Prints the script by which a shell completes the names of commands, flags, modes, plans and so on. The
examples load it for the current session; for all sessions put the line into the shell's start-up file. In bash it needs
the package bash-completion.`)
	return cli.NewCompletion("shop", lang, long.In(lang))
}

// completions has the values of a flag by its name, for every command that has the flag.
var completions = map[string]func() []string{
	"mode":  modeNames,
	"store": func() []string { return []string{string(stock.Redis), string(stock.SQL), string(stock.Etcd)} },
	"fault": faultNames, "allow-untested": faultNames,
	"plan": func() (names []string) {
		for _, p := range plan.All {
			names = append(names, p.Name)
		}
		return names
	},
	"engine":  func() []string { return plan.EngineNames },
	"backend": func() []string { return []string{stack.Auto, stack.Embedded, stack.Local} },
	"lang":    func() []string { return text.Languages },
}

func modeNames() (names []string) {
	for _, m := range stock.Modes() {
		names = append(names, m.Name)
	}
	return names
}

// complete makes the shell complete the values of flags, and the names of modes where a command takes one as its
// argument.
func complete(cmd *cobra.Command) {
	for flag, values := range completions {
		cli.Complete(cmd, flag, values)
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
