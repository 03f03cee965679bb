package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lastitem/internal/localstack"
	"lastitem/internal/localstack/guest"
	"lastitem/internal/stock"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
	"lastitem/loadtest/report"
)

// demoFlags are the flags of 'shop demo'.
type demoFlags struct {
	mode       string
	strict     bool
	replicas   int
	backend    string
	own        guest.Servers
	extras     []string // that the selected modes need
	url, token string

	vus, requests int
	stock         int64
	rtt           time.Duration

	output         output
	lang           string
	quiet, noColor bool

	set *pflag.FlagSet
}

func newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a private stack, drive every mode through it, and judge which ones sell exactly",
		Long: `Starts the shop on this machine (see 'shop up'), drives every mode through the balancer with the same load and fresh stock,
asking for more than there is, and prints a row per mode with the verdict and the evidence. Nothing is left behind.

A claim is checked both ways: a mode that claims to be exact must be, and one that claims to break must be seen to.
One that claims to break and did not is run again, up to five runs in all; one that claims to be exact gets a single run.
On slow servers a run continues after its requests, for a minute at most, until a request is refused as sold out.
With one replica it is the claim for concurrent threads, with several the claim for replicas: compare
'shop demo --mode mutex --replicas 1' with '--replicas 3'.

A mode that needs a server that is not here (etcd, ZooKeeper, Consul, MySQL rather than SQLite) is listed with the reason; with
--strict it is an error instead, before anything is run, with what to install.

With --redis, --sql, --etcd and so on it works on your own servers: its keys there begin with a prefix made for the run, its
tables are dropped afterwards unless they were there before, and tables of the same names that lastitem did not make are refused.

With --rtt the servers are as far away as in a data centre: a proxy between each replica and each server delays every message by
half the round trip. On loopback the window between two commands is microseconds wide, and few requests fall into it.

With --url nothing is started: the load goes to a stack that is already running, such as docker-compose's, and needs its admin
token. The stock of product 101 is set and its orders are deleted.

The JSON holds the environment, every run with its percentiles and verdicts, and a summary per mode: the Go type
loadtest.Comparison. Without -o and --out it is written to out/demo.json, beside the table on stdout.`,
		Example: `  shop demo
  shop demo --mode mutex --replicas 1
  shop demo --mode 'unsafe,lua-lock' --backend embedded --lang zh
  shop demo --mode 'setnx*,mutex' --rtt 1ms
  shop demo --redis redis://localhost:6379/0 --sql 'shop:secret@tcp(localhost:3306)/lastitem'
  shop demo --url http://localhost:8080 --token "$SHOP_ADMIN_TOKEN"`,
		Args: arguments(0, 0),
		RunE: run(func(cmd *cobra.Command, _ []string) error { return demo(cmd, &f) }),
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *demoFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	f.set = set
	set.SortFlags = false
	section(set, "Modes", func() {
		set.StringVar(&f.mode, "mode", "all", "modes: names, globs like 'set*', joined by commas, or all")
		set.BoolVar(&f.strict, "strict", false, "fail if a mode is not available here, before anything is run")
		addOld(cmd, "all", "--strict", true, func(string) error { f.strict = true; return nil })
	})
	section(set, "Stack", func() {
		set.IntVar(&f.replicas, "replicas", 3, "replicas to start; with --url: how many are behind it")
		set.StringVar(&f.backend, "backend", localstack.Auto, "auto, embedded or local (real servers only)")
		addRTT(set, &f.rtt, "")
		addOwn(set, &f.own)
	})
	section(set, "Running stack", func() {
		set.StringVar(&f.url, "url", "", "a running stack to use instead of starting one")
		set.StringVar(&f.token, "token", "", "admin token (default $"+envToken+")")
	})
	section(set, "Load", func() {
		set.IntVar(&f.vus, "vus", 0, "clients, instead of the demo's 40")
		set.IntVar(&f.requests, "requests", 0, "requests in all, instead of half as many again as there is stock")
		set.Int64Var(&f.stock, "stock", 0, "stock at the start, instead of the demo's 500")
	})
	section(set, "Output", func() {
		f.output.usual = "out/demo.json"
		f.output.add(cmd, comparisonForms...)
		f.output.addBesides(cmd, formHTML, formMarkdown)
		f.output.addOldFile(cmd, "json")
		addLang(set, &f.lang)
		set.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
		set.BoolVar(&f.noColor, "no-color", false, "no colour, as with NO_COLOR")
	})
	for _, own := range append([]string{"backend"}, ownFlags...) {
		cmd.MarkFlagsMutuallyExclusive("url", own)
	}
}

// demo is the body of the command: a stack, the comparison, the table.
func demo(cmd *cobra.Command, f *demoFlags) error {
	plan, err := f.plan()
	if err != nil {
		return err
	}
	f.lang = f.output.language(cmd, f.lang)
	// The choice of servers belongs to the result, unless a program reads that.
	notes := cmd.OutOrStdout()
	if !f.output.text() {
		notes = cmd.ErrOrStderr()
	}
	far, err := newFarther(f.set, f.rtt, f.lang, cmp.Or(givenFlag(f.set, ownFlags...), givenFlag(f.set, "url")))
	if err != nil {
		return err
	}
	what := loadtest.Comparing{Version: version(), Plans: []loadtest.Plan{plan}, Replicas: f.replicas}
	if f.url != "" {
		what.Stack = []string{fmt.Sprintf(in(givenStack, f.lang), f.url, f.replicas)}
		fmt.Fprintln(notes, what.Stack[0])
		return f.compare(cmd.Context(), cmd, service{url: f.url, token: f.token, replicas: f.replicas, lang: f.lang}, what)
	}
	if f.extras, err = extrasFor(f.mode); err != nil { // before anything is started
		return err
	}
	g, err := newGuest(cmd.Context(), f.own)
	if err != nil {
		return err
	}
	return closed(f.private(cmd, notes, g, far, what), g.Leave(cmd.Context()))
}

// givenStack is the note on a stack that is running already.
var givenStack = stock.Text{En: "stack: %s, as given, taken to have %d replicas", Zh: "服务：%s（由你指定），按 %d 个副本计"}


// private runs the comparison on a stack of its own.
func (f *demoFlags) private(cmd *cobra.Command, notes io.Writer, g *guest.Guest, far *farther, what loadtest.Comparing) error {
	var log stackLog
	options, err := g.Options(f.options(&log, notes))
	if err != nil {
		return err
	}
	return private(cmd.Context(), options, far, func(ctx context.Context, stack *localstack.Stack) error {
		what.Stack, what.MarkLogs, what.RTT, what.Servers = log.lines(), stack.MarkLogs, far.rtt, serverKinds(stack)
		return f.compare(ctx, cmd, service{url: stack.URL, token: stack.Token, replicas: f.replicas, lang: f.lang}, what)
	})
}

// plan returns the demo's plan with what was given on the command line.
func (f *demoFlags) plan() (loadtest.Plan, error) {
	if err := checkLang(f.lang); err != nil {
		return loadtest.Plan{}, err
	}
	if err := checkBackendFlag(f.backend); err != nil {
		return loadtest.Plan{}, err
	}
	if err := positive(f.set, "vus", "requests", "stock"); err != nil {
		return loadtest.Plan{}, err
	}
	if f.replicas < 1 || f.url == "" && f.replicas > maxReplicas {
		return loadtest.Plan{}, usage("--replicas %d: want 1 to %d, each is a process of its own", f.replicas, maxReplicas)
	}
	plans, ok := plan.Named("demo")
	if !ok || len(plans) != 1 {
		return loadtest.Plan{}, errors.New("no plan demo")
	}
	p := plans[0]
	if f.vus != 0 {
		p.VUs = f.vus
	}
	if f.stock != 0 {
		p.Stock, p.Requests = f.stock, 0
	}
	if f.requests != 0 {
		p.Requests = f.requests
	}
	if err := p.Validate(); err != nil {
		return p, usage("%w", err)
	}
	return p.WithDefaults(), nil
}

// options returns what to start.
func (f *demoFlags) options(log *stackLog, notes io.Writer) localstack.Options {
	token := f.token
	if token == "" {
		token = os.Getenv(envToken)
	}
	return f.own.Options(localstack.Options{
		Replicas: f.replicas, Backend: f.backend, Extras: f.extras, All: f.strict, Token: token, Log: log.to(notes), Lang: f.lang,
		Advice: adviser("demo", f.backend, true),
	})
}

// compare drives the modes of the service and reports.
func (f *demoFlags) compare(ctx context.Context, cmd *cobra.Command, s service, what loadtest.Comparing) error {
	if err := s.fill(ctx, &what, f.mode); err != nil {
		return err
	}
	if f.strict {
		if err := allAvailable(what); err != nil {
			return err
		}
	}
	progress := newProgress(cmd.ErrOrStderr(), f.lang, f.quiet, true)
	what.Progress = progress.step
	c, err := loadtest.Compare(ctx, what)
	progress.clear()
	if err != nil {
		return err
	}
	c.Command = again("demo", f.set)
	if f.output.text() {
		fmt.Fprintln(cmd.OutOrStdout()) // below the notes
	}
	write := func(w io.Writer, form string) error {
		if form == formText {
			return report.WriteTable(w, c, styleFor(w, f.lang, f.noColor))
		}
		return writeComparison(w, form, f.lang, c, secretsIn(f.set, s.token))
	}
	if err := f.output.write(cmd, write); err != nil {
		return err
	}
	if code := c.ExitCode(); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// stackLog keeps what the stack says about itself, for the JSON, and passes it on.
type stackLog struct {
	mu   sync.Mutex
	said []string
}

// to returns the function that the stack logs by, from several goroutines.
func (l *stackLog) to(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) {
		l.mu.Lock()
		defer l.mu.Unlock()
		line := fmt.Sprintf(format, args...)
		l.said = append(l.said, line)
		fmt.Fprintln(w, line)
	}
}

func (l *stackLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.said...)
}
