package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lastitem/say/text"
)

// NewCompletion prints the script by which a shell completes the command lines of a program; long is its help.
func NewCompletion(program, lang, long string) *cobra.Command {
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
		Long:  long,
		Example: strings.ReplaceAll(`  source <(shop completion bash)
  source <(shop completion zsh)
  shop completion fish | source
  shop completion powershell | Out-String | Invoke-Expression`, "shop", program),
		Args:      Arguments(1, 1),
		ValidArgs: names,
		RunE: Run(func(cmd *cobra.Command, args []string) error {
			script, ok := shells[args[0]]
			if !ok {
				return Usage(text.Of("no completion for %q: want %s"), args[0], OrList(names))
			}
			return script(cmd)
		}),
	}
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, text.Of("leave out the descriptions of commands and flags").
		In(lang))
	AddLang(cmd.Flags(), &lang)
	return cmd
}

// Complete makes the shell complete the values of a flag of a command, if it has the flag. Some flags take several
// values, comma-separated.
func Complete(cmd *cobra.Command, flag string, values func() []string) {
	if cmd.Flags().Lookup(flag) == nil || cmd.Hidden {
		return
	}
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return inList(values(), typed), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil { // the flag is there, and registered once
		panic(err)
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
