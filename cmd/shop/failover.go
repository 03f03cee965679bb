package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/contract/api"
	"lastitem/internal/cli"
	"lastitem/loadtest"
	"lastitem/loadtest/compare"
	"lastitem/loadtest/failover"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/engine"
)

// failoverFlags are the flags of 'shop failover'.
type failoverFlags struct {
	engine     string
	modes      []string
	strikes    []string
	rate       float64
	lag        time.Duration
	semiSync   bool
	thresholds []string
	lang       string
	output     cli.Output
}

// failoverModes are the modes that an engine's failover is shown with: those whose count or key is there, and one that
// is not touched.
var failoverModes = map[string][]string{
	engine.Cluster:    {"redis-lua", "idempotent", "sql-atomic"},
	engine.Sentinel:   {"redis-lua", "idempotent", "sql-atomic"},
	engine.Replicated: {"sql-atomic", "idempotent", "sql-for-update"},
	engine.Galera:     {"sql-atomic", "idempotent", "sql-for-update"},
}

// newFailover strikes a database server under load.
func newFailover(lang string) *cobra.Command {
	f := failoverFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "failover ENGINE",
		Short: text.Of("Strike the database server that matters under load, and say what the failover cost").In(lang),
		Long: text.Of(`Starts private servers of which one takes over when another fails, and two replicas of the shop.
It sells by each mode, strikes the server that has the stock, goes on until eight seconds after another server has taken
over, and has the audit judge each product.

  cluster     Redis Cluster of three masters, each with a replica; the master of the products is struck
  sentinel    a Redis master, two replicas, three sentinels; the master is struck
  replicated  a MariaDB primary and its replica, semi-synchronous, behind a proxy; the primary is struck, and this
              command promotes the replica: the relay log is applied, then the proxy leads to it
  galera      two MariaDB nodes and an arbitrator behind a proxy; the node that is written is struck, and the proxy
              leads to the other one when it has the quorum

A strike is one of
  kill        SIGKILL; the replicas never get what was on its way to them
  stop        SIGSTOP, and SIGCONT five seconds after the takeover: the old master comes back
  cut         nothing reaches the server any more, from the shop or its replicas, until five seconds after the takeover;
              for sentinel and replicated; the nodes of the others dial each other directly

The columns: gap is the longest time after the strike between the answers of two sales, by the clock of the clients,
with its error; engine is the part until the takeover, shop is the rest; other products are those whose master was not
struck. declined are answers "not now", which the buyer repeats with the same key. unknown are buyers who never learned
whether they had bought, before and after a look at the ledger. lost are sales that were acknowledged and are gone.
replica lacked is what no replica was seen to have at the strike, at least: 0 does not prove that nothing can be lost.
--lag makes the replicas receive everything later, so that losses are seen where a mode claims them. slow are sales of
more than a second.

It exits with 1 if a mode shows a loss that it does not claim, 3 if a strike proves nothing (no request was under way,
nobody took over) or a server is not installed, and 99 if a --threshold is crossed. Thresholds: gap, engine, shop and
others, with a duration; declined, unknown, unresolved, lost, oversold and slow, with a number.`).In(lang),
		Example: "  shop failover sentinel\n  shop failover cluster --strike kill,stop --threshold 'gap<6s'\n" +
			"  shop failover sentinel --lag 200ms --mode redis-lua\n  shop failover replicated --semi-sync=false --lag 200ms",
		Args:      cli.Arguments(1, 1),
		ValidArgs: engine.Kinds,
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error {
			f.engine = args[0]
			return runFailover(cmd, &f)
		}),
	}
	set := cmd.Flags()
	cli.Flags{
		{"mode", (*cli.List)(&f.modes), nil, text.Of("modes to sell by, each a product of its own (default: redis-lua or " +
			"sql-for-update, idempotent, sql-atomic)")},
		{"strike", (*cli.List)(&f.strikes), []string{engine.Kill}, text.Of("how the server fails, each on servers of its " +
			"own: kill, stop, cut")},
		{"rate", &f.rate, float64(40), text.Of("requests per second and mode")},
		{"lag", &f.lag, nil, text.Of("by how much a replica receives everything later; sentinel and replicated")},
		{"semi-sync", &f.semiSync, true, text.Of("the primary of replicated waits until its replica has a commit")},
		{"threshold", (*cli.Repeated)(&f.thresholds), nil, text.Of("fail with exit code 99 unless it holds for each mode " +
			"and strike, as in 'gap<2s'")},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON, cli.Markdown)
	cli.AddLang(set, &f.lang)
	return cmd
}

// check refuses a command line that makes no sense, before anything is started.
func (f *failoverFlags) check() ([]compare.Bound, error) {
	if err := checkEngine(f.engine); err != nil {
		return nil, err
	}
	switch {
	case len(f.strikes) == 0:
		return nil, cli.Usage(text.Of("--strike names no strike"))
	case !(f.rate > 0):
		return nil, cli.Usage(text.Of("--rate %v: want more than 0"), f.rate)
	case f.lag < 0 || f.lag > maxRTT:
		return nil, cli.Usage(text.Of("--lag %v: want 0 to %v"), f.lag, maxRTT)
	case !f.semiSync && f.engine != engine.Replicated:
		return nil, cli.Usage(text.Of("--semi-sync=false: only a primary of %s waits for its replica"), engine.Replicated)
	case f.lag > 0 && !slices.Contains(engine.Strikes(f.engine), engine.Cut):
		return nil, cli.Usage(text.Of("--lag: the nodes of %s dial each other directly"), f.engine)
	}
	for _, how := range f.strikes {
		if can := engine.Strikes(f.engine); !slices.Contains(can, how) {
			return nil, cli.Usage(text.Of("--strike %s: %s can be struck by %s"), how, f.engine, strings.Join(can, ", "))
		}
	}
	if len(f.modes) == 0 {
		f.modes = failoverModes[f.engine]
	}
	var thresholds []compare.Bound
	for _, said := range f.thresholds {
		t, err := failover.ParseThreshold(said)
		if err != nil {
			return nil, cli.Usage(text.Of("--threshold: %w"), err)
		}
		thresholds = append(thresholds, t)
	}
	return thresholds, nil
}

func runFailover(cmd *cobra.Command, f *failoverFlags) error {
	thresholds, err := f.check()
	if err != nil {
		return err
	}
	f.lang = f.output.Language(cmd, f.lang)
	if err := engine.Installed(f.engine); err != nil {
		return &cli.Error{Code: exitInconclusive, Err: err}
	}
	defer announceEnd(cmd, f.lang)()
	r := failover.Result{Date: time.Now().UTC(), Machine: machine(), Version: version(), Rate: f.rate}
	for _, how := range f.strikes {
		s, err := f.strike(cmd, how)
		if err != nil {
			return err
		}
		r.Strikes = append(r.Strikes, s)
	}
	r.Check(thresholds)
	err = f.output.Write(cmd, func(w io.Writer, form string) error {
		switch form {
		case cli.JSON:
			return cli.WriteJSON(w, r)
		case cli.Markdown:
			return writeMarkdownRows(w, append([][]string{failover.Columns(f.lang)}, r.Rows(f.lang)...))
		}
		return r.WriteText(w, f.lang)
	})
	if err != nil {
		return err
	}
	return cli.EndWith(r.ExitCode())
}

// machine names the machine and says how busy it is.
func machine() string {
	said := fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		said += ", load average " + strings.Fields(string(load))[0]
	}
	return said
}

const (
	beforeStrike = 5 * time.Second // of load
	untilResumed = 5 * time.Second // after the takeover
	afterResumed = 3 * time.Second
	// takeoverWithin is how long a takeover may take. It includes what a busy machine adds.
	takeoverWithin = time.Minute
	// struckReplicas is how many replicas of the shop there are.
	struckReplicas = 2
)

// strike starts an engine and the shop on it, and strikes once under load.
func (f *failoverFlags) strike(cmd *cobra.Command, how string) (s failover.Strike, err error) {
	say := new(stackLog).to(cmd.ErrOrStderr())
	ctx := cmd.Context()
	e, err := engine.Start(ctx, f.engine, engine.Options{Lag: f.lag, Async: !f.semiSync, Cut: how == engine.Cut,
		Log: inLanguage(f.lang, say)})
	if err != nil {
		return s, err
	}
	defer func() { err = closed(err, e.Close()) }()
	s = failover.Strike{Engine: f.engine, How: how}
	o := stack.Options{Replicas: struckReplicas, Backend: stack.Local, Extras: []string{}, Redis: e.Redis, SQL: e.SQL,
		Log: say, Lang: f.lang}
	err = onOwnStack(ctx, o, func(ctx context.Context, running *stack.Stack) error {
		l := struckLoad{failoverFlags: f, e: e, s: &s, say: say, enough: make(chan struct{})}
		return l.run(ctx, running)
	})
	return s, err
}

// struckLoad is a load during which a server is struck.
type struckLoad struct {
	*failoverFlags
	e      *engine.Engine
	s      *failover.Strike
	say    func(format string, args ...any)
	enough chan struct{}
}

// run sells by every mode, strikes, waits for the takeover, and judges.
func (l *struckLoad) run(ctx context.Context, running *stack.Stack) error {
	control, err := loadtest.NewControl(running.URL, running.Token)
	if err != nil {
		return err
	}
	defer control.Close()
	control.Replicas, control.Lang = struckReplicas, l.lang
	modes, missing, err := control.Named(ctx, l.modes)
	if err != nil {
		return err
	}
	if missing != "" {
		return cli.Usage(noSuchMode, missing)
	}
	if !slices.ContainsFunc(modes, l.uses) {
		return cli.Usage(text.Of("--mode %s: no mode that uses %s"), strings.Join(l.modes, ","), l.engine)
	}
	loads, plans, spared, err := l.plans(ctx, modes)
	if err != nil {
		return err
	}
	if err := l.e.Prepare(ctx); err != nil {
		return err
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	var results []loadtest.Result
	var errs []error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		results, errs = loadtest.Together(load, control, loads, plans)
	}()
	struck := l.strikeUnder(ctx, ended)
	if struck != nil {
		stop()
	} else {
		close(l.enough)
	}
	<-ended
	if err := errors.Join(append(errs, struck)...); err != nil {
		return err
	}
	l.judge(modes, spared, results)
	return nil
}

// uses says whether a mode has its stock, its locks or its keys on the engine.
func (l *struckLoad) uses(m api.Mode) bool {
	if l.e.Redis != "" {
		return slices.Contains(m.Needs, stack.Redis) || slices.Contains(m.Stores, api.Redis)
	}
	return slices.Contains(m.Stores, api.SQL)
}

// plans returns the load: for each mode a product on the struck server and, where its count may be on another one, a
// product there, which spared has by the mode's index.
func (l *struckLoad) plans(ctx context.Context, modes []api.Mode) (loads []api.Mode, plans []plan.Plan,
	spared map[int]int, err error) {
	next := int64(9101)
	product := func(struck bool) (int64, error) {
		for {
			id := next
			next++
			if on, err := l.e.Struck(ctx, id); err != nil || on == struck {
				return id, err
			}
		}
	}
	add := func(m api.Mode, struck bool) error {
		id, err := product(struck)
		p := plan.Plan{
			Rate: l.rate, Duration: 5 * time.Minute, Stop: l.enough, Product: id, Products: 1, Quantity: 1,
			Seed: uint64(id), Stock: int64(l.rate * 600), Wait: 3 * time.Second, Timeout: 30 * time.Second,
			MaxInFlight: 4096, Engine: "raw",
		}
		if l.e.SQL != "" && slices.Contains(m.Stores, api.SQL) {
			p.Store = api.SQL
		}
		if p.Retry = 20; plan.Fits(m, p) != nil {
			p.Retry = 0 // it keeps no keys
		}
		loads, plans = append(loads, m), append(plans, p)
		return errors.Join(err, plan.Fits(m, p))
	}
	for _, m := range modes {
		err = errors.Join(err, add(m, true))
	}
	spared = map[int]int{}
	for i, m := range modes {
		if l.engine == engine.Cluster && plans[i].StoreOf(m) == api.Redis {
			spared[i] = len(loads)
			err = errors.Join(err, add(m, false))
		}
	}
	return loads, plans, spared, err
}

// strikeUnder strikes after some load, and returns when the load was long enough. ended is closed when the load is
// over.
func (l *struckLoad) strikeUnder(ctx context.Context, ended <-chan struct{}) (err error) {
	pause := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ended:
			l.s.Vacuous = text.Of("the load ended before its time").In(l.lang)
		case <-ctx.Done():
		}
		return false
	}
	if !pause(beforeStrike) {
		return ctx.Err()
	}
	if l.s.At, l.s.Lacked, err = l.e.Strike(ctx, l.s.How); err != nil {
		return err
	}
	l.s.Unit = l.e.Unit
	l.say(text.Of("%s: struck").In(l.lang), l.s.How)
	within, cancel := context.WithTimeout(ctx, takeoverWithin)
	defer cancel()
	err = l.e.Takeover(within)
	l.s.Took = time.Since(l.s.At)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		l.s.Vacuous = text.Of("no server took over: %s").With(err).In(l.lang)
	default:
		l.say(text.Of("another server took over after %.1f s").In(l.lang), l.s.Took.Seconds())
	}
	if !pause(untilResumed) {
		return ctx.Err()
	}
	if err := l.e.Resume(l.s.How); err != nil {
		return err
	}
	pause(afterResumed)
	return ctx.Err()
}

// judge fills in the modes of the strike.
func (l *struckLoad) judge(modes []api.Mode, spared map[int]int, results []loadtest.Result) {
	inFlight := false
	for i, m := range modes {
		inFlight = inFlight || l.uses(m) && failover.InFlight(results[i], *l.s)
		var others *loadtest.Result
		if j, ok := spared[i]; ok {
			others = &results[j]
		}
		losable := l.engine == engine.Replicated && !l.semiSync
		l.s.Modes = append(l.s.Modes, failover.Judge(m, results[i], others, *l.s, losable, l.lang))
	}
	if l.s.Vacuous == "" && !inFlight {
		l.s.Vacuous = text.Of("no request was under way between the strike and the takeover").In(l.lang)
	}
}
