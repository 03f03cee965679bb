// Package replica is one process of the shop: its settings ([Config]), and the replica that they describe ([Replica]),
// which stands on the backends, the lock engine, the modes and the HTTP contract, one of each.
//
// Read the settings with [Read], check them with [Config.Validate], and serve with [Run]. [New] alone makes a replica
// that somebody else serves, as 'shop trace' does. In the sources, start with [New]: it is the list of the parts.
package replica

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lastitem/internal/backend"
	"lastitem/internal/handler"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/shop"
	"lastitem/internal/shop/kafka"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/say/text"
)

// Options is what a replica is made of besides its settings.
type Options struct {
	// Log receives what the replica says. Required.
	Log *slog.Logger
	// Version is that of the program, in the log, in shop_build_info and in traces.
	Version string
}

// Replica is what one process of the shop consists of: the handler, and what it stands on, of which there is one each.
type Replica struct {
	*handler.Handler
	Backends *backend.Set
	Shop     *shop.Shop
	Steps    *step.Stream // of its deductions

	log     *slog.Logger
	wakeups *textbook.Wakeups // nil if there is no Redis, as engine is
	engine  *handoff.Engine
	spans   *Exporter // nil without a collector
	closing []closer  // the locks on other services
}

type closer struct {
	what  string
	close func() error
}

// New opens everything. It does not wait for the backends: until they have answered, the replica is not ready. The
// error of a setting that cannot be right, such as an unknown mode, is a [*SettingsError]. Call Close when no request
// is left.
func New(c Config, o Options) (*Replica, error) {
	set, err := backend.Open(c.backends(o)) // it connects to nothing yet
	if err != nil {
		return nil, &SettingsError{err}
	}
	r := &Replica{Backends: set, Steps: &step.Stream{}, log: o.Log}
	if err := r.build(c, o); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Replica) build(c Config, o Options) (err error) {
	registry, steps := prometheus.NewRegistry(), r.Steps
	if err := errors.Join(registry.Register(buildInfo(c.Replica, o.Version)),
		registry.Register(backendsUp{r.Backends})); err != nil {
		return err
	}
	if r.Backends.Client != nil {
		r.wakeups = textbook.NewWakeups(r.Backends.Client)
		if r.engine, err = r.newEngine(c, steps, registry); err != nil {
			return err
		}
	}
	on := shop.Backends{
		Redis: r.Backends.Redis, SQL: r.Backends.SQL, Etcd: r.Backends.EtcdStore,
		Lockers: stock.Lockers{Client: r.Backends.Client, Prefix: c.Prefix, TTL: c.LockTTL, Wakeups: r.wakeups,
			Engine: r.engine},
		Kafka:      r.Backends.Kafka,
		KafkaGroup: kafka.Group{Session: c.KafkaSession, Heartbeat: c.KafkaHeartbeat, Rebalance: c.KafkaRebalance},
		Missing:    c.Missing,
		Check:      func(b stock.Backend) error { return r.Backends.Check(named(b)) },
		Down:       func(b stock.Backend, products ...int64) error { return r.Backends.Down(named(b), products...) },
		Ask:        func(ctx context.Context, b stock.Backend) error { return r.Backends.Ask(ctx, named(b)) },
	}
	r.serviceLocks(c, &on.Lockers, steps)
	r.Shop, err = shop.New(on, shop.Options{
		Replica: c.Replica, Steps: steps, Log: r.log, Work: c.WorkTimeout, Settle: c.SettleTimeout,
		KeepKeys: idempotency.Retention(c.KeepKeys), Sweep: c.Sweep, KeepReservations: c.KeepReservations,
		Gauge: gauges(registry), Repeated: repeats(registry),
		Tickets: shop.TicketOptions{Off: !c.TicketConsume, Claim: cmp.Or(c.TicketClaim, c.SettleTimeout+5*time.Second),
			Reconcile: c.Reconcile, Repair: c.Repair, Most: c.TicketsMost, Waiters: c.TicketWaiters,
			Replicas: c.TicketReplicas,
			Ended:    ticketEnds(registry)},
	}, stock.Modes())
	if err != nil {
		return err
	}
	if _, err := r.Shop.Mode(c.DefaultMode); err != nil {
		return &SettingsError{text.Of("%s is %q, want a mode that 'shop modes' lists").Errorf(c.name("SHOP_DEFAULT_MODE"),
			c.DefaultMode)}
	}
	var answered func(step.Answered) // nil: a typed nil would be called
	if r.spans, err = newSpans(c, o, steps, registry, func(a step.Answered, id string) {
		r.Traced(a, id)
	}); err != nil {
		return err
	}
	if r.spans != nil {
		answered = r.spans.Answered
	}
	r.Handler, err = handler.New(handler.Options{
		Answered: answered,
		Shop:     r.Shop, Steps: steps, Replica: c.Replica, DefaultMode: c.DefaultMode, Registry: registry,
		AdminToken: c.Token, ProtectReads: c.ProtectReads, Events: c.Events, Hosts: c.servedHosts(),
		Ready:     func(exclude []string) ([]string, error) { return r.Backends.Ready(c.ReadyNeeds, exclude) },
		PoolStats: poolStats(r.Backends), Log: r.log,
	})
	if err == nil && c.Events {
		r.Shop.OnEnd(r.ReservationEnded)
		r.Shop.OnTickets(r.TicketsEnded)
	}
	return err
}

// newEngine makes the lock engine of this process, its metrics registered in registry.
func (r *Replica) newEngine(c Config, steps *step.Stream, registry prometheus.Registerer) (*handoff.Engine, error) {
	m, err := engineMetrics(registry)
	if err != nil {
		return nil, err
	}
	return handoff.New(r.Backends.Client, handoff.Options{
		TTL: c.LockTTL, Replicas: c.LockReplicas, AttemptLimit: c.LockTimeout / 2, CallTimeout: c.LockTimeout, Steps: steps,
		Metrics: m, Logger: r.log,
		Probe: c.Prefix + "lock:check:",
	})
}

// serviceLocks makes the locks on what is configured besides Redis and SQL, and adds them to l.
func (r *Replica) serviceLocks(c Config, l *stock.Lockers, steps *step.Stream) {
	closing := func(what string, f func() error) { r.closing = append(r.closing, closer{what, f}) }
	if len(r.Backends.Redlock) > 0 {
		o := textbook.RedlockOptions{TTL: c.LockTTL, RestartGuard: c.RedlockGuard}
		for _, n := range r.Backends.Redlock {
			o.Nodes = append(o.Nodes, textbook.RedlockNode{Name: n.Name, Client: n.Client})
		}
		l.Redlock = textbook.NewRedlock(o, steps)
	}
	if r.Backends.ZooKeeper != nil {
		l.ZooKeeper = coord.NewZooKeeper(r.Backends.ZooKeeper, backend.ZooKeeperRoot, c.LockTTL, steps)
		closing("ZooKeeper locks", l.ZooKeeper.Close)
	}
	if r.Backends.Etcd != nil {
		l.Etcd = coord.NewEtcd(r.Backends.Etcd, c.LockTTL, steps)
		closing("etcd locks", l.Etcd.Close)
	}
	if r.Backends.Consul != nil {
		l.Consul = coord.NewConsul(r.Backends.Consul, coord.ConsulOptions{TTL: c.ConsulSession, LockDelay: c.ConsulDelay},
			steps)
		closing("Consul locks", l.Consul.Close)
	}
}

// named is the name that the set has for a backend.
func named(b stock.Backend) string {
	if b == stock.NeedMySQL {
		b = stock.NeedSQL
	}
	return string(b)
}

const (
	// settleGrace bounds the closing of the modes. A write in progress is completed even if its request has been answered;
	// package stock allows it ten seconds.
	settleGrace = 12 * time.Second
	// engineGrace bounds the closing of the engine: what it cannot release by then expires.
	engineGrace = 3 * time.Second
	// spansGrace is how long the end of a replica waits for the collector to take the last traces.
	spansGrace = 3 * time.Second
)

// Close closes what was opened, the locks before the clients under them. It logs what goes wrong.
func (r *Replica) Close() {
	r.end("traces", within(spansGrace, r.spans.Close))
	if r.Shop != nil {
		r.end("modes", within(settleGrace, r.Shop.Close))
	}
	for _, c := range r.closing {
		r.end(c.what, c.close)
	}
	if r.engine != nil {
		r.end("lock engine", within(engineGrace, r.engine.Close))
	}
	if r.wakeups != nil {
		r.end("wakeups", r.wakeups.Close)
	}
	r.end("backends", r.Backends.Close)
}

// within bounds the time of a closing.
func within(grace time.Duration, closing func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		return closing(ctx)
	}
}

// end closes a part, and logs the error.
func (r *Replica) end(what string, closing func() error) {
	if err := closing(); err != nil {
		r.log.Warn("close", "what", what, "err", err)
	}
}
