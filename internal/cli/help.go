package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	layout "lastitem/say/report"
	"lastitem/say/text"
)

// SectionAnnotation of a flag names the section of its command's help.
const SectionAnnotation = "section"

// Section puts the flags that declare adds to a set under a heading of the help.
func Section(set *pflag.FlagSet, title string, declare func()) {
	before := map[string]bool{}
	set.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	declare()
	set.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[SectionAnnotation] = []string{title}
		}
	})
}

// helper writes the help of the commands: in a language, for a terminal of so many columns, and with these exit codes.
type helper struct {
	lang  string
	wide  int
	exits Exits
}

// The help is as wide as the terminal, within these limits; without a terminal it is widestHelp wide.
const (
	widestHelp    = 100
	narrowestHelp = 60
)

// helperFor returns a helper for w.
func helperFor(w io.Writer, lang string, exits Exits) helper {
	_, wide := layout.Terminal(w)
	if wide == 0 {
		wide = widestHelp
	}
	return helper{lang, min(max(wide, narrowestHelp), widestHelp), exits}
}

// SetHelp makes a command and those below it print their help in a language, in sections, and with what their exit
// codes mean.
func SetHelp(root *cobra.Command, lang string, exits Exits) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		h := helperFor(c.OutOrStdout(), lang, exits)
		long := c.Long
		if long == "" {
			long = c.Short
		}
		_, _ = io.WriteString(c.OutOrStdout(), h.paragraphs(long)+"\n\n"+h.usage(c))
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := io.WriteString(c.OutOrStderr(), helperFor(c.OutOrStderr(), lang, exits).usage(c))
		return err
	})
}

// tableRow matches a line of a text that has a name and a text beside it.
var tableRow = regexp.MustCompile(`^( +\S+ {2,})(.*)$`)

// paragraphs breaks the lines of a text again. A line that begins with a blank stays as it is, unless it is too long.
func (h helper) paragraphs(said string) string {
	var lines []string
	paragraph := ""
	end := func() {
		lines = append(lines, layout.Wrap(paragraph, h.wide)...)
		paragraph = ""
	}
	for line := range strings.SplitSeq(strings.TrimSpace(said), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, " "):
			end()
			if m := tableRow.FindStringSubmatch(line); m != nil && layout.Width(line) > h.wide {
				line = h.hanging(m[1], m[2])
			}
			lines = append(lines, strings.TrimRight(line, " "))
		case paragraph == "":
			paragraph = line
		default:
			paragraph += joint(paragraph, line) + line
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// joint is what joins two lines of a paragraph: a blank, but none between two Chinese characters, nor after Chinese
// punctuation.
func joint(before, after string) string {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	if layout.Width(string(last)) == 2 && (layout.Width(string(first)) == 2 || unicode.IsPunct(last)) {
		return ""
	}
	return " "
}

// usage is the usage of a command: cobra's, with the flags in sections, and with the exit codes.
func (h helper) usage(c *cobra.Command) string {
	say := func(t text.Text) string { return t.In(h.lang) }
	var b strings.Builder
	b.WriteString(say(text.Of("Usage:")))
	if c.Runnable() {
		b.WriteString("\n  " + strings.ReplaceAll(c.UseLine(), "[flags]", say(text.Of("[flags]"))))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + say(text.Of(" COMMAND")))
	}
	if c.HasExample() {
		b.WriteString("\n\n" + say(text.Of("Examples:")) + "\n" + c.Example)
	}
	for _, g := range c.Groups() {
		h.commands(&b, c, g)
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\n" + h.flagSections(c.LocalFlags()))
	}
	b.WriteString("\n\n" + say(text.Of("Exit codes:")) + "\n" + h.exits.Help(h.lang))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, say(text.Of("\n'%s COMMAND --help' says more about a command.\n")), c.CommandPath())
	}
	return b.String()
}

// commands lists the subcommands of a group.
func (h helper) commands(b *strings.Builder, c *cobra.Command, g *cobra.Group) {
	title := "\n\n" + g.Title
	for _, sub := range c.Commands() {
		if sub.GroupID == g.ID && sub.IsAvailableCommand() {
			b.WriteString(title + "\n" + h.hanging(fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name()), sub.Short))
			title = ""
		}
	}
}

// hanging writes what is said beside its name; the lines after the first begin below the text's beginning.
func (h helper) hanging(name, said string) string {
	lines := layout.Wrap(said, max(h.wide-layout.Width(name), narrowestHelp/2))
	return name + strings.Join(lines, "\n"+strings.Repeat(" ", layout.Width(name)))
}

// flagSections renders the flags of a command, a section each; those that have none are the last.
func (h helper) flagSections(set *pflag.FlagSet) string {
	var titles []string
	sections := map[string]*pflag.FlagSet{}
	set.VisitAll(func(f *pflag.Flag) {
		title := ""
		if s := f.Annotations[SectionAnnotation]; len(s) > 0 {
			title = s[0]
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
		b.WriteString(title + text.Of(":").In(h.lang) + "\n" + h.flags(sections[title]) + "\n")
	}
	if rest := sections[""]; rest != nil {
		b.WriteString(text.Of("Flags:").In(h.lang) + "\n" + h.flags(rest))
	}
	return strings.TrimRight(b.String(), "\n")
}

// usualValue matches what pflag writes after the text of a flag that has a default.
var usualValue = regexp.MustCompile(` \(default (.*)\)$`)

// flags renders flags, a line or more each.
func (h helper) flags(set *pflag.FlagSet) string {
	lines := strings.Split(strings.TrimRight(set.FlagUsages(), "\n"), "\n")
	var b strings.Builder
	i := 0
	set.VisitAll(func(f *pflag.Flag) { // in the order of the lines
		_, said := pflag.UnquoteUsage(f)
		at := strings.Index(lines[i], said)
		name, said := lines[i][:at], lines[i][at:]
		said = usualValue.ReplaceAllString(said, text.Of(" (default $1)").In(h.lang))
		b.WriteString(h.hanging(name, said) + "\n")
		i++
	})
	return b.String()
}

// NewHelp is cobra's command help, but an unknown command is an error.
func NewHelp(lang, group string) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		GroupID: group,
		Short:   text.Of("Print the help of a command").In(lang),
		Args:    Arguments(0, 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, sub := range cmd.Root().Commands() {
				if sub.IsAvailableCommand() && len(args) == 0 {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// AddHelpFlags declares --help of a command and those below it, and --version of the first.
func AddHelpFlags(root *cobra.Command, lang string) {
	root.Flags().BoolP("version", "v", false, text.Of("print the version").In(lang))
	for _, cmd := range append(root.Commands(), root) {
		cmd.Flags().BoolP("help", "h", false, text.Of("print this help").In(lang))
	}
}
