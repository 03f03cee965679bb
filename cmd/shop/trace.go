package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lastitem/faultlab/trace"
	"lastitem/internal/cli"
	"lastitem/internal/stock"
	"lastitem/say/text"
	"lastitem/stack"
)

// traceFlags are the flags of 'shop trace'.
type traceFlags struct {
	store, key, lang, backend string
	quantity                  int64
	hold, ttl                 time.Duration
	depth                     int
	rival, stable             bool
	output                    cli.Output
}

func newTrace(lang string) *cobra.Command {
	f := traceFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "trace MODE",
		Short: text.Of("Show the commands of one deduction, in order and timed, from both sides of the wire").In(lang),
		Long: text.Of(`Starts private servers (real ones found on PATH, else embedded ones; it says which) and one replica,
puts 100 units of a product in stock, deducts by the mode, and lists what passed between the replica and its servers:
when each command was sent, how long its answer took, when the server itself saw it and how long it worked on it, and
what its scripts did inside. Kafka is not seen: the steps of the deduction stand in its place.`).In(lang),
		Example: "  shop trace lua-lock\n  shop trace handoff --store sql --lang zh\n  shop trace watchdog --hold 25s " +
			"--rival\n  shop trace idempotent --key order-4711 -o json",
		Args: cli.Arguments(1, 1),
		RunE: cli.Run(func(cmd *cobra.Command, args []string) error { return runTrace(cmd, &f, args[0]) }),
	}
	set := cmd.Flags()
	cli.Flags{
		{"store", &f.store, nil, text.Of("where the count lives, one of the mode's stores in 'shop modes' " +
			"(default: the first)")},
		{"quantity", &f.quantity, int64(1), text.Of("how many to deduct, of 100")},
		{"key", &f.key, "trace-1", text.Of("the Idempotency-Key of the request")},
		{"hold", &f.hold, nil, text.Of("how long the work takes under the lock, at most 30s: shows renewals; " +
			"on modes that list hold_ms")},
		{"depth", &f.depth, -1, text.Of("how often the holder enters its lock again (default: once with --hold, " +
			"where the lock is reentrant)")},
		{"rival", &f.rival, nil, text.Of("with --hold: another request waits for the lock meanwhile, and " +
			"gets it after the release")},
		{"ttl", &f.ttl, nil, text.Of("TTL of the locks, at least 50ms (default: SHOP_LOCK_TTL)")},
		{"backend", &f.backend, stack.Auto, text.Of("auto, embedded or local (real servers only, so not " +
			"for kafka)")},
		{"stable", &f.stable, nil, text.Of("text: only the commands, with <words> in place of what differs " +
			"from run to run")},
	}.Add(set, lang)
	set.Lookup("depth").DefValue = "0" // -1 means nothing to a user
	f.output.Add(cmd, lang, cli.Text, cli.JSON)
	cli.AddLang(set, &f.lang)
	return cmd
}

// deduction checks the command line and says what is to be traced.
func (f *traceFlags) deduction(name string) (trace.Deduction, error) {
	modes := stock.Modes()
	i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == name })
	switch {
	case i < 0:
		return trace.Deduction{}, noMode(name)
	case f.quantity < 1 || f.quantity > trace.Stock:
		return trace.Deduction{}, cli.Usage(text.Of("--quantity %d: want 1 to %d"), f.quantity, trace.Stock)
	case f.stable && f.output.Form != cli.Text:
		return trace.Deduction{}, cli.Usage(text.Of("--stable goes with the text, not with --output %s"), f.output.Form)
	case f.key == "":
		return trace.Deduction{}, cli.Usage(text.Of("--key is empty"))
	}
	if err := checkBackendFlag(f.backend); err != nil {
		return trace.Deduction{}, err
	}
	d := trace.Deduction{Mode: modes[i], Quantity: f.quantity, Key: f.key, Store: stock.Store(f.store), Rival: f.rival}
	if err := f.experiment(&d); err != nil {
		return trace.Deduction{}, err
	}
	if len(d.Mode.Stores) > 0 && d.Store == "" {
		d.Store = d.Mode.Stores[0]
	}
	if d.Store != "" && !slices.Contains(d.Mode.Stores, d.Store) {
		return trace.Deduction{}, cli.Usage(text.Of("--store %s: the stores of %s are %q"), f.store, name, d.Mode.Stores)
	}
	if f.backend == stack.Local && slices.Contains(d.Mode.Needs, stock.NeedKafka) {
		return trace.Deduction{}, cli.Usage(text.Of("--backend local: %s needs Kafka, and the broker of this command is an "+
			"embedded one"), name)
	}
	return d, nil
}

// experiment sets how the lock is to be held.
func (f *traceFlags) experiment(d *trace.Deduction) error {
	d.Hold = stock.Hold{Work: f.hold, Depth: max(0, f.depth)}
	if f.depth < 0 && f.hold > 0 && slices.Contains(d.Mode.Holds, stock.DepthField) {
		d.Hold.Depth = 1
	}
	switch {
	case f.rival && f.hold == 0:
		return cli.Usage(text.Of("--rival needs --hold: how long the first one holds the lock"))
	case f.ttl != 0 && (f.ttl < 50*time.Millisecond || f.ttl > time.Minute):
		return cli.Usage(text.Of("--ttl %s: want 50ms to 1m"), f.ttl)
	}
	req := stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}}, Hold: d.Hold}
	if err := errors.Join(req.Check(), d.Mode.CheckHold(d.Hold)); err != nil {
		return cli.Misuse(err)
	}
	return nil
}

func runTrace(cmd *cobra.Command, f *traceFlags, name string) error {
	d, err := f.deduction(name)
	if err != nil {
		return err
	}
	err = traceOnce(cmd, f, d)
	if err != nil && cmd.Context().Err() != nil {
		return cli.Ended(cli.ExitInterrupted, text.Of("interrupted before the trace was complete"))
	}
	return err
}

// traceOnce starts the servers, traces, and prints.
func traceOnce(cmd *cobra.Command, f *traceFlags, d trace.Deduction) error {
	var log stackLog // told with an error only: the table names the servers
	t, err := trace.New(cmd.Context(), tracing(f.lang, []stock.Mode{d.Mode}, f.backend, log.to(io.Discard), f.ttl))
	if err != nil {
		for _, line := range log.lines() {
			err = fmt.Errorf("%w\n%s", err, line)
		}
		return err
	}
	defer t.Close()
	tr, err := t.Deduct(cmd.Context(), d)
	if err != nil {
		return err
	}
	return f.output.Write(cmd, func(w io.Writer, form string) error {
		switch {
		case form == cli.JSON:
			return cli.WriteJSON(w, t.JSON(tr))
		case f.stable:
			return tr.WriteStable(w)
		}
		return t.WriteTable(w, tr, f.lang)
	})
}

// tracing are the options of a tracer of modes; ttl is of the locks, 0 = the default.
func tracing(lang string, modes []stock.Mode, backendKind string, log func(string, ...any),
	ttl time.Duration) trace.Options {
	return trace.Options{Modes: modes, Backend: backendKind, Log: log, TTL: ttl, Lang: lang,
		Advice: adviser(lang, "trace", backendKind, false)}
}
