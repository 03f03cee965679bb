package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/loadtest/postmortem"
	layout "lastitem/say/report"
	"lastitem/say/text"
)

// judgeFlags is the command line of 'shop judge'.
type judgeFlags struct {
	o               postmortem.Options
	stock, after    int64
	zone            string
	columns, states cli.List
	answers         serviceFlags
	output          cli.Output
}

func newJudge(lang string) *cobra.Command {
	f := judgeFlags{}
	f.o.Lang = lang
	cmd := &cobra.Command{
		Use:   "judge",
		Short: text.Of("Judge what has happened already, from files: orders, readings of the stock, a history").In(lang),
		Long: text.Of(`Judge what has happened already, of any shop, from its files: how many units too many were sold, which
twice, who was charged twice, what leaked, and since when; which mode of lastitem shows the same, and what stops it.
Each file is CSV with a line of heads, or has a JSON object in each line; the .jtl of JMeter is a history. What files
cannot show is named: docs/postmortem.md says what they must hold. 'shop audit' judges a shop that runs.

It exits with 0 if the files add up, 1 if the shop sold wrongly, and 3 if they cannot tell.`).In(lang),
		Example: "  shop judge --orders orders.csv --stock 20\n  shop judge --orders orders.csv --stock-log stock.csv " +
			"--history " +
			"gateway.jsonl --product SKU-1\n  shop judge --history results.jtl --stock 500 --stock-after 0 --label buy -o json",
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return runJudge(cmd, &f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"orders", &f.o.Orders, nil, text.Of("file with all orders of the product: order, and quantity, time, key, buyer, " +
			"remaining, replica, state as far as they are known")},
		{"stock-log", &f.o.StockLog, nil, text.Of("file with readings of its stock: time, stock, and added where units " +
			"were " +
			"put on sale")},
		{"history", &f.o.History, nil, text.Of("file with what clients saw: time, answered or elapsed, outcome, order, " +
			"key, " +
			"buyer")},
		{"stock", &f.stock, int64(-1), text.Of("units that there were to sell in all (default the first of --stock-log, " +
			"and " +
			"what was added)")},
		{"stock-after", &f.after, nil, text.Of("units that were left, below zero too (default the last of --stock-log)")},
		{"product", &f.o.Product, nil, text.Of("product to judge, if the files are about several")},
		{"label", &f.o.Label, nil, text.Of("label of the requests that buy, if the history has others")},
		{"columns", &f.columns, nil, text.Of("columns with names of their own, as order=bestell_nr,time=ts")},
		{"zone", &f.zone, "UTC", text.Of("time zone of times without one, as Asia/Shanghai")},
		{"states", &f.states, nil, text.Of("states of orders that count, as paid,shipped (default all)")},
		{"never-restocked", &f.o.NeverRestocked, nil, text.Of("no units came back or were added: where the stock log " +
			"rises, " +
			"the count was overwritten")},
	}.Add(set, lang)
	for _, name := range []string{"orders", "stock-log", "history"} {
		cli.FileFlag(set, name)
	}
	f.answers.meanings(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON, cli.Markdown)
	cli.AddLang(set, &f.o.Lang)
	return cmd
}

// options completes the options by the flags.
func (f *judgeFlags) options(cmd *cobra.Command) (o postmortem.Options, err error) {
	o, o.States, o.Columns = f.o, f.states, map[string]string{}
	if o.Orders+o.History == "" {
		return o, cli.Usage(text.Of("give --orders or --history: files to judge"))
	}
	if cmd.Flags().Changed("stock") {
		if o.Stock = &f.stock; f.stock < 0 {
			return o, cli.Usage(text.Of("--stock %d: want a number from 0"), f.stock)
		}
	}
	if cmd.Flags().Changed("stock-after") {
		o.StockAfter = &f.after
	}
	for _, c := range f.columns {
		role, name, ok := strings.Cut(c, "=")
		if !ok {
			return o, cli.Usage(text.Of("--columns %q: want ROLE=NAME, as in order=bestell_nr"), c)
		}
		o.Columns[role] = name
	}
	if o.Zone, err = time.LoadLocation(f.zone); err != nil {
		return o, cli.Usage(text.Of("--zone: %w"), err)
	}
	o.Answers = f.answers.f
	if err := f.answers.read(&o.Answers); err != nil {
		return o, err
	}
	if notes := cmd.ErrOrStderr(); f.output.Text() {
		if is, _ := layout.Rewritable(notes); is {
			o.Progress = func(file string, rows int) {
				layout.Rewrite(notes, fmt.Sprintf("%s: %d", file, rows))
			}
		}
	}
	return o, nil
}

// runJudge reads, judges and prints; the verdict becomes the exit code.
func runJudge(cmd *cobra.Command, f *judgeFlags) error {
	f.o.Lang = f.output.Language(cmd, f.o.Lang)
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	logs, err := postmortem.Read(o)
	if err != nil {
		return cli.Misuse(err)
	}
	if o.Progress != nil {
		layout.Rewrite(cmd.ErrOrStderr(), "")
	}
	res := logs.Judge()
	write := func(w io.Writer, form string) error { return writeJudged(w, res, form, o.Lang) }
	if err := f.output.Write(cmd, write); err != nil {
		return err
	}
	return cli.EndWith(exitFor(res.Verdict))
}

// writeJudged writes the result: as JSON, or as a paragraph.
func writeJudged(w io.Writer, res postmortem.Result, form, lang string) error {
	if form == cli.JSON {
		return cli.WriteJSON(w, res)
	}
	var b strings.Builder
	line := func(label text.Text, said string) {
		fmt.Fprintf(&b, "  %s  %s\n", layout.Left(label.In(lang), 10), said)
	}
	b.WriteString(res.Report.Text(lang))
	for _, s := range res.Since {
		line(text.Of("since"), s.Said)
	}
	for _, p := range res.Patterns {
		line(text.Of("pattern"), p.Said)
		if p.Mode != "" {
			line(text.Of("shown by"), fmt.Sprintf(text.Of("mode %s (hazard: %s)").In(lang), p.Mode, p.Hazard))
		}
		line(text.Of("stopped by"), fmt.Sprintf(text.Of("mode %s: %s").In(lang), p.Stops, p.How))
	}
	for _, f := range res.Files {
		said := text.Of("%s: %d [row|rows], %s").With(f.Name, f.Rows, strings.Join(f.Columns, ", ")).In(lang)
		if len(f.Unused) > 0 {
			said += fmt.Sprintf(text.Of("; not used: %s").In(lang), strings.Join(f.Unused, ", "))
		}
		if f.Skipped > 0 {
			said += fmt.Sprintf(text.Of("; %d left out").In(lang), f.Skipped)
		}
		line(text.Of("read"), said)
	}
	said := b.String()
	if form == cli.Markdown {
		said = "```text\n" + strings.TrimSpace(said) + "\n```\n"
	}
	_, err := io.WriteString(w, said)
	return err
}
