package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/step"
	"lastitem/internal/store"
)

// Deps is what the modes are built from. A nil Redis, SQL or EtcdStore makes the modes that need it unavailable.
type Deps struct {
	Redis     *store.Redis
	SQL       *store.SQL
	EtcdStore *store.Etcd // beside the lock Etcd, on the same server
	// Client is for the lockers, which keep keys of their own beside the store's; Prefix is put before each of them.
	Client redis.UniversalClient
	Prefix string
	// Wakeups tells waiting lockers that a lock was released; nil = they poll.
	Wakeups *textbook.Wakeups
	// Engine is the lock of handoff, fair and rwlock, and of the modes whose lesson is not the lock, one per process; nil makes
	// them unavailable. Whoever made it closes it, after the last Deduct and before Client.
	Engine *handoff.Engine
	// The locks on services of their own, one of each per process; nil makes their modes unavailable. Whoever made them closes
	// them, after Shop.Close.
	Redlock   *textbook.Redlock
	ZooKeeper *coord.ZooKeeper
	Etcd      *coord.Etcd
	Consul    *coord.Consul
	// Kafka makes a client of the brokers, which whoever asked closes; nil makes the mode kafka unavailable.
	Kafka      func(...kgo.Opt) (*kgo.Client, error)
	KafkaGroup KafkaGroup
	// Missing says why a backend is not there, and what to do, where it is not for whoever started this process to set a variable.
	Missing map[Backend]string
	// Check says why a backend cannot be used right now, nil when it can. It answers from a cache, without waiting.
	Check func(Backend) error
	// Down is like Check, but returns nil as long as the backend's health is unknown. Requests that need a backend which is down
	// fail at once.
	Down func(Backend) error
	// Work is how long a request may take beyond its wait for locks; 0 = 5 s.
	Work time.Duration
	// Gauge registers a metric whose value read returns; nil = no metrics.
	Gauge   func(name, help string, read func() float64)
	Steps   *step.Stream
	Replica string
	// LockTTL is the expiry of the other locks that have one.
	LockTTL time.Duration
	// Settle is how long to wait for each command after a deduction has begun to write; such commands do not end with their request. 0 = 10 s.
	Settle time.Duration
	// KeepKeys is the minimum time for which an idempotency key is kept; 0 = forever.
	KeepKeys time.Duration
	Log      *slog.Logger

	closers *[]func(context.Context) error
	// Of the mode that New is creating.
	mode   string
	usable *func() error
}

// OnClose has the shop call f when it closes: for what a mode keeps running between requests. Functions are called in the
// reverse order.
func (d Deps) OnClose(f func(context.Context) error) { *d.closers = append(*d.closers, f) }

// UsableWhen adds a check to those of the mode's backends: f returns why the mode cannot be used right now, nil = it can. It covers
// state that the backends' probes do not see, such as a consumer group. f must not block.
func (d Deps) UsableWhen(f func() error) { *d.usable = f }

// Shop runs the modes over one set of backends. It is safe for concurrent use.
type Shop struct {
	deps    Deps
	entries []*entry
	byName  map[string]*entry
	running sync.WaitGroup // running requests, including those already answered at their deadline
}

type entry struct {
	mode     Mode
	deductor Deductor    // nil when err is set
	readers  lock.Locker // nil where the mode has none
	err      error
	usable   func() error // nil = only the backends decide
}

// Status is one mode of a shop and why it cannot be used, nil when it can.
type Status struct {
	Mode Mode
	Err  error
}

// NewShop builds every mode whose needs are configured; the others stay listed with the reason.
func NewShop(deps Deps, modes []Mode) (*Shop, error) {
	if err := servable(modes); err != nil {
		return nil, err
	}
	deps.closers = new([]func(context.Context) error)
	s := &Shop{deps: deps, byName: map[string]*entry{}}
	for _, m := range modes {
		e := &entry{mode: m}
		own := deps
		own.mode, own.usable = m.Name, &e.usable
		e.err = configured(deps, m.Needs)
		if e.err == nil {
			e.deductor, e.err = m.New(own)
		}
		if e.err == nil && m.Readers != nil {
			e.readers, e.err = m.Readers(own)
		}
		s.entries = append(s.entries, e)
		s.byName[m.Name] = e
	}
	return s, nil
}

// Close waits for running deductions, and then ends the modes' background work. Call it after the last Deduct. ctx bounds it.
func (s *Shop) Close(ctx context.Context) error {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.running.Wait()
	}()
	select {
	case <-settled:
	case <-ctx.Done():
	}
	var errs []error
	for _, f := range slices.Backward(*s.deps.closers) {
		errs = append(errs, f(ctx))
	}
	*s.deps.closers = nil
	return errors.Join(errs...)
}

func configured(deps Deps, needs []Backend) error {
	for _, b := range needs {
		if err := deps.has(b); err != nil {
			return err
		}
	}
	return nil
}

// has says why a backend is not configured, nil when it is.
func (d Deps) has(b Backend) error {
	var missing bool
	var what, advice string
	switch b {
	case NeedRedis:
		missing, what, advice = d.Redis == nil, "no Redis configured", "set SHOP_REDIS"
	case NeedSQL:
		missing, what, advice = d.SQL == nil, "no SQL database configured", "set SHOP_SQL"
	case NeedMySQL:
		missing, what, advice = d.SQL == nil || !d.SQL.MySQL(), "its lesson needs InnoDB", "set SHOP_SQL to a MySQL or MariaDB server"
	case NeedRedlock:
		missing, what = d.Redlock == nil, "no Redlock nodes configured"
		advice = "set SHOP_REDLOCK to the URLs of five independent Redis masters"
	case NeedZooKeeper:
		missing, what, advice = d.ZooKeeper == nil, "no ZooKeeper configured", "set SHOP_ZOOKEEPER"
	case NeedEtcd:
		missing, what, advice = d.Etcd == nil, "no etcd configured", "set SHOP_ETCD"
	case NeedConsul:
		missing, what, advice = d.Consul == nil, "no Consul configured", "set SHOP_CONSUL"
	case NeedKafka:
		missing, what, advice = d.Kafka == nil, "no Kafka configured", "set SHOP_KAFKA"
	default:
		missing, what, advice = true, "unknown backend "+string(b), "this is a defect of the mode"
	}
	if missing {
		return fmt.Errorf("%s: %s", what, cmp.Or(d.Missing[b], advice))
	}
	return nil
}

// Modes lists every mode in teaching order.
func (s *Shop) Modes() []Status {
	all := make([]Status, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, s.status(e))
	}
	return all
}

// Mode returns one mode by name, or ErrUnknownMode.
func (s *Shop) Mode(name string) (Status, error) {
	e, ok := s.byName[name]
	if !ok {
		return Status{}, fmt.Errorf("%w: %q", ErrUnknownMode, name)
	}
	return s.status(e), nil
}

func (s *Shop) status(e *entry) Status {
	if e.err != nil {
		return Status{e.mode, e.err}
	}
	if s.deps.Check != nil {
		for _, b := range e.mode.Needs {
			if err := s.deps.Check(b); err != nil {
				return Status{e.mode, fmt.Errorf("%s: %w", b, err)}
			}
		}
	}
	if e.usable != nil {
		return Status{e.mode, e.usable()}
	}
	return Status{Mode: e.mode}
}

// Deduct takes units by the named mode, within the request's wait and [Deps.Work]. Its error wraps one of the sentinels of errors.go.
func (s *Shop) Deduct(ctx context.Context, mode string, req Request) (Receipt, error) {
	e, ok := s.byName[mode]
	if !ok {
		return Receipt{}, fmt.Errorf("%w: %q", ErrUnknownMode, mode)
	}
	if err := check(e.mode, &req); err != nil {
		return Receipt{}, err
	}
	if e.err != nil {
		return Receipt{}, &ModeError{Mode: mode, Lacks: e.err}
	}
	if err := s.deps.keeps(req.Store); err != nil { // of a mode that offers several, perhaps one only
		return Receipt{}, &ModeError{Mode: mode, Store: req.Store, Lacks: err}
	}
	r, err := s.deduct(ctx, e, req)
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrContended, err)
	}
	// Another store may have the product: a store that was added to a running shop is empty until the stock is set again.
	if unknown, ok := errors.AsType[*ProductError](err); ok && unknown.Store == "" {
		unknown.Store = string(req.Store)
	}
	return r, err
}

// deduct calls the mode, unless a backend that it needs is known to be down.
func (s *Shop) deduct(ctx context.Context, e *entry, req Request) (Receipt, error) {
	if len(e.mode.Needs) == 0 { // it never blocks
		return e.deductor.Deduct(ctx, req)
	}
	err := s.deps.down(e.mode.Needs...)
	if err == nil && req.Store != "" {
		err = s.deps.down(req.Store.backend())
	}
	if err != nil {
		return Receipt{}, err
	}
	return within(ctx, s, req.Wait, false, func(ctx context.Context) (Receipt, error) { return e.deductor.Deduct(ctx, req) })
}

// keeps says why no count can be kept in a store, nil where it can.
func (d Deps) keeps(at Store) error {
	if at == "" {
		return nil
	}
	return d.has(at.backend())
}

// check holds a request against what its mode takes, merges its items, and fills in the default store.
func check(m Mode, req *Request) error {
	switch {
	case len(req.Items) == 0:
		return &InvalidError{"items", "empty"}
	case len(req.Items) > 1 && !m.Cart:
		return &InvalidError{"items", "mode " + m.Name + " takes one product at a time"}
	case slices.ContainsFunc(req.Items, func(i Item) bool { return i.Quantity < 1 }):
		return &InvalidError{"quantity", "must be at least 1"}
	case m.KeyRequired && len(req.Key) == 0:
		return ErrKeyMissing
	case len(req.Key) > idempotency.MaxKey: // INSERT IGNORE would cut it off, and it would be another one's
		return &InvalidError{"Idempotency-Key", fmt.Sprintf("is longer than %d bytes", idempotency.MaxKey)}
	}
	if m.Cart && len(req.Items) > 1 {
		var err error
		if req.Items, err = merged(req.Items); err != nil {
			return err
		}
	}
	if req.Store == "" && len(m.Stores) > 0 {
		req.Store = m.Stores[0]
	}
	for _, s := range m.Stores {
		if s == req.Store {
			return nil
		}
	}
	if len(m.Stores) == 0 {
		if req.Store == "" {
			return nil
		}
		return &InvalidError{"store", "mode " + m.Name + " touches none"}
	}
	return &InvalidError{"store", fmt.Sprintf("mode %s keeps its stock in %s, not in %s", m.Name, oneOf(m.Stores), req.Store)}
}

// oneOf joins stores as a sentence does: "redis or sql".
func oneOf(stores []Store) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}
