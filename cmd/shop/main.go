// Command shop is lastitem in one binary: the service, the stack that it runs in, the load generator and the judge.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/cli"
	"lastitem/internal/replica"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

func main() { os.Exit(shop()) }

// shop runs the command line and returns the exit code.
func shop() int {
	ctx, stop := cli.Interruptible()
	defer stop()
	backend.LibraryLogs(slog.New(slog.DiscardHandler)) // serve logs them
	cobra.EnableCommandSorting = false                 // a variable of cobra's; ours are in the order of commands
	lang := cli.Language(os.Args[1:], os.Getenv)
	root := newRoot(lang)
	root.SetOut(layout.Clean(os.Stdout)) // every command writes by way of these two
	root.SetErr(layout.Clean(os.Stderr))
	if err := replica.ReadFiles(); err != nil {
		return finish(root, cli.Misuse(err), lang)
	}
	// which logs them, as hidden commands' children do
	if cmd, _, err := root.Find(os.Args[1:]); err == nil && !cmd.Hidden && cmd.Name() != "serve" {
		for _, u := range unknownSettings(os.Environ()) {
			fmt.Fprintf(root.ErrOrStderr(), text.Of("shop: warning: %s is no setting; the nearest is %s\n").In(lang), u.name,
				u.nearest)
		}
	}
	root.SetArgs(signed(root, os.Args[1:]))
	cmd, err := root.ExecuteContextC(ctx)
	return finish(cmd, err, lang)
}

// newRoot returns the tree of commands, with its texts in the language lang.
func newRoot(lang string) *cobra.Command {
	root := &cobra.Command{
		Use:   "shop",
		Short: text.Of("Sell the last item exactly once, and see which ways of doing it do not").In(lang),
		Long: text.Of(`lastitem: a shop whose one endpoint, /deduct_stock, exists in many modes, from the one that oversells
at the second concurrent request to the ones that hold. Start with 'shop demo'.

Results, help and errors are in English or Chinese: --lang decides, else the locale. Output for programs, and text that
people search for, is in English only: JSON (except the texts that it has in both languages), CSV, benchmark lines,
logs, metrics, and the messages of libraries, servers and the operating system.`).In(lang),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Version = version()
	own := lang // of --lang before a command; it has been looked for already
	cli.AddLang(root.PersistentFlags(), &own)
	cli.SetHelp(root, lang, exits)
	all := groups(lang)
	for _, g := range all {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + text.Of(":").In(lang)})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			cmd.Flags().SortFlags = false // ours are in the order of their use
			complete(cmd)
			modesByFlag(cmd)
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(hidden()...)
	root.SetHelpCommand(cli.NewHelp(lang, all[len(all)-1].title))
	root.InitDefaultHelpCmd()
	cli.AddHelpFlags(root, lang)
	return root
}

// group is a section of 'shop --help'.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands for users, the ones that they meet first at the top; a file each.
func groups(lang string) []group {
	return []group{
		{text.Of("Try it").In(lang), []*cobra.Command{newPlay(lang), newDemo(lang), newUp(lang), newModes(lang),
			newTrace(lang)}},
		{text.Of("Judge it").In(lang), []*cobra.Command{newLoadtest(lang), newWriteUps(lang), newAudit(lang), newJudge(lang),
			newLab(lang), newFailover(lang), newService(lang)}},
		{text.Of("Run it").In(lang), []*cobra.Command{
			newServe(lang), newMigrate(lang), newStock(lang), newReconcile(lang),
			newLock(lang), newRolling(lang), newConsoleCommand(lang),
			newSettings(lang),
			newVersion(lang),
			newCompletion(lang),
		}},
	}
}

// hidden lists the commands that the others, the tests and the make targets start.
func hidden() []*cobra.Command {
	return append(newEmbedded(), newKeeper(), newGuestLeave(), newBalance(), newWithStack(), newProbe())
}
