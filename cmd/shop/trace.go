package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/trace"
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
func (f traceFlags) deduction(name string) (trace.Deduction, error) {
	modes := stock.Modes()
	i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == name })
	switch {
	case i < 0:
		return trace.Deduction{}, noMode(name)
	case f.quantity < 1 || f.quantity > trace.Stock:
		return trace.Deduction{}, usage("--quantity %d: want 1 to %d", f.quantity, trace.Stock)
	case f.key == "":
		return trace.Deduction{}, usage("--key is empty")
	}
	if err := checkBackendFlag(f.backend); err != nil {
		return trace.Deduction{}, err
	}
	d := trace.Deduction{Mode: modes[i], Quantity: f.quantity, Key: f.key, Store: stock.Store(f.store)}
	if len(d.Mode.Stores) > 0 && d.Store == "" {
		d.Store = d.Mode.Stores[0]
	}
	if d.Store != "" && !slices.Contains(d.Mode.Stores, d.Store) {
		return trace.Deduction{}, usage("--store %s: the stores of %s are %q", f.store, name, d.Mode.Stores)
	}
	if f.backend == localstack.Local && slices.Contains(d.Mode.Needs, stock.NeedKafka) {
		return trace.Deduction{}, usage("--backend local: %s needs Kafka, and the broker of this command is an embedded one", name)
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
func traceOnce(cmd *cobra.Command, f traceFlags, d trace.Deduction) error {
	var log stackLog // told with an error only: the table names the servers
	t, err := trace.New(cmd.Context(), tracing([]stock.Mode{d.Mode}, f.backend, log.to(io.Discard)))
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
	switch w := cmd.OutOrStdout(); {
	case f.json:
		return t.WriteJSON(w, tr)
	case f.stable:
		return tr.WriteStable(w)
	default:
		return t.WriteTable(w, tr, f.lang)
	}
}

// tracing are the options of a tracer of modes, whose replica is composed as that of 'shop serve'.
func tracing(modes []stock.Mode, backendKind string, log func(string, ...any)) trace.Options {
	return trace.Options{Modes: modes, Backend: backendKind, Log: log, Advice: adviser("trace", backendKind, false), Start: startTraced}
}

func startTraced(s trace.Servers) (*trace.Replica, error) {
	r, err := newReplica(config{
		Replica: "1", Token: s.Token, DefaultMode: "lease-seq", Prefix: "lastitem:", LockTTL: 10 * time.Second, Conns: 16,
		Redis: s.Redis, SQL: s.SQL, Redlock: s.Redlock, Etcd: s.Etcd, ZooKeeper: s.ZooKeeper, Consul: s.Consul, Kafka: s.Kafka,
		kafkaDial: s.KafkaDial, Missing: s.Missing,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &trace.Replica{Handler: r, Backends: r.set, Shop: r.shop, Close: r.close}, nil
}
