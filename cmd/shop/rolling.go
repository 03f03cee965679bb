package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/stack"
)

// rollingFlags are the flags of 'shop rolling'.
type rollingFlags struct {
	old     string
	new     string
	url     string
	modes   []string
	rate    float64
	length  time.Duration
	backend string
	lang    string
	output  cli.Output
}

// rolledReplicas is how many replicas a stack has that is rolled.
const rolledReplicas = 3

// replacedText is the note on a replica that was replaced.
var replacedText = text.Of("replica %d replaced in %.1f s, pid %d")

// newRolling is the proof that a deploy loses nothing: make rolling.
func newRolling(lang string) *cobra.Command {
	f := rollingFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "rolling [flags] [-- COMMAND...]",
		Short: text.Of("Replace the replicas one after the other under load, and check that no request was lost").In(lang),
		Long: text.Of(`Starts a stack whose three replicas run --old, sends it requests, and replaces one replica after the
other by --new, over the same data. It fails if a request failed or its outcome is unknown, if the audit finds stock or
orders wrong, or if the load ended before the last replica was replaced. With --url it sends the load to a stack of
three replicas that COMMAND replaces meanwhile; without a COMMAND it only sends the load.`).In(lang),
		Example: "  shop rolling --old /tmp/shop-of-yesterday\n  shop rolling --url http://localhost:8080 -- " +
			"scripts/compose roll",
		Args: cli.Arguments(0, math.MaxInt),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error { return runRolling(cmd, &f, args) }),
	}
	set := cmd.Flags()
	set.SetInterspersed(false) // what follows COMMAND is COMMAND's
	cli.Flags{
		{"old", &f.old, nil, text.Of("the binary to begin with (default: this one)")},
		{"new", &f.new, nil, text.Of("the binary to end with (default: this one)")},
		{"url", &f.url, nil, text.Of("send the load there, with the token in SHOP_ADMIN_TOKEN")},
		{"mode", (*cli.List)(&f.modes), []string{"lease-seq", "idempotent", "redis-lua"},
			text.Of("modes to sell by, each a product of its own")},
		{"rate", &f.rate, float64(40), text.Of("requests per second and mode")},
		{"duration", &f.length, 10 * time.Minute, text.Of("how long the load lasts at most; it ends when the " +
			"replicas are replaced")},
		{"backend", &f.backend, stack.Auto, backendHelp},
	}.Add(set, lang)
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

// check refuses flags that make no load, or another one than they say: a plan takes 0 for its default.
func (f *rollingFlags) check() error {
	switch {
	case len(f.modes) == 0:
		return cli.Usage(text.Of("--mode names no mode"))
	case !(f.rate > 0):
		return cli.Usage(text.Of("--rate %v: want more than 0"), f.rate)
	case f.length <= 0:
		return cli.Usage(text.Of("--duration %v: want more than 0"), f.length)
	}
	return checkBackendFlag(f.backend)
}

func runRolling(cmd *cobra.Command, f *rollingFlags, argv []string) error {
	if err := f.check(); err != nil {
		return err
	}
	f.lang = f.output.Language(cmd, f.lang)
	say := new(stackLog).to(cmd.ErrOrStderr())
	switch {
	case f.url == "" && len(argv) > 0:
		return cli.Usage(text.Of("a COMMAND to replace the replicas wants --url, where they are"))
	case f.url != "" && len(argv) > 0:
		return f.during(cmd, f.url, adminToken(), func(ctx context.Context) error { return replaceBy(ctx, cmd, argv) })
	case f.url != "":
		return f.report(cmd, f.load(cmd.Context(), nil, f.url, adminToken()))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.old, f.new = cmp.Or(f.old, self), cmp.Or(f.new, self)
	running, err := stack.Start(cmd.Context(), stack.Options{
		Replicas: rolledReplicas, Backend: f.backend, Replica: f.old, Only: []string{}, Log: say, Env: drainEnv(),
		Lang: f.lang,
	})
	if err != nil {
		return err
	}
	return closed(f.during(cmd, running.URL, running.Token, func(ctx context.Context) error {
		for i := range running.Replicas {
			start := time.Now()
			if err := running.Roll(ctx, i, f.new); err != nil {
				return err
			}
			say(replacedText.In(f.lang), i+1, time.Since(start).Seconds(), running.PID(fmt.Sprintf("replica %d", i+1)))
		}
		return nil
	}), running.Close())
}

// replaceBy runs the command that replaces the replicas.
func replaceBy(ctx context.Context, cmd *cobra.Command, argv []string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdout, c.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// around is for how long the load goes on before the first replica is replaced, and after the last.
const around = 2 * time.Second

// during sends the load while the replicas are replaced.
func (f *rollingFlags) during(cmd *cobra.Command, url, token string, replace func(context.Context) error) error {
	ctx, interrupt := context.WithCancel(cmd.Context())
	defer interrupt()
	enough, done := make(chan struct{}), make(chan rolled, 1)
	go func() { done <- f.load(ctx, enough, url, token) }()
	early := func(wait time.Duration) error {
		select {
		case r := <-done:
			r.unreplaced = vacuous(text.Of("the load ended before the last replica was replaced; use a longer --duration"))
			return f.report(cmd, r)
		case <-time.After(wait):
			return nil
		}
	}
	if err := early(around); err != nil {
		return err
	}
	if err := replace(ctx); err != nil {
		interrupt()
		r := <-done
		r.unreplaced = err
		reported := f.report(cmd, r)
		if errors.Is(reported, err) || cmd.Context().Err() != nil {
			return reported
		}
		return errors.Join(err, reported)
	}
	if err := early(around); err != nil {
		return err
	}
	close(enough)
	r := <-done
	r.everyReplica = true
	return f.report(cmd, r)
}

// vacuous is the error of a run that could not have shown a failure.
func vacuous(why text.Text, args ...any) error {
	return cli.Ended(exitInconclusive, text.Of("VACUOUS: %w"), why.Errorf(args...))
}

// noSuchMode is the error of a mode that cannot be sold by.
var noSuchMode = text.Of("--mode %s: there is none, or it is not available here")

// load sells by every mode at once until enough is closed.
func (f *rollingFlags) load(ctx context.Context, enough <-chan struct{}, url, token string) rolled {
	control, err := loadtest.NewControl(url, token)
	if err != nil {
		return rolled{err: err}
	}
	defer control.Close()
	control.Lang = f.lang
	modes, missing, err := control.Named(ctx, f.modes)
	if err != nil {
		return rolled{err: err}
	}
	if missing != "" {
		return rolled{err: cli.Usage(noSuchMode, missing)}
	}
	plans := make([]plan.Plan, len(modes))
	for i := range modes {
		plans[i] = plan.Plan{
			Rate: f.rate, Duration: f.length, Stop: enough, Product: 9101 + int64(i), Products: 1, Quantity: 1,
			Seed:  uint64(i) + 1,
			Stock: 10 * int64(f.rate*f.length.Seconds()), Wait: 10 * time.Second, Timeout: 30 * time.Second, Engine: "raw",
		}
	}
	out := rolled{RollingResult: loadtest.RollingResult{Served: map[string]int{}}}
	results, errs := loadtest.Together(ctx, control, modes, plans)
	for i, m := range modes {
		out.Modes = append(out.Modes, loadtest.JudgeRolling(m.Name, results[i], errs[i], f.lang))
	}
	for _, r := range results {
		for replica, n := range r.Served {
			out.Served[replica] += n
		}
	}
	return out
}

// rolled is the result of the load, with what only the command checks.
type rolled struct {
	loadtest.RollingResult
	everyReplica bool  // all replicas must have served
	unreplaced   error // why not every replica was replaced under the load
	err          error // the load did not begin
}

var interruptedText = text.Of("interrupted")

// report writes the result, and returns an error if anything was lost.
func (f *rollingFlags) report(cmd *cobra.Command, r rolled) error {
	interrupted := cmd.Context().Err() != nil
	switch {
	case r.err != nil && interrupted:
		return cli.Ended(cli.ExitInterrupted, interruptedText)
	case r.err != nil:
		return r.err
	}
	err := cmp.Or(r.Lost(), r.unreplaced)
	if err == nil && r.everyReplica && len(r.Served) != rolledReplicas {
		err = vacuous(text.Of("the requests were served by %s, want every replica"), r.Servers())
	}
	if interrupted { // what it cut short is no finding
		err = cli.Ended(cli.ExitInterrupted, interruptedText)
	}
	if r.Exact = err == nil; !r.Exact {
		r.Why = text.ErrorIn(f.lang, err)
	}
	return errors.Join(err, f.output.Write(cmd, func(w io.Writer, form string) error {
		if form == cli.JSON {
			return cli.WriteJSON(w, r.RollingResult)
		}
		return r.WriteText(w, f.lang)
	}))
}
