package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/page"
	"lastitem/loadtest"
	"lastitem/loadtest/report"
)

// envToken is where the admin token comes from if no flag gives it.
const envToken = "SHOP_ADMIN_TOKEN"

// loadtestFlags are the flags of 'shop loadtest'.
type loadtestFlags struct {
	url, token, mode string
	replicas         int
	rtt              time.Duration
	plan             planFlags
	thresholds       []string

	output         output
	details        bool
	history        string
	lang           string
	quiet, noColor bool

	foreign loadtest.Foreign
}

func newLoadtest() *cobra.Command {
	var f loadtestFlags
	cmd := &cobra.Command{
		Use:   "loadtest",
		Short: "Put load on one or several modes, and have the result judged",
		Long: `Puts load on a running lastitem, measures it, and judges from the clients' history and the service's ledger whether the
stock was deducted exactly. The result goes to stdout, progress to stderr if that is a terminal.

With --rtt the load goes to a private stack instead, started for this run as by 'shop demo'. A proxy between each replica and each server
delays every message by half the round trip.

The closed model (--vus with --loops, --requests or --duration) sends a client's next request after its last answer; the
open model (--rate, --stages) sends when a request is due, whether answers come or not, and counts the wait from then.

The stock is set before each run, which deletes the orders of those products, and needs the admin token.

With --request it can be pointed at a service that is not lastitem: '{{product}}', '{{quantity}}' and '{{key}}' are filled
in, and the verdict comes from the clients' history and the stock before and after (--stock-url).

With --repeat, a claim to be exact needs every run to be exact; a claim to break needs one broken run. The verdict column counts
the runs, as in BROKEN O 27/30. If an open model drops more than 1% of its arrivals, the load was not the planned one and the
run does not count: the verdict on the stock holds, and the exit code is 3.

Named plans, which the other flags override:
` + planList(),
		Example: `  shop loadtest --url http://localhost:8080 --mode lua-lock --plan jmeter
  shop loadtest --mode 'set*,lua-lock' --vus 50 --requests 2000 --stock 1000 --repeat 6
  shop loadtest --mode lease-seq --rate 500 --duration 10s --stock 100000 --threshold 'p(99)<50ms' --threshold 'oversold==0'
  shop loadtest --mode lua-lock,handoff --rtt 1ms --repeat 3
  shop loadtest --mode noop --stages 10s:100,30s:2000 --lang zh
  shop loadtest --mode all --repeat 6 -o bench --out modes.txt && benchstat -col /mode modes.txt
  shop loadtest --url http://localhost:9000 --request 'POST /buy {"id":{{product}},"n":{{quantity}}}' \
    --ok-status 200 --refused-status 409 --stock-url '/items/{{product}}' --stock-json-path data.stock`,
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return runLoadtest(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *loadtestFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	section(set, "Target", func() { f.addTarget(set) })
	f.plan.add(set)
	section(set, "Output", func() { f.addOutput(cmd) })
	section(set, "Foreign service, one that is not lastitem", func() { f.foreignFlags(set) })
	cmd.MarkFlagsMutuallyExclusive("request", "mode")
}

// addTarget declares where the load goes.
func (f *loadtestFlags) addTarget(set *pflag.FlagSet) {
	set.StringVar(&f.url, "url", "http://localhost:8080", "address of the service, or of the balancer before it")
	set.StringVar(&f.mode, "mode", "", "modes: names, globs like 'set*', joined by commas, or all")
	set.StringVar(&f.token, "token", "", "admin token (default $"+envToken+")")
	set.IntVar(&f.replicas, "replicas", 0, "replicas behind the address; 0 is as many as answer, then none can be missing")
	addRTT(set, &f.rtt, "; starts a private stack of --replicas replicas, or 3")
}

// addOutput declares what is reported, and how.
func (f *loadtestFlags) addOutput(cmd *cobra.Command) {
	set := cmd.Flags()
	f.output.add(cmd, comparisonForms...)
	f.output.addBesides(cmd, formHTML, formMarkdown)
	f.output.addOldForms(cmd, formJSON, formCSV, formBench)
	f.output.addOldFile(cmd, "json-file")
	set.StringArrayVar(&f.thresholds, "threshold", nil,
		"bound that must hold, repeatable: p(50|90|95|99|99.9), avg, med, min, max of accepted; accepted/s, requests/s; "+
			"oversold, leaked, lost_updates, unknown, busy, failed, dropped, accepted")
	set.BoolVar(&f.details, "details", false, "text: print the full report of every run; if there is only one, it is always printed")
	set.StringVar(&f.history, "history", "", "write every request as its client saw it to a file, as JSON lines")
	addLang(set, &f.lang)
	set.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	set.BoolVar(&f.noColor, "no-color", false, "no colour, as with NO_COLOR")
}

// foreignFlags declares a service that is not lastitem.
func (f *loadtestFlags) foreignFlags(set *pflag.FlagSet) {
	set.StringVar(&f.foreign.Request, "request", "", `what to send it: 'METHOD /path body'`)
	set.IntSliceVar(&f.foreign.OKStatus, "ok-status", nil, "its statuses that mean deducted (default 200)")
	set.IntSliceVar(&f.foreign.RefusedStatus, "refused-status", nil, "its statuses that mean sold out (default 409)")
	set.StringVar(&f.foreign.StockURL, "stock-url", "", "where it tells the stock of a product, by GET")
	set.StringVar(&f.foreign.StockJSONPath, "stock-json-path", "", "where in that answer, as in data.items[0].stock")
}

// runLoadtest is the body of the command: what to compare, the comparison, its report.
func runLoadtest(cmd *cobra.Command, f *loadtestFlags) error {
	thresholds, err := f.check()
	if err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	far, err := newFarther(f.plan.set, f.rtt, f.lang, givenFlag(f.plan.set, "url", "request"))
	if err != nil {
		return err
	}
	if far.rtt > 0 {
		return f.private(cmd, thresholds, far)
	}
	what, err := f.comparing(cmd.Context())
	if err != nil {
		return err
	}
	return f.compare(cmd.Context(), cmd, what, thresholds)
}

// compare makes the runs and reports.
func (f *loadtestFlags) compare(ctx context.Context, cmd *cobra.Command, what loadtest.Comparing, thresholds []loadtest.Threshold) error {
	history, err := openHistory(f.history)
	if err != nil {
		return err
	}
	progress := newProgress(cmd.ErrOrStderr(), f.lang, f.quiet, false)
	what.Progress, what.Each = progress.step, history.each
	c, err := loadtest.Compare(ctx, what)
	progress.clear()
	// A full disk does not cost what was measured.
	err = errors.Join(err, history.close())
	if err != nil && len(c.Results) == 0 {
		return err
	}
	if len(c.Results)+len(c.Failed) == 0 && !c.Partial && len(c.Skipped) > 0 {
		return usage("nothing to run: %s: %s", c.Skipped[0].Mode, c.Skipped[0].Why)
	}
	c.Check(thresholds)
	c.Command = again("loadtest", f.plan.set)
	write := func(w io.Writer, form string) error { return f.report(w, form, c) }
	if err := errors.Join(err, f.output.write(cmd, write)); err != nil {
		return err
	}
	if code := c.ExitCode(); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// check refuses what is wrong on its face, before anything is sent.
func (f *loadtestFlags) check() ([]loadtest.Threshold, error) {
	if err := checkLang(f.lang); err != nil {
		return nil, err
	}
	switch {
	case f.mode == "" && f.foreign.Request == "":
		return nil, usage("--mode wants a mode, or all; a service that is not lastitem wants --request")
	case f.details && f.output.form != formText:
		return nil, usage("--details goes with the text, not with --output %s", f.output.form)
	case f.replicas < 0:
		return nil, usage("--replicas %d: want 0 or more", f.replicas)
	}
	thresholds := make([]loadtest.Threshold, len(f.thresholds))
	for i, text := range f.thresholds {
		var err error
		if thresholds[i], err = loadtest.ParseThreshold(text); err != nil {
			return nil, usage("--threshold: %w", err)
		}
	}
	return thresholds, nil
}

// comparisonForms are the forms of the result of a comparison.
var comparisonForms = []string{formText, formJSON, formCSV, formMarkdown, formBench, formHTML}

// writeComparison writes a comparison in any form but text. secrets must not be in what people publish.
func writeComparison(w io.Writer, form, lang string, c loadtest.Comparison, secrets []string) error {
	switch form {
	case formHTML:
		return report.WritePage(w, c, lang, secrets)
	case formCSV:
		return report.WriteCSV(w, c)
	case formMarkdown:
		var b strings.Builder
		err := report.WriteMarkdown(&b, c, lang)
		_, failed := io.WriteString(w, page.HidePlain(b.String(), secrets))
		return errors.Join(err, failed)
	case formBench:
		return report.WriteBench(w, c)
	}
	return report.WriteJSON(w, c)
}

// report writes the comparison: as text the report of a single run, else a table.
func (f *loadtestFlags) report(w io.Writer, form string, c loadtest.Comparison) error {
	if form != formText {
		return writeComparison(w, form, f.lang, c, secretsIn(f.plan.set, f.token))
	}
	style := styleFor(w, f.lang, f.noColor)
	single := len(c.Results) == 1
	for _, r := range c.Results {
		if !single && !f.details {
			break
		}
		if err := report.WriteText(w, r, style); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if single {
		return report.WriteFindings(w, c, style)
	}
	return report.WriteTable(w, c, style)
}
