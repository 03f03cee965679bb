package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/loadtest/client"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/words"
)

// annotation of a flag: the section of its command's help.
const sectionAnnotation = "section"

// section puts the flags that declare adds to a set under a heading of the help.
func section(set *pflag.FlagSet, title string, declare func()) {
	before := map[string]bool{}
	set.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	declare()
	set.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[sectionAnnotation] = []string{title}
		}
	})
}

// flagSections renders the flags of a command, a section each; those that have none are the last.
func flagSections(set *pflag.FlagSet) string {
	var titles []string
	sections := map[string]*pflag.FlagSet{}
	set.VisitAll(func(f *pflag.Flag) {
		title := ""
		if s := f.Annotations[sectionAnnotation]; len(s) > 0 {
			title = s[0]
		}
		if f.Hidden {
			return
		}
		if sections[title] == nil {
			sections[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sections[title].SortFlags = false
			if title != "" {
				titles = append(titles, title)
			}
		}
		sections[title].AddFlag(f)
	})
	var b strings.Builder
	for _, title := range titles {
		b.WriteString(title + ":\n" + sections[title].FlagUsages() + "\n")
	}
	if rest := sections[""]; rest != nil {
		b.WriteString("Flags:\n" + rest.FlagUsages())
	}
	return strings.TrimRight(b.String(), "\n")
}

// writeUsage is the usage of a command: cobra's, with the flags in sections, and with the exit codes.
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " COMMAND")
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	for _, g := range append(c.Groups(), &cobra.Group{Title: "More:"}) {
		writeCommands(&b, c, g)
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\n" + flagSections(c.LocalFlags()))
	}
	b.WriteString("\n\nExit codes:\n" + exitHelp())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s COMMAND --help' says more about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// writeCommands lists the subcommands of a group.
func writeCommands(b *strings.Builder, c *cobra.Command, g *cobra.Group) {
	title := "\n\n" + g.Title
	for _, sub := range c.Commands() {
		if sub.GroupID == g.ID && sub.IsAvailableCommand() {
			fmt.Fprintf(b, "%s\n  %-*s %s", title, sub.NamePadding(), sub.Name(), sub.Short)
			title = ""
		}
	}
}

// completions has the values of a flag by its name, for every command that has the flag.
var completions = map[string]func() []string{
	"mode":  modeNames,
	"store": func() []string { return []string{string(stock.Redis), string(stock.SQL), string(stock.Etcd)} },
	"fault": faultNames,
	"plan": func() (names []string) {
		for _, p := range plan.All {
			names = append(names, p.Name)
		}
		return names
	},
	"engine":  func() []string { return client.EngineNames },
	"backend": func() []string { return []string{localstack.Auto, localstack.Embedded, localstack.Local} },
	"lang":    func() []string { return words.Languages },
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
