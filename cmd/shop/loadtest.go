package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/api"
	"lastitem/loadtest"
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

	json, csv, bench  bool
	details           bool
	jsonFile, history string
	lang              string
	quiet, noColor    bool

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

Exit codes: 0 every claim was confirmed; 1 one was contradicted, or an error; 2 wrong usage; 3 inconclusive or vacuous, or a run
that does not count; 99 a --threshold was crossed; 130 interrupted, after a partial report.

Named plans, which the other flags override:
` + planList(),
		Example: `  shop loadtest --url http://localhost:8080 --mode lua-lock --plan jmeter
  shop loadtest --mode 'set*,lua-lock' --vus 50 --requests 2000 --stock 1000 --repeat 6
  shop loadtest --mode lease-seq --rate 500 --duration 10s --stock 100000 --threshold 'p(99)<50ms' --threshold 'oversold==0'
  shop loadtest --mode lua-lock,handoff --rtt 1ms --repeat 3
  shop loadtest --mode noop --stages 10s:100,30s:2000 --lang zh
  shop loadtest --mode all --repeat 6 --bench >modes.txt && benchstat -col /mode modes.txt
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
	set.StringVar(&f.url, "url", "http://localhost:8080", "address of the service, or of the balancer before it")
	set.StringVar(&f.mode, "mode", "", "modes: names, globs like 'set*', joined by commas, or all")
	set.StringVar(&f.token, "token", "", "admin token (default $"+envToken+")")
	set.IntVar(&f.replicas, "replicas", 0, "replicas behind the address; 0 is as many as answer, then none can be missing")
	addRTT(set, &f.rtt, "; starts a private stack of --replicas replicas, or 3")
	f.plan.add(set)
	set.StringArrayVar(&f.thresholds, "threshold", nil,
		"bound that must hold, repeatable: p(50|90|95|99|99.9), avg, med, min, max of accepted; accepted/s, requests/s; "+
			"oversold, leaked, lost_updates, unknown, busy, failed, dropped, accepted")
	set.BoolVar(&f.json, "json", false, "print JSON instead of text")
	set.BoolVar(&f.csv, "csv", false, "print CSV, a line per run and kind of answer")
	set.BoolVar(&f.bench, "bench", false, "print Go benchmark lines, for benchstat")
	set.BoolVar(&f.details, "details", false, "print the full report of every run; where there is only one, it is always printed")
	cmd.MarkFlagsMutuallyExclusive("json", "csv", "bench", "details")
	set.StringVar(&f.jsonFile, "json-file", "", "write the JSON to a file besides")
	set.StringVar(&f.history, "history", "", "write every request as its client saw it to a file, as JSON lines")
	set.StringVar(&f.lang, "lang", "en", "language of the text: en or zh (the columns of JMeter's 聚合报告)")
	set.BoolVar(&f.quiet, "quiet", false, "no progress")
	set.BoolVar(&f.noColor, "no-color", false, "no colour, as with NO_COLOR")

	set.StringVar(&f.foreign.Request, "request", "", `a service that is not lastitem: 'METHOD /path body'`)
	set.IntSliceVar(&f.foreign.OKStatus, "ok-status", nil, "its statuses that mean deducted (default 200)")
	set.IntSliceVar(&f.foreign.RefusedStatus, "refused-status", nil, "its statuses that mean sold out (default 409)")
	set.StringVar(&f.foreign.StockURL, "stock-url", "", "where it tells the stock of a product, by GET")
	set.StringVar(&f.foreign.StockJSONPath, "stock-json-path", "", "where in that answer, as in data.items[0].stock")
	cmd.MarkFlagsMutuallyExclusive("request", "mode")
}

// runLoadtest is the body of the command: what to compare, the comparison, its report.
func runLoadtest(cmd *cobra.Command, f *loadtestFlags) error {
	thresholds, err := f.check()
	if err != nil {
		return err
	}
	if err := writable(f.jsonFile); err != nil {
		return fmt.Errorf("--json-file: %w", err)
	}
	far, err := newFarther(f.plan.set, f.rtt, givenFlag(f.plan.set, "url", "request"))
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
	progress := newProgress(cmd.ErrOrStderr(), f.quiet, false)
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
	c.Crossed = loadtest.Cross(c, thresholds)
	if err := errors.Join(err, f.report(cmd.OutOrStdout(), c)); err != nil {
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

// comparing returns what to compare: modes of lastitem, or the one service that is not.
func (f *loadtestFlags) comparing(ctx context.Context) (loadtest.Comparing, error) {
	what := loadtest.Comparing{Version: version(), Replicas: f.replicas, Stack: []string{f.url}}
	var err error
	if what.Plans, err = f.plan.plans(); err != nil {
		return what, err
	}
	if f.foreign.Request != "" {
		f.foreign.URL = f.url
		for _, p := range what.Plans {
			if err := f.foreign.Validate(p); err != nil {
				return what, usage("%w", err)
			}
		}
		what.Modes = []api.Mode{{Name: "foreign", Available: true}}
		what.Run = func(ctx context.Context, _ api.Mode, p loadtest.Plan, progress func(loadtest.Progress)) (loadtest.Result, error) {
			return loadtest.RunForeign(ctx, f.foreign, p, progress)
		}
		return what, nil
	}
	s := service{url: f.url, token: f.token, replicas: f.replicas, lang: f.lang}
	err = s.fill(ctx, &what, f.mode)
	return what, err
}

// service is a running lastitem, as the commands that put load on it know it.
type service struct {
	url, token, lang string
	replicas         int
}

// fill completes what from the service: its modes that pattern selects, and how to run one.
func (s service) fill(ctx context.Context, what *loadtest.Comparing, pattern string) error {
	if s.token == "" {
		s.token = os.Getenv(envToken)
	}
	control, err := loadtest.NewControl(s.url, s.token)
	if err != nil {
		return usage("%w", err)
	}
	control.Replicas, control.Lang = s.replicas, s.lang
	all, err := control.Modes(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{code: exitInterrupted}
		}
		return err
	}
	if what.Modes, err = loadtest.Select(all, pattern); err != nil {
		return usage("%w", err)
	}
	what.Fits = loadtest.Fits
	what.Run = func(ctx context.Context, m api.Mode, p loadtest.Plan, progress func(loadtest.Progress)) (loadtest.Result, error) {
		return loadtest.Run(ctx, control, m, p, progress)
	}
	return nil
}

// report writes the comparison: to the file, and in the form that was asked for to w.
func (f *loadtestFlags) report(w io.Writer, c loadtest.Comparison) error {
	if f.jsonFile != "" {
		if err := writeJSONFile(f.jsonFile, c); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return loadtest.WriteJSON(w, c)
	case f.csv:
		return loadtest.WriteCSV(w, c)
	case f.bench:
		return loadtest.WriteBench(w, c)
	}
	style := styleFor(w, f.lang, f.noColor)
	single := len(c.Results) == 1
	for _, r := range c.Results {
		if !single && !f.details {
			break
		}
		if err := loadtest.WriteText(w, r, style); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	if single {
		return loadtest.WriteFindings(w, c, style)
	}
	return loadtest.WriteTable(w, c, style)
}

// writable makes sure, before there are results to lose, that a file can be written to; "" and "-" are none.
func writable(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // a pipe has one writer only, and a link may lead to one
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if isNew {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// writeJSONFile writes the comparison to a file, and makes its directory.
func writeJSONFile(path string, c loadtest.Comparison) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(loadtest.WriteJSON(f, c), f.Close())
}

// historyFile receives every run's history; nil receives nothing.
type historyFile struct {
	file *os.File
	w    *bufio.Writer
}

// openHistory creates the file at path; nil for "".
func openHistory(path string) (*historyFile, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	return &historyFile{file: f, w: bufio.NewWriter(f)}, nil
}

// each is the callback of loadtest.Compare.
func (h *historyFile) each(r loadtest.Result) error {
	if h == nil {
		return nil
	}
	return loadtest.WriteHistory(h.w, r)
}

func (h *historyFile) close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.w.Flush(), h.file.Close())
}
