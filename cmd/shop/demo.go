package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/cli"
	"lastitem/internal/guest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/report"
	"lastitem/say/redact"
	"lastitem/say/text"
	"lastitem/stack"
)

// demoFlags are the flags of 'shop demo'.
type demoFlags struct {
	mode       string
	strict     bool
	replicas   int
	backend    string
	engine     string
	own        guest.OwnServers
	extras     []string // that the selected modes need
	url, token string

	vus, requests int
	stock         int64
	rtt           time.Duration

	output         cli.Output
	lang           string
	quiet, noColor bool

	set *pflag.FlagSet
}

func newDemo(lang string) *cobra.Command {
	f := demoFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: text.Of("Start a private stack, drive every mode through it, and judge which ones sell exactly").In(lang),
		Long: text.Of(`Starts the shop on this machine (see 'shop up'), drives every mode through the balancer with the same
load and fresh stock, asking for more than there is, and prints a row per mode with the verdict and the evidence.
Nothing is left behind. Modes that reserve get buyers who pay later: the plan reserve of 'shop loadtest'. One that
breaks a limit per buyer gets the plan limit.

A claim is checked both ways: a mode that claims to be exact must be, and one that claims to break must be seen to.
One that claims to break and did not is run again, up to five runs in all; one that claims to be exact only if its run
could not have shown a failure (VACUOUS). On slow servers a run continues after its requests, for a minute at most,
until a request is refused as sold out.
With one replica it is the claim for concurrent threads, with several the claim for replicas: compare
'shop demo --mode mutex --replicas 1' with '--replicas 3'.

A mode that needs a server that is not here (etcd, ZooKeeper, Consul, MySQL rather than SQLite) is listed with the
reason; with --strict it is an error instead, before anything is run, with what to install.

With --redis, --sql, --etcd and so on it works on your own servers: its keys there begin with a prefix made for the run,
its tables are dropped afterwards unless they were there before, and tables of the same names that lastitem did not make
are refused.

With --engine the Redis or the SQL is one of several servers of which one takes over when another fails.

With --rtt the servers are as far away as in a data centre: a proxy between each replica and each server delays every
message by half the round trip. On loopback the window between two commands is microseconds wide, and few requests fall
into it.

With --url nothing is started: the load goes to a stack that is already running, such as docker-compose's, and needs its
admin token. The stock of product 101 is set and its orders are deleted; for modes that reserve, those
of product 910000101 too.

The JSON holds the environment, every run with its percentiles and verdicts, and a summary per mode: the Go type
compare.Comparison. Without -o, --out, --html and --markdown it is written to out/demo.json, beside the table on
stdout.`).In(lang),
		Example: `  shop demo
  shop demo --mode mutex --replicas 1
  shop demo --mode 'unsafe,lua-lock' --backend embedded --lang zh
  shop demo --mode 'setnx*,mutex' --rtt 1ms
  shop demo --redis redis://localhost:6379/0 --sql 'shop:secret@tcp(localhost:3306)/lastitem'
  shop demo --url http://localhost:8080 --token "$SHOP_ADMIN_TOKEN"`,
		Args: cli.Arguments(0, 0),
		RunE: cli.Run(func(cmd *cobra.Command, _ []string) error { return demo(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *demoFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	f.set = set
	cli.Flags{
		{"mode", &f.mode, "all", modeHelp},
		{"strict", &f.strict, nil, text.Of("fail if a mode is not available here, before anything is run")},
	}.Under(set, f.lang, text.Of("Modes"))
	cli.Section(set, text.Of("Stack").In(f.lang), func() {
		cli.Flags{
			{"replicas", &f.replicas, 3, text.Of("replicas to start; with --url: how many are behind it")},
			{"backend", &f.backend, stack.Auto, backendHelp},
		}.Add(set, f.lang)
		addRTT(set, f.lang, &f.rtt)
		addOwn(set, f.lang, &f.own)
		addEngine(cmd, f.lang, &f.engine)
	})
	cli.Flags{
		{"url", &f.url, nil, text.Of("a running stack to use instead of starting one")},
		{"token", &f.token, nil, tokenHelp},
	}.Under(set, f.lang, text.Of("Running stack"))
	cli.Flags{
		{"vus", &f.vus, nil, text.Of("clients, instead of the demo's 40")},
		{"requests", &f.requests, nil, text.Of("requests in all, instead of half as many again as there is stock, " +
			"and at least one of each client")},
		{"stock", &f.stock, nil, text.Of("stock at the start, instead of the demo's 500")},
	}.Under(set, f.lang, text.Of("Load"))
	cli.Section(set, text.Of("Output").In(f.lang), func() {
		f.output.Usual = "out/demo.json"
		f.output.Add(cmd, f.lang, comparisonForms...)
		f.output.AddBesides(cmd, cli.HTML, cli.Markdown, cli.JUnit)
		cli.AddLang(set, &f.lang)
		cli.Flags{
			{"quiet|q", &f.quiet, nil, quietHelp},
			{"no-color", &f.noColor, nil, noColorHelp},
		}.Add(set, f.lang)
	})
	for _, own := range append([]string{"backend", "engine"}, ownFlags...) {
		cmd.MarkFlagsMutuallyExclusive("url", own)
	}
}

// demo is the body of the command: a stack, the comparison, the table.
func demo(cmd *cobra.Command, f *demoFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	f.lang = f.output.Language(cmd, f.lang)
	notes := f.output.Notes(cmd) // the choice of servers belongs to the result
	if err := checkRTT(f.set, f.rtt, append(slices.Clone(ownFlags), "url")...); err != nil {
		return err
	}
	what := compare.Comparing{Version: builtFrom(), Replicas: f.replicas}
	if f.url != "" {
		what.Stack = []string{text.Sprintf(givenStack.In(f.lang), redact.Address(f.url), f.replicas)}
		fmt.Fprintln(notes, what.Stack[0])
		return f.compare(cmd.Context(), cmd, service{url: f.url, token: f.token, replicas: f.replicas, lang: f.lang}, what)
	}
	extras, err := extrasFor(f.mode) // before anything is started
	if err != nil {
		return err
	}
	f.extras = extras
	var log stackLog
	end, err := startEngine(cmd.Context(), f.engine, &f.own, f.lang, log.to(notes))
	if err != nil {
		return err
	}
	defer func() { err = closed(err, end()) }()
	return asGuest(cmd.Context(), f.own, f.options(&log, notes), func(ctx context.Context, running *stack.Stack) error {
		what.Stack, what.MarkLogs, what.RTT, what.Servers = log.lines(), running.MarkLogs, f.rtt, running.Kinds()
		what.Instead = running.Instead()
		return f.compare(ctx, cmd, service{url: running.URL, token: running.Token, replicas: f.replicas, lang: f.lang}, what)
	})
}

// givenStack is the note on a stack that is running already.
var givenStack = text.Of("stack: %s, as given, taken to have %d [replica|replicas]")

// check refuses what is wrong on its face, before anything is started.
func (f *demoFlags) check() error {
	if err := cmp.Or(checkBackendFlag(f.backend), checkEngine(f.engine)); err != nil {
		return err
	}
	if err := positive(f.set, "vus", "requests", "stock"); err != nil {
		return err
	}
	if f.replicas < 1 || f.url == "" && f.replicas > maxReplicas {
		return cli.Usage(replicasRange, f.replicas, maxReplicas)
	}
	p := demoPlan()
	f.override(&p)
	if err := p.Validate(); err != nil {
		return cli.Misuse(err)
	}
	return nil
}

// override changes a plan by what was given on the command line.
func (f *demoFlags) override(p *plan.Plan) {
	if f.vus != 0 {
		p.VUs = f.vus
	}
	if f.stock != 0 {
		p.Stock, p.Requests = f.stock, 0
	}
	if f.requests != 0 {
		p.Requests = f.requests
	}
}

// options returns what to start.
func (f *demoFlags) options(log *stackLog, notes io.Writer) stack.Options {
	return stack.Options{
		Replicas: f.replicas, Backend: f.backend, Extras: f.extras, All: f.strict, Token: cmp.Or(f.token, adminToken()),
		Log: log.to(notes), Lang: f.lang, Advice: adviser(f.lang, "demo", f.backend, true), RTT: f.rtt,
	}
}

// compare drives the modes of the service and reports.
func (f *demoFlags) compare(ctx context.Context, cmd *cobra.Command, s service, what compare.Comparing) error {
	if err := s.fill(ctx, &what, f.mode); err != nil {
		return err
	}
	if f.strict {
		if err := allAvailable(what); err != nil {
			return err
		}
	}
	what.Plans = demoPlans(what.Modes, f.override)
	c, err := report.NewProgress(cmd.ErrOrStderr(), f.lang, f.quiet, true).Compare(ctx, what)
	if err != nil {
		return err
	}
	c.Command = again("demo", f.set)
	decide(&c, "demo", f.set)
	if f.output.Text() {
		fmt.Fprintln(cmd.OutOrStdout()) // below the notes
	}
	write := func(w io.Writer, form string) error {
		if form == cli.Text {
			return report.WriteTable(w, c, report.StyleFor(w, f.lang, f.noColor))
		}
		return writeComparison(w, form, f.lang, c, secretsIn(f.set, s.token))
	}
	if err := f.output.Write(cmd, write); err != nil {
		return err
	}
	return cli.EndWith(c.ExitCode())
}
