package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/internal/stock"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/stack"
)

// newCompletion prints the script by which a shell completes our command lines.
func newCompletion(lang string) *cobra.Command {
	plain := false
	shells := map[string]func(cmd *cobra.Command) error{
		"bash": func(cmd *cobra.Command) error { return cmd.Root().GenBashCompletionV2(cmd.OutOrStdout(), !plain) },
		"fish": func(cmd *cobra.Command) error { return cmd.Root().GenFishCompletion(cmd.OutOrStdout(), !plain) },
		"zsh": func(cmd *cobra.Command) error {
			if plain {
				return cmd.Root().GenZshCompletionNoDesc(cmd.OutOrStdout())
			}
			return cmd.Root().GenZshCompletion(cmd.OutOrStdout())
		},
		"powershell": func(cmd *cobra.Command) error {
			if plain {
				return cmd.Root().GenPowerShellCompletion(cmd.OutOrStdout())
			}
			return cmd.Root().GenPowerShellCompletionWithDesc(cmd.OutOrStdout())
		},
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: text.Of("Print the script for the completion of command lines in bash, zsh, fish or powershell").In(lang),
		Long: text.Of(`Prints the script by which a shell completes the names of commands, flags, modes, plans and so on. The
examples load it for the current session; for all sessions put the line into the shell's start-up file. In bash it needs
the package bash-completion.`).In(lang),
		Example: `  source <(shop completion bash)
  source <(shop completion zsh)
  shop completion fish | source
  shop completion powershell | Out-String | Invoke-Expression`,
		Args:      arguments(1, 1),
		ValidArgs: names,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			script, ok := shells[args[0]]
			if !ok {
				return usage(text.Of("no completion for %q: want %s"), args[0], orList(names))
			}
			return script(cmd)
		}),
	}
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, text.Of("leave out the descriptions of commands and flags").
		In(lang))
	addLang(cmd.Flags(), &lang)
	return cmd
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

// complete makes the shell complete the values of flags, some of which take several, comma-separated, and the names of
// modes where a command takes one as its argument.
func complete(cmd *cobra.Command) {
	for name, values := range completions {
		if cmd.Flags().Lookup(name) == nil || cmd.Hidden {
			continue
		}
		err := cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, typed string) ([]string,
			cobra.ShellCompDirective) {
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
