// Command costs shows what answers cost, from the JSON of 'shop loadtest --plan costs' or '--plan far'.
//
// measure.go takes medians over the repetitions and shares of noop, and those become a table, targets (target.go), a
// picture (picture.go), and the table of docs/speed.md (page.go).
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lastitem/bench/figure"
	"lastitem/internal/cli"
	"lastitem/loadtest/compare"
	"lastitem/say/text"
)

var exits = cli.Exits{
	{cli.ExitOK, text.Plain("the costs are shown")},
	{cli.ExitFailed, text.Plain("a file cannot be read or written, or a mode that claims to be exact was not")},
	{cli.ExitUsage, text.Plain("the command line is wrong")},
}

func main() {
	root := newRoot()
	os.Exit(cli.Finish(root, root.Execute(), "en"))
}

func newRoot() *cobra.Command {
	var svg, docs string
	root := &cobra.Command{
		Use: "bench-costs FILE", Short: "Show what answers cost, from the JSON of 'shop loadtest --plan costs'",
		Args: cli.Arguments(1, 1), SilenceUsage: true, SilenceErrors: true,
	}
	cli.Flags{
		{"svg", &svg, nil, text.Plain("draw the modes into this `file`")},
		{"docs", &docs, nil, text.Plain("write the table of speed.md in this `directory`")},
	}.Add(root.Flags(), "en")
	root.RunE = cli.Run(func(cmd *cobra.Command, args []string) error {
		content, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		var c compare.Comparison
		if err := json.Unmarshal(content, &c); err != nil {
			return fmt.Errorf("%s is no result of a load test: %w", args[0], err)
		}
		return show(cmd.OutOrStdout(), c, svg, docs)
	})
	cli.SetHelp(root, "en", exits)
	return root
}

// show prints the table and the targets, and writes what is asked for.
func show(out io.Writer, c compare.Comparison, svg, docs string) error {
	m := measure(c)
	m.print(out)
	figure.PrintTargets(out, "targets: rates, one replica, direct", m.targets())
	err := m.wrong()
	if picture := m.draw(); svg != "" && picture == nil {
		fmt.Fprintln(out, "no picture: it shows the plans direct and nginx, which were not measured")
	} else if svg != "" {
		err = errors.Join(err, cli.ToFile(svg, false, func(w io.Writer) error {
			_, err := w.Write(picture)
			return err
		}))
	}
	if docs != "" {
		err = errors.Join(err, m.writePages(docs))
	}
	return err
}
