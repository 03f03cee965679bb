package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
)

// traceFlags are the flags of 'shop trace'.
type traceFlags struct {
	store, key, lang, backend string
	quantity                  int64
	stable, json              bool
}

func newTrace() *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace MODE",
		Short: "Show the commands of one deduction, in order and timed, from both sides of the wire",
		Long: `Starts private servers (real ones found on PATH, else embedded ones; it says which) and one replica, puts 100 units of a
product in stock, deducts by the mode, and lists what passed between the replica and its servers: when each command was sent,
how long its answer took, when the server itself saw it and how long it worked on it, and what its scripts did inside.`,
		Example: "  shop trace lua-lock\n  shop trace handoff --store sql --lang zh\n  shop trace idempotent --key order-4711 --json",
		Args:    arguments(1, 1),
		RunE:    run(func(cmd *cobra.Command, args []string) error { return runTrace(cmd, f, args[0]) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.store, "store", "", "where the count lives, one of the mode's stores in 'shop modes' (default: the first)")
	flags.Int64Var(&f.quantity, "quantity", 1, "how many to deduct, of 100")
	flags.StringVar(&f.key, "key", "trace-1", "the Idempotency-Key of the request")
	flags.StringVar(&f.lang, "lang", "en", "language: en or zh")
	flags.StringVar(&f.backend, "backend", localstack.Auto, "auto, embedded or local (real servers only, so not for kafka)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVar(&f.stable, "stable", false, "print the commands alone, and <words> for what differs from run to run")
	cmd.MarkFlagsMutuallyExclusive("json", "stable")
	return cmd
}

// deduction checks the command line and says what is to be traced.
func (f traceFlags) deduction(name string) (deduction, error) {
	modes := stock.Modes()
	i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == name })
	switch {
	case i < 0:
		return deduction{}, noMode(name)
	case f.quantity < 1 || f.quantity > traceStock:
		return deduction{}, usage("--quantity %d: want 1 to %d", f.quantity, traceStock)
	case f.key == "":
		return deduction{}, usage("--key is empty")
	}
	if err := checkBackendFlag(f.backend); err != nil {
		return deduction{}, err
	}
	d := deduction{mode: modes[i], quantity: f.quantity, key: f.key, store: stock.Store(f.store)}
	if len(d.mode.Stores) > 0 && d.store == "" {
		d.store = d.mode.Stores[0]
	}
	if d.store != "" && !slices.Contains(d.mode.Stores, d.store) {
		return deduction{}, usage("--store %s: the stores of %s are %q", f.store, name, d.mode.Stores)
	}
	if f.backend == localstack.Local && slices.Contains(d.mode.Needs, stock.NeedKafka) {
		return deduction{}, usage("--backend local: %s needs Kafka, and the broker of this command is an embedded one", name)
	}
	return d, checkLang(f.lang)
}

func runTrace(cmd *cobra.Command, f traceFlags, name string) error {
	d, err := f.deduction(name)
	if err != nil {
		return err
	}
	err = traceOnce(cmd, f, d)
	if err != nil && cmd.Context().Err() != nil {
		return &exitError{code: exitInterrupted, err: errors.New("interrupted before the trace was complete")}
	}
	return err
}

// traceOnce starts the servers, traces, and prints.
func traceOnce(cmd *cobra.Command, f traceFlags, d deduction) error {
	var log stackLog // told with an error only: the table names the servers
	t, err := newTracer(cmd.Context(), []stock.Mode{d.mode}, f.backend, log.to(io.Discard))
	if err != nil {
		for _, line := range log.lines() {
			err = fmt.Errorf("%w\n%s", err, line)
		}
		return err
	}
	defer t.close()
	tr, err := t.deduct(cmd.Context(), d)
	if err != nil {
		return err
	}
	switch w := cmd.OutOrStdout(); {
	case f.json:
		return printTraceJSON(w, t, tr)
	case f.stable:
		return printStable(w, tr)
	default:
		return printTrace(w, t, tr, f.lang)
	}
}
