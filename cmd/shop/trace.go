package main

import (
	"errors"
	"fmt"
	"io"
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
	hold, ttl                 time.Duration
	depth                     int
	rival, stable             bool
	output                    output
}

func newTrace(lang string) *cobra.Command {
	f := traceFlags{lang: lang}
	cmd := &cobra.Command{
		Use:   "trace MODE",
		Short: both("Show the commands of one deduction, in order and timed, from both sides of the wire", "按顺序列出一次扣减的每条命令，以及线路两侧的时间").In(lang),
		Long: both(`Starts private servers (real ones found on PATH, else embedded ones; it says which) and one replica, puts 100 units of a
product in stock, deducts by the mode, and lists what passed between the replica and its servers: when each command was sent,
how long its answer took, when the server itself saw it and how long it worked on it, and what its scripts did inside.`,
			`起几个私有服务器（PATH 上有真实的就用真实的，否则用内嵌的，并说明用了哪一种）和一个副本，给一种商品放 100 件库存，用该模式扣减一次，然后列出副本与服务器之间经过的每条命令：什么时候发出，多久得到应答，服务器自己什么时候看到、处理了多久，以及脚本在里面做了什么。`).In(lang),
		Example: "  shop trace lua-lock\n  shop trace handoff --store sql --lang zh\n  shop trace watchdog --hold 25s --rival\n  shop trace idempotent --key order-4711 -o json",
		Args:    arguments(1, 1),
		RunE:    run(func(cmd *cobra.Command, args []string) error { return runTrace(cmd, &f, args[0]) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.store, "store", "", both("where the count lives, one of the mode's stores in 'shop modes' (default: the first)", "库存放在哪里：'shop modes' 里该模式的某个存储（默认第一个）").In(lang))
	flags.Int64Var(&f.quantity, "quantity", 1, both("how many to deduct, of 100", "扣减几件，共 100 件").In(lang))
	flags.StringVar(&f.key, "key", "trace-1", both("the Idempotency-Key of the request", "请求的 Idempotency-Key").In(lang))
	flags.DurationVar(&f.hold, "hold", 0, both("how long the work takes under the lock, at most 30s: shows renewals; on modes that list hold_ms", "持锁期间的业务耗时，最多 30s，用来看续期；仅限支持 hold_ms 的模式").In(lang))
	flags.IntVar(&f.depth, "depth", -1, both("how often the holder enters its lock again (default: once with --hold, where the lock is reentrant)", "持有者再重入几次（默认：带 --hold 且锁可重入时一次）").In(lang))
	flags.Lookup("depth").DefValue = "0" // -1 means nothing to a user
	flags.BoolVar(&f.rival, "rival", false, both("with --hold: another request waits for the lock meanwhile, and gets it after the release", "配合 --hold：其间另有一个请求等这把锁，释放后轮到它").In(lang))
	flags.DurationVar(&f.ttl, "ttl", 0, both("TTL of the locks, at least 50ms (default: SHOP_LOCK_TTL)", "锁的 TTL，至少 50ms（默认取 SHOP_LOCK_TTL）").In(lang))
	flags.StringVar(&f.backend, "backend", localstack.Auto, both("auto, embedded or local (real servers only, so not for kafka)", "auto、embedded（内嵌）或 local（只用真实服务器，因此不能用于 kafka）").In(lang))
	flags.BoolVar(&f.stable, "stable", false, both("text: only the commands, with <words> in place of what differs from run to run", "文本格式：只列命令，每次运行都不同的内容写成 <词>").In(lang))
	f.output.add(cmd, lang, formText, formJSON)
	addLang(flags, &f.lang)
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
		return trace.Deduction{}, usage(both("--quantity %d: want 1 to %d", "--quantity %d：应为 1 到 %d"), f.quantity, trace.Stock)
	case f.stable && f.output.form != formText:
		return trace.Deduction{}, usage(both("--stable goes with the text, not with --output %s", "--stable 用于文本格式，不能与 --output %s 同用"), f.output.form)
	case f.key == "":
		return trace.Deduction{}, usage(both("--key is empty", "--key 为空"))
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
		return trace.Deduction{}, usage(both("--store %s: the stores of %s are %q", "--store %s：%s 的存储有 %q"), f.store, name, d.Mode.Stores)
	}
	if f.backend == localstack.Local && slices.Contains(d.Mode.Needs, stock.NeedKafka) {
		return trace.Deduction{}, usage(both("--backend local: %s needs Kafka, and the broker of this command is an embedded one", "--backend local：%s 需要 Kafka，而这个命令的 broker 是内嵌的"), name)
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
		return usage(both("--rival needs --hold: how long the first one holds the lock", "--rival 须与 --hold 同用：先来的那个请求持锁多久"))
	case f.ttl != 0 && (f.ttl < 50*time.Millisecond || f.ttl > time.Minute):
		return usage(both("--ttl %s: want 50ms to 1m", "--ttl %s：应为 50ms 到 1m"), f.ttl)
	}
	req := stock.Request{Items: []stock.Item{{ProductID: 1, Quantity: 1}}, Hold: d.Hold}
	if err := errors.Join(req.Check(), d.Mode.CheckHold(d.Hold)); err != nil {
		return misuse(err)
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
		return &exitError{code: exitInterrupted, err: both("interrupted before the trace was complete", "命令还没列完就被中断").Errorf()}
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
	return f.output.write(cmd, func(w io.Writer, form string) error {
		switch {
		case form == formJSON:
			return writeIndented(w, t.JSON(tr))
		case f.stable:
			return tr.WriteStable(w)
		}
		return t.WriteTable(w, tr, f.lang)
	})
}

// tracing are the options of a tracer of modes; ttl is of the locks, 0 = the default.
func tracing(lang string, modes []stock.Mode, backendKind string, log func(string, ...any), ttl time.Duration) trace.Options {
	return trace.Options{Modes: modes, Backend: backendKind, Log: log, TTL: ttl, Lang: lang, Advice: adviser(lang, "trace", backendKind, false)}
}
