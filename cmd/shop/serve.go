package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"lastitem/internal/backend"
	"lastitem/internal/handler"
	"lastitem/internal/idempotency"
	"lastitem/internal/kafkalog"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/server"
	modeshop "lastitem/internal/shop"
	"lastitem/internal/spans"
	"lastitem/internal/step"
	"lastitem/internal/stock"
)

func newServe(lang string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: both("Run one replica of the shop", "运行服务的一个副本").In(lang),
		Long: both(`Run one replica of the shop, on the backends that its settings name. 'shop up' runs a whole stack.

Each setting is a flag and an environment variable; the flag comes before the variable, and the variable before the default. Other
users of the machine can read a flag's value, so give passwords by variables. SIGTERM and Ctrl-C end the replica with exit code 0,
after the requests in flight.`,
			`运行服务的一个副本，用哪些后端由配置项指定。整套环境用 'shop up'。

每个配置项既是命令行选项，也是环境变量；优先级：命令行选项 > 环境变量 > 默认值。同一台机器上的其他用户看得到命令行选项的值，所以密码请用环境变量给。收到 SIGTERM 或 Ctrl-C 后，处理完在途的请求再以 0 退出。`).In(lang),
		Example: "  SHOP_REDIS=redis://localhost:6379/0 shop serve\n  shop serve --sql sqlite:/tmp/shop.db --listen :9000 --lock-ttl 5s",
		Args:    arguments(0, 0),
	}
	given := givenSettings{}
	given.add(cmd.Flags(), lang)
	section(cmd.Flags(), both("Language", "语言").In(lang), func() { addLang(cmd.Flags(), &lang) })
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		c, err := readConfig(given)
		if err != nil {
			return err
		}
		if err := c.validate(); err != nil {
			return err
		}
		return serve(cmd.Context(), c)
	})
	return cmd
}

// serve runs a replica until ctx ends, then lets the requests in flight finish.
func serve(ctx context.Context, c config) error {
	log := newLogger(c)
	c.log(log)
	redis.SetLogger(redisLog{log}) // its own logger belongs to the whole process, and so does this command
	r, err := newReplica(c, log)
	if err != nil {
		return err
	}
	defer r.close()
	return r.listenAndServe(ctx, c)
}

// replica is what one process of the shop consists of: the handler, and what it stands on, of which there is one each.
type replica struct {
	*handler.Handler
	log     *slog.Logger
	set     *backend.Set
	wakeups *textbook.Wakeups // nil if there is no Redis, as engine is
	engine  *handoff.Engine
	shop    *modeshop.Shop
	spans   *spans.Exporter // nil without a collector

	closing []closer // the locks on other services
}

type closer struct {
	what  string
	close func() error
}

// newReplica opens everything. Close it when no request is left.
func newReplica(c config, log *slog.Logger) (*replica, error) {
	set, err := backend.Open(c.backends(log))
	if err != nil {
		return nil, err
	}
	r := &replica{log: log, set: set}
	if err := r.build(c); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *replica) build(c config) (err error) {
	registry, steps := prometheus.NewRegistry(), &step.Stream{}
	if err := errors.Join(registry.Register(buildInfo(c)), registry.Register(backendsUp{r.set})); err != nil {
		return err
	}
	if r.set.Client != nil {
		r.wakeups = textbook.NewWakeups(r.set.Client)
		if r.engine, err = newEngine(r.set.Client, c, steps, registry, r.log); err != nil {
			return err
		}
	}
	on := modeshop.Backends{
		Redis: r.set.Redis, SQL: r.set.SQL, Etcd: r.set.EtcdStore,
		Lockers:    stock.Lockers{Client: r.set.Client, Prefix: c.Prefix, TTL: c.LockTTL, Wakeups: r.wakeups, Engine: r.engine},
		Kafka:      r.set.Kafka,
		KafkaGroup: kafkalog.Group{Session: c.KafkaSession, Heartbeat: c.KafkaHeartbeat, Rebalance: c.KafkaRebalance},
		Missing:    c.Missing, Check: named(r.set.Check), Down: named(r.set.Down),
	}
	r.serviceLocks(c, &on.Lockers, steps)
	r.shop, err = modeshop.New(on, modeshop.Options{
		Replica: c.Replica, Steps: steps, Log: r.log, Work: c.WorkTimeout, Settle: c.SettleTimeout,
		KeepKeys: idempotency.Retention(c.KeepKeys), Gauge: gauges(registry),
	}, stock.Modes())
	if err != nil {
		return err
	}
	if _, err := r.shop.Mode(c.DefaultMode); err != nil {
		return usage(both("%s is %q, want a mode that 'shop modes' lists", "%s 为 %q，应为 'shop modes' 列出的模式"), c.name("SHOP_DEFAULT_MODE"), c.DefaultMode)
	}
	var answered func(step.Answered) // nil: a typed nil would be called
	if r.spans, err = newSpans(c, steps, registry, r.log); err != nil {
		return err
	}
	if r.spans != nil {
		answered = r.spans.Answered
	}
	r.Handler, err = handler.New(handler.Options{
		Answered: answered,
		Shop:     r.shop, Steps: steps, Replica: c.Replica, DefaultMode: c.DefaultMode, Registry: registry,
		AdminToken: c.Token, ProtectReads: c.ProtectReads, Events: c.Events, Hosts: c.servedHosts(),
		Ready: func(exclude []string) error { return r.set.Ready(exclude...) }, PoolStats: poolStats(r.set), Log: r.log,
	})
	return err
}

// close closes what was opened, the locks before the clients under them.
func (r *replica) close() {
	closeLogged(r.log, "traces", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), spansGrace)
		defer cancel()
		return r.spans.Close(ctx)
	})
	if r.shop != nil {
		closeLogged(r.log, "modes", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), settleGrace)
			defer cancel()
			return r.shop.Close(ctx)
		})
	}
	for _, c := range r.closing {
		closeLogged(r.log, c.what, c.close)
	}
	if r.engine != nil {
		closeLogged(r.log, "lock engine", func() error { return closeEngine(r.engine) })
	}
	if r.wakeups != nil {
		closeLogged(r.log, "wakeups", r.wakeups.Close)
	}
	closeLogged(r.log, "backends", r.set.Close)
}

// redisLog takes what go-redis says by itself, such as each failed dial; what matters of it comes back as an error too.
type redisLog struct{ log *slog.Logger }

// Printf logs at level debug.
func (r redisLog) Printf(ctx context.Context, format string, args ...any) {
	r.log.DebugContext(ctx, "go-redis", "said", fmt.Sprintf(format, args...))
}

func closeLogged(log *slog.Logger, what string, closing func() error) {
	if err := closing(); err != nil {
		log.Warn("close", "what", what, "err", err)
	}
}

// writeTimeout ends a request together with its connection, from the last byte of the header to the last of the answer: wait_ms may be
// 30 s, and what has begun to write goes on for ten. A reader that does not take its answer is cut off by the handler well before.
const writeTimeout = 90 * time.Second

func (r *replica) listenAndServe(ctx context.Context, c config) error {
	r.migrateFirst(ctx)
	l, err := server.Listen(c.Listen)
	if err != nil {
		return both("listen on %s: %w (choose another with --listen or SHOP_LISTEN)", "监听 %s：%w（用 --listen 或 SHOP_LISTEN 换一个地址）").Errorf(c.Listen, err)
	}
	r.log.Info("listening", "on", l.Addr().String())
	go migrateUntilDone(ctx, r.log, r.set)
	base, cut := context.WithCancel(context.Background())
	defer cut()
	srv := &http.Server{
		BaseContext:       func(net.Listener) context.Context { return base },
		Handler:           r,
		ConnState:         l.State,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       120 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(server.Problems(l, c.Replica)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	r.Drain()
	return server.Drainer{Server: srv, Listener: l, Cut: cut, Log: r.log}.Drain(c.Drain)
}

// named asks about a backend by the name that the set has for it.
func named(ask func(string) error) func(stock.Backend) error {
	return func(b stock.Backend) error {
		if b == stock.NeedMySQL {
			b = stock.NeedSQL
		}
		return ask(string(b))
	}
}

// firstMigration is how long a replica waits for its tables before it listens.
const firstMigration = 20 * time.Second

// migrateFirst brings the tables up to date before the replica listens: a balancer without health checks sends it requests from then
// on, and in a rolling deploy they would meet the tables of the version before. A database that is away is waited for by
// migrateUntilDone, which also says what is wrong.
func (r *replica) migrateFirst(ctx context.Context) {
	if r.set.DB == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstMigration)
	defer cancel()
	_, _ = backend.Migrate(ctx, r.set.DB)
}

// migrateUntilDone brings the tables up to date, however long the database takes to come up; until then the replica is
// not ready.
func migrateUntilDone(ctx context.Context, log *slog.Logger, set *backend.Set) {
	if set.DB == nil {
		return
	}
	var last string
	for {
		applied, err := backend.Migrate(ctx, set.DB)
		switch {
		case err == nil:
			log.Info("tables up to date", "applied", applied)
			return
		case errors.Is(err, backend.ErrForeignTables):
			log.Error("migrate", "err", err)
			return
		}
		if why := err.Error(); why != last {
			log.Warn("migrate: trying again every second", "err", err)
			last = why
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
