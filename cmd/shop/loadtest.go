package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/report"
	"lastitem/say/redact"
	layout "lastitem/say/report"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/target"
)

// loadtestFlags are the flags of 'shop loadtest'.
type loadtestFlags struct {
	url, token, mode string
	replica          string // the first one's address, on a private stack
	replicas         int
	rtt              time.Duration
	durable          bool
	insecure         bool
	plan             planFlags
	thresholds       []string

	output         cli.Output
	details        bool
	history        string
	lang           string
	quiet, noColor bool

	service                     serviceFlags // that is not lastitem
	stockPath, redis, sql, name string
	settle                      time.Duration
}

func newLoadtest(lang string) *cobra.Command {
	f := loadtestFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "loadtest",
		Short: text.Of("Put load on one or several modes, and judge the result").In(lang),
		Long: text.Of(`Puts load on a running lastitem, measures it, and judges from the clients' history and the service's
ledger whether the stock was deducted exactly. The result goes to stdout, progress to stderr if that is a terminal.

With --rtt or --durable the load goes to a private stack instead, started for this run as by 'shop demo'. With --rtt a
proxy between each replica and each server delays every message by half the round trip.

A closed loop (--vus with --loops, --requests or --duration) sends a client's next request after its last answer; an
open loop (--rate, --stages) sends each request when it is due, whether answers come or not, and counts its latency from
then.

The stock is set before each run, which deletes the orders of those products, and needs the admin token. Nobody else may
sell these products or set their stock meanwhile: what others sell looks like the mode's mistake.

With --request it can be pointed at a service that is not lastitem: '{{product}}', '{{quantity}}' and '{{key}}' are
filled in, and the verdict comes from the clients' history and the stock before and after (--stock-url), and from the
orders if they can be read (--orders-url). --reset-url, --reset-sql or --reset-redis sets the stock before each run;
without them a run begins with the stock that is there. If the stock cannot be reset or read, nothing is sent.

With --repeat, a claim to be exact needs every run to be exact; a claim to break needs one broken run. The verdict
column counts the runs, as in BROKEN O 27/30. If an open loop drops more than 1% of its arrivals, the load was not the
planned one and the run does not count: the verdict on the stock holds, and the exit code is 3.

Named plans, which the other flags override:
`).In(lang) + planList(lang),
		Example: `  shop loadtest --url http://localhost:8080 --mode lua-lock --plan jmeter
  shop loadtest --mode 'set*,lua-lock' --vus 50 --requests 2000 --stock 1000 --repeat 6
  shop loadtest --mode lease-seq --rate 500 --duration 10s --stock 100000 --threshold 'p(99)<50ms' --threshold 'oversold==0'
  shop loadtest --mode lua-lock,handoff --rtt 1ms --repeat 3
  shop loadtest --mode noop --stages 10s:100,30s:2000 --lang zh
  shop loadtest --mode all --repeat 6 -o bench --out modes.txt && benchstat -col /mode modes.txt
  shop loadtest --url http://localhost:9000 --request 'POST /buy {"id":{{product}},"n":{{quantity}}}' \
    --reset-url 'PUT /items/{{product}} {"stock":{{stock}}}' --stock-url '/items/{{product}}#/data/stock'
  shop loadtest --service shop.yaml --vus 50 --requests 2000`,
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return runLoadtest(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *loadtestFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	cli.Section(set, text.Of("Target").In(f.lang), func() { f.addTarget(set) })
	f.plan.add(set, f.lang)
	cli.Section(set, text.Of("Output").In(f.lang), func() { f.addOutput(cmd) })
	cli.Section(set, text.Of("Foreign service, one that is not lastitem").In(f.lang), func() { f.foreignFlags(set) })
	for _, foreign := range []string{"request", "service"} {
		cmd.MarkFlagsMutuallyExclusive(foreign, "mode")
		cmd.MarkFlagsMutuallyExclusive("durable", foreign)
	}
	cmd.MarkFlagsMutuallyExclusive("durable", "url")
}

// runLoadtest is the body of the command: what to compare, the comparison, its report.
func runLoadtest(cmd *cobra.Command, f *loadtestFlags) error {
	if err := f.service.load(f.plan.set); err != nil {
		return err
	}
	f.plan.names = f.service.f.Products
	if f.plan.names != nil && f.plan.given("products") { // where products have names, a number is one
		f.plan.names = strings.Split(f.plan.count, ",")
	}
	thresholds, err := f.check()
	if err != nil {
		return err
	}
	f.lang = f.output.Language(cmd, f.lang)
	if err := checkRTT(f.plan.set, f.rtt, "url", "request"); err != nil {
		return err
	}
	if f.rtt > 0 || f.durable {
		return f.onOwnStack(cmd, thresholds)
	}
	what, err := f.comparing(cmd.Context())
	if err != nil {
		return err
	}
	return f.compare(cmd.Context(), cmd, what, thresholds)
}

// comparing returns what to compare: modes of lastitem, or the one service that is not.
func (f *loadtestFlags) comparing(ctx context.Context) (compare.Comparing, error) {
	what := compare.Comparing{Version: builtFrom(), Replicas: f.replicas, Stack: []string{redact.Address(f.url)}}
	var err error
	if what.Plans, err = f.plan.plans(); err != nil {
		return what, err
	}
	if f.service.f.Request != "" {
		err := f.foreign(ctx, &what)
		return what, err
	}
	if err := alone(f.plan.set, "request"); err != nil {
		return what, err
	}
	s := service{url: f.url, replica: f.replica, token: f.token, replicas: f.replicas, lang: f.lang, insecure: f.insecure}
	err = s.fill(ctx, &what, f.mode)
	return what, err
}

// remote is the service that is not lastitem, with its stores.
func (f *loadtestFlags) remote() (*target.Remote, error) {
	d := f.service.f
	d.Insecure, d.Products = f.insecure, f.plan.names
	d.Dir, _ = os.Getwd() // "" is the same
	if err := f.service.read(&d); err != nil {
		return nil, cli.Misuse(f.service.where(f.plan.set, err))
	}
	if f.stockPath != "" {
		d.Stock.URL += "#/" + strings.NewReplacer("$.", "", ".", "/", "[", "/", "]", "").Replace(f.stockPath)
	}
	remote, err := d.At(f.url, f.redis, f.sql)
	if err != nil {
		return nil, cli.Misuse(f.service.where(f.plan.set, err))
	}
	return remote, nil
}

// foreign completes what by the service that is not lastitem. A stock that cannot be reset or read is a mistake of the
// command line: it is found before any load.
func (f *loadtestFlags) foreign(ctx context.Context, what *compare.Comparing) error {
	remote, err := f.remote()
	if err != nil {
		return err
	}
	x := loadtest.Foreign{Remote: remote, Name: f.name, Lang: f.lang, Settle: f.settle}
	if f.plan.given("settle") {
		x.Watch = f.settle
	}
	if u, err := url.Parse(f.url); err == nil {
		x.Name = cmp.Or(x.Name, u.Host)
	}
	for _, p := range what.Plans {
		if err := x.Validate(p); err != nil {
			return cli.Misuse(err)
		}
	}
	if err := remote.Setup(ctx); err != nil {
		return cli.Misuse(err)
	}
	for i := range what.Plans {
		if err := x.Ready(ctx, &what.Plans[i]); ctx.Err() != nil {
			return &cli.Error{Code: cli.ExitInterrupted}
		} else if unfit := new(target.UnfitError); errors.As(err, &unfit) {
			return &cli.Error{Code: exitInconclusive, Err: err}
		} else if err != nil {
			return cli.Misuse(err)
		}
	}
	what.Lang, what.Modes = f.lang, []api.Mode{{Name: x.Name, Available: true}}
	type told = func(loadtest.Progress)
	what.Run = func(ctx context.Context, _ api.Mode, p plan.Plan, progress told) (loadtest.Result, error) {
		return loadtest.RunForeign(ctx, x, p, progress)
	}
	return nil
}

// service is a running lastitem, as the commands that put load on it know it.
type service struct {
	url, token, lang string
	replica          string // the address of one replica, for plans that go there; "" = not known
	replicas         int
	insecure         bool
}

// fill completes what from the service: its modes that pattern selects, and how to run one.
func (s service) fill(ctx context.Context, what *compare.Comparing, pattern string) error {
	control, err := s.control(s.url, s.replicas)
	if err != nil {
		return cli.Misuse(err)
	}
	one := control
	if slices.ContainsFunc(what.Plans, func(p plan.Plan) bool { return p.Direct }) {
		if s.replica == "" {
			return cli.Usage(text.Of("this plan sends to one replica: it needs a private stack, as --durable or --rtt start"))
		}
		if one, err = s.control(s.replica, 1); err != nil {
			return err
		}
	}
	what.Lang = s.lang
	all, err := control.Modes(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return &cli.Error{Code: cli.ExitInterrupted}
		}
		return err
	}
	if what.Modes, err = compare.Select(all, pattern); err != nil {
		return cli.Misuse(err)
	}
	what.Fits = plan.Fits
	what.Run = func(ctx context.Context, m api.Mode, p plan.Plan, progress func(loadtest.Progress)) (loadtest.Result,
		error) {
		if p.Direct {
			return loadtest.Run(ctx, one, m, p, progress)
		}
		return loadtest.Run(ctx, control, m, p, progress)
	}
	return nil
}

// control returns the control of so many replicas at an address.
func (s service) control(address string, replicas int) (*loadtest.Control, error) {
	control, err := loadtest.NewControl(address, cmp.Or(s.token, adminToken()))
	if err == nil {
		control.Replicas, control.Lang = replicas, s.lang
		if s.insecure {
			control.Trust()
		}
	}
	return control, err
}

// durable makes servers durable, and says after their kinds by what: real ones, of which SQL has an order on the disk
// before it acknowledges it, and Redis within a second. Redis does not rewrite its file meanwhile, which would slow
// down the mode whose turn it is.
func durable(o *stack.Options) (said map[string]string) {
	o.Backend = stack.Local
	o.RedisConf = []string{"appendonly yes", "appendfsync everysec", "auto-aof-rewrite-percentage 0"}
	o.SQLConf = []string{"--innodb-buffer-pool-size=256M", "--log-bin=bin", "--server-id=1", "--sync-binlog=1"}
	return map[string]string{stack.Redis: ": appendonly=yes, appendfsync=everysec",
		"sql": ": innodb_flush_log_at_trx_commit=1, log_bin=1, sync_binlog=1"} // the first is so by default
}

// onOwnStack starts a private stack and runs the load test on it.
func (f *loadtestFlags) onOwnStack(cmd *cobra.Command, thresholds []compare.Threshold) error {
	extras, err := extrasFor(f.mode) // before anything is started
	if err != nil {
		return err
	}
	if f.replicas > maxReplicas {
		return cli.Usage(text.Of("--replicas %d: want at most %d, each is a process of its own"), f.replicas, maxReplicas)
	}
	if _, err := f.plan.plans(); err != nil {
		return err
	}
	notes := cmd.ErrOrStderr()
	if f.quiet {
		notes = io.Discard
	}
	var log stackLog
	f.replicas = cmp.Or(f.replicas, 3)
	o := stack.Options{
		Replicas: f.replicas, Extras: extras, Token: cmp.Or(f.token, adminToken()), Log: log.to(notes), Lang: f.lang,
		Advice: adviser(f.lang, "demo", stack.Auto, true),
		RTT:    f.rtt,
	}
	var by map[string]string
	if f.durable {
		by, o.Advice = durable(&o), adviser(f.lang, "demo", stack.Local, false)
	}
	return onOwnStack(cmd.Context(), o, func(ctx context.Context, running *stack.Stack) error {
		f.url, f.token, f.replica = running.URL, running.Token, running.Replicas[0].URL
		what, err := f.comparing(ctx)
		if err != nil {
			return err
		}
		what.Stack, what.MarkLogs, what.RTT, what.Servers = log.lines(), running.MarkLogs, f.rtt, running.Kinds()
		what.Instead = running.Instead()
		what.PIDs = func(m api.Mode) map[string][]int { return running.PIDs(m.Needs) }
		for name, said := range by {
			what.Servers[name] += said
		}
		return f.compare(ctx, cmd, what, thresholds)
	})
}

// compare makes the runs and reports.
func (f *loadtestFlags) compare(ctx context.Context, cmd *cobra.Command, what compare.Comparing,
	thresholds []compare.Threshold) error {
	history, err := report.CreateHistory(f.history)
	if err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	what.Each = history.Add
	c, err := report.NewProgress(cmd.ErrOrStderr(), f.lang, f.quiet, false).Compare(ctx, what)
	// A full disk does not cost what was measured.
	err = errors.Join(err, history.Close())
	if err != nil && len(c.Results) == 0 {
		return err
	}
	if len(c.Results)+len(c.Failed) == 0 && !c.Partial && len(c.Skipped) > 0 {
		return nothingToRun(c.Skipped)
	}
	c.Check(thresholds)
	c.Command = again("loadtest", f.plan.set)
	decide(&c, "loadtest", f.plan.set)
	write := func(w io.Writer, form string) error { return f.report(w, form, c) }
	if err := errors.Join(err, f.output.Write(cmd, write)); err != nil {
		return err
	}
	return cli.EndWith(c.ExitCode())
}

// nothingToRun is the error of a load test whose modes were all skipped. If a backend did not work, the command line
// may be right.
func nothingToRun(skipped []compare.SkippedMode) error {
	code, first := cli.ExitUsage, skipped[0]
	if i := slices.IndexFunc(skipped, func(s compare.SkippedMode) bool { return s.Down }); i >= 0 {
		code, first = exitInconclusive, skipped[i]
	}
	return cli.Ended(code, text.Of("nothing to run: %s: %s"), first.Mode, first.Why)
}

// comparisonForms are the forms of the result of a comparison.
var comparisonForms = []string{cli.Text, cli.JSON, cli.CSV, cli.Markdown, cli.Bench, cli.HTML, cli.JUnit}

// writeComparison writes a comparison in any form but text. secrets must not be in what people publish.
func writeComparison(w io.Writer, form, lang string, c compare.Comparison, secrets []string) error {
	switch form {
	case cli.HTML:
		return report.WritePage(w, c, lang, secrets)
	case cli.CSV:
		return report.WriteCSV(w, c)
	case cli.JUnit:
		return report.WriteJUnit(w, c, lang)
	case cli.Markdown:
		var b strings.Builder
		err := report.WriteMarkdown(&b, c, lang)
		_, failed := io.WriteString(w, layout.HidePlain(b.String(), secrets))
		return errors.Join(err, failed)
	case cli.Bench:
		return report.WriteBench(w, c)
	}
	return cli.WriteJSON(w, c)
}

// report writes the comparison: as text the report of a single run, else a table.
func (f *loadtestFlags) report(w io.Writer, form string, c compare.Comparison) error {
	if form != cli.Text {
		return writeComparison(w, form, f.lang, c, secretsIn(f.plan.set, f.token))
	}
	style := report.StyleFor(w, f.lang, f.noColor)
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

// decide notes beside each undecided claim the command that decides it: the mode alone, with twice as many runs where
// their number can be given, and holds as long as the machine needs.
func decide(c *compare.Comparison, command string, set *pflag.FlagSet) {
	for i := range c.Summaries {
		s := &c.Summaries[i]
		if s.Finding != judge.Undecided {
			continue
		}
		s.Decide = again(command, set, append([]string{"mode", "insist", "threshold"}, scales...)...) + " --mode " + s.Mode
		if set.Lookup("insist") != nil {
			s.Decide += fmt.Sprintf(" --insist %d", max(2*s.Runs, 4))
		}
	}
}
