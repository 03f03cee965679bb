package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/report"
	layout "lastitem/say/report"
	"lastitem/say/text"
	"lastitem/stack"
)

// writeUpsFlags are the flags of 'shop write-ups'.
type writeUpsFlags struct {
	backend, lang string
	quiet         bool
	output        cli.Output
}

func newWriteUps(lang string) *cobra.Command {
	f := writeUpsFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "write-ups",
		Short: text.Of("Measure the numbers that well-known write-ups state, and print them beside theirs").In(lang),
		Long: text.Of(`Measures the numbers of the write-ups of docs/articles.md here, on private stacks, and prints them
beside theirs: the stock that is left after JMeter's 50 x 100 requests, the 99 left where 95 is right, the throughput
with and without a lock, and how much faster segments are than one lock of the same kind, on loopback and with 2 ms to
the servers. It takes two to three minutes.

The speeds depend on the machine, and are no verdict. The exit code says whether every mode did what it claims.`).In(lang),
		Example: "  shop write-ups\n  shop write-ups --lang zh\n  shop write-ups -o json --out out/write-ups.json",
		Args:    cli.Arguments(0, 0),
		RunE:    cli.Run(func(cmd *cobra.Command, _ []string) error { return writeUps(cmd, &f) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"backend", &f.backend, stack.Auto, backendHelp},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON, cli.Markdown)
	cli.AddLang(set, &f.lang)
	cli.Flags{
		{"quiet|q", &f.quiet, nil, quietHelp},
	}.Add(set, lang)
	return cmd
}

// measuredNumber is a number of a write-up beside ours: the JSON of the command.
type measuredNumber struct {
	WriteUp string        `json:"write_up"` // the letter of its section in docs/articles.md
	What    string        `json:"what"`
	Theirs  string        `json:"theirs"`
	Ours    string        `json:"ours"` // "" = could not be measured here
	Runs    []measuredRun `json:"runs"`
	Missing string        `json:"missing,omitempty"` // why Ours is empty
}

// measuredRun is a run that a number comes from.
type measuredRun struct {
	Mode      string  `json:"mode"`
	Plan      string  `json:"plan"`
	Store     string  `json:"store,omitempty"`
	Segments  int     `json:"segments,omitempty"`
	Replicas  int     `json:"replicas"`
	RTT       float64 `json:"rtt_ms"`
	Left      int64   `json:"stock_left"`
	PerSecond float64 `json:"accepted_per_second"` // the median of the repetitions

	missing string // why it could not be made
	code    int    // the exit code of its comparison
}

// writeUps is the body of the command: every run once, then the numbers from them.
func writeUps(cmd *cobra.Command, f *writeUpsFlags) error {
	if err := checkBackendFlag(f.backend); err != nil {
		return err
	}
	f.lang = f.output.Language(cmd, f.lang)
	all := numbers()
	made, err := f.runAll(cmd, all)
	if err != nil {
		return err
	}
	measured, code := make([]measuredNumber, len(all)), cli.ExitOK
	for i, n := range all {
		measured[i] = n.measured(made, f.lang)
		for _, r := range n.runs {
			if c := made[r].code; c == cli.ExitFailed || code == cli.ExitOK {
				code = c
			}
		}
	}
	if err := f.output.Write(cmd, func(w io.Writer, form string) error {
		return writeNumbers(w, form, f.lang, measured)
	}); err != nil {
		return err
	}
	return cli.EndWith(code)
}

// stackOf is what runs share: so many replicas, so far from their servers.
type stackOf struct {
	replicas int
	rtt      time.Duration
}

// runAll makes every run, those of one kind of stack on one stack.
func (f *writeUpsFlags) runAll(cmd *cobra.Command, all []number) (map[numberRun]measuredRun, error) {
	var stacks []stackOf
	runs := map[stackOf][]numberRun{}
	for _, n := range all {
		for _, r := range n.runs {
			on := stackOf{r.replicas, r.rtt}
			if !slices.Contains(stacks, on) {
				stacks = append(stacks, on)
			}
			if !slices.Contains(runs[on], r) {
				runs[on] = append(runs[on], r)
			}
		}
	}
	made := map[numberRun]measuredRun{}
	for _, on := range stacks {
		if err := f.runOn(cmd, on, runs[on], made); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// runOn makes the runs of one stack.
func (f *writeUpsFlags) runOn(cmd *cobra.Command, on stackOf, runs []numberRun, made map[numberRun]measuredRun) error {
	notes := cmd.ErrOrStderr()
	if f.quiet {
		notes = io.Discard
	}
	var log stackLog
	o := stack.Options{
		Replicas: on.replicas, Backend: f.backend, Only: []string{stack.Redis, stack.MySQL}, Token: adminToken(),
		Log: log.to(notes), Lang: f.lang, Advice: adviser(f.lang, "write-ups", f.backend, false), RTT: on.rtt,
	}
	return onOwnStack(cmd.Context(), o, func(ctx context.Context, running *stack.Stack) error {
		s := service{url: running.URL, token: running.Token, replicas: on.replicas, lang: f.lang}
		for _, r := range runs {
			m, err := f.runOne(ctx, notes, s, r)
			if err != nil {
				return err
			}
			made[r] = m
		}
		return nil
	})
}

// runOne makes a run.
func (f *writeUpsFlags) runOne(ctx context.Context, notes io.Writer, s service, r numberRun) (measuredRun, error) {
	m := measuredRun{Mode: r.mode, Plan: r.plan, Store: string(r.store), Replicas: r.replicas,
		RTT: float64(r.rtt) / float64(time.Millisecond)}
	p, err := r.load()
	if err != nil {
		return m, err
	}
	what := compare.Comparing{Version: builtFrom(), Plans: []plan.Plan{p}, Replicas: r.replicas, RTT: r.rtt}
	if err := s.fill(ctx, &what, r.mode); err != nil {
		return m, err
	}
	c, err := report.NewProgress(notes, f.lang, f.quiet, true).Compare(ctx, what)
	switch {
	case err != nil:
		return m, err
	case c.Partial:
		return m, &cli.Error{Code: cli.ExitInterrupted}
	case len(c.Skipped) > 0:
		m.missing = c.Skipped[0].Why
		return m, nil
	case len(c.Failed) > 0:
		m.missing, m.code = c.Failed[0].Why, cli.ExitFailed
		return m, nil
	}
	last := c.Results[len(c.Results)-1]
	m.Store, m.Segments, m.code = string(last.Store), last.Plan.Segments, c.ExitCode()
	if len(last.Verdicts) > 0 {
		m.Left = last.Verdicts[0].Final
	}
	m.PerSecond = c.Summaries[0].AcceptedPerSecond.Median
	return m, nil
}

// measured puts a number together from its runs.
func (n number) measured(made map[numberRun]measuredRun, lang string) measuredNumber {
	m := measuredNumber{WriteUp: n.writeUp, What: n.what.In(lang), Theirs: n.theirs.In(lang)}
	var rates []string
	for _, r := range n.runs {
		run := made[r]
		m.Runs = append(m.Runs, run)
		rates = append(rates, grouped(run.PerSecond)+"/s")
		if run.missing != "" && m.Missing == "" {
			m.Missing = run.missing
		}
	}
	switch {
	case m.Missing != "":
	case n.shows == showsLeft:
		m.Ours = grouped(float64(m.Runs[0].Left))
	case n.shows == showsRates:
		m.Ours = text.List(rates).In(lang)
	case m.Runs[1].PerSecond > 0:
		m.Ours = fmt.Sprintf(factorText.In(lang), m.Runs[0].PerSecond/m.Runs[1].PerSecond, rates[0], rates[1])
	}
	return m
}

// factorText is how a factor is told, with the rates that it comes from.
var factorText = text.Of("%.1f times (%s, %s)")

// grouped writes a number with a comma before each three digits.
func grouped(v float64) string {
	said := fmt.Sprintf("%.0f", v)
	for i := len(said) - 3; i > 0; i -= 3 {
		said = said[:i] + "," + said[i:]
	}
	return said
}

// numberHeads are the heads of the table.
var numberHeads = text.Table([]string{"write-up", "number", "theirs", "ours", "modes"})

// writeNumbers writes the numbers in a form.
func writeNumbers(w io.Writer, form, lang string, measured []measuredNumber) error {
	if form == cli.JSON {
		return cli.WriteJSON(w, measured)
	}
	rows := [][]string{numberHeads.In(lang)}
	for _, m := range measured {
		var modes []string
		for _, r := range m.Runs {
			name := r.Mode
			if form == cli.Markdown {
				name = "`" + name + "`"
			}
			modes = append(modes, name)
		}
		ours := m.Ours
		if ours == "" {
			ours = "– (" + m.Missing + ")"
		}
		rows = append(rows, []string{m.WriteUp, m.What, m.Theirs, ours, strings.Join(modes, ", ")})
	}
	if form == cli.Markdown {
		return writeMarkdownRows(w, rows)
	}
	_, err := io.WriteString(w, layout.Align(rows, 0))
	return err
}

// writeMarkdownRows writes rows as a Markdown table; the first are the heads.
func writeMarkdownRows(w io.Writer, rows [][]string) error {
	var b strings.Builder
	for i, cells := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(cells)) + "|\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
