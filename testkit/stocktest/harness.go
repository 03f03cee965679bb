// Package stocktest is the conformance suite of the modes: the rules for every way of deducting stock, whether it
// claims to be exact or to break.
//
// [Run] runs all modes on a set of backends. A test of one mode's peculiarity, or of a mode broken by hand, uses a
// [Harness] instead: several replicas that share nothing but the servers, a load, and the judge's report on it.
package stocktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/backend"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
	"lastitem/internal/shop"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit/testenv"
)

// Patience bounds every wait for a single event that must happen. A task with many steps, such as a load, is bounded by
// its progress instead: see testenv.Progress.
const Patience = testenv.Still

// lockTTL is so long that no lock expires during a test, however slow the machine.
const lockTTL = 5 * time.Minute

// Harness is a shop of several replicas on one Env.
type Harness struct {
	Replicas []*Replica
	env      Env
	modes    []stock.Mode
	products atomic.Int64
}

// Replica has what each process of the shop has for itself: clients, lockers, steps.
type Replica struct {
	*shop.Shop
	Backends shop.Backends
	Options  shop.Options
	Deps     map[string]stock.Deps // what each mode was built from
	Set      *backend.Set
}

// Open applies the migrations and starts n replicas with the given modes.
func Open(t testing.TB, env Env, n int, modes []stock.Mode) *Harness {
	t.Helper()
	h := &Harness{env: env, modes: modes}
	h.products.Store(100)
	for range n {
		h.Start(t)
	}
	for _, r := range h.Replicas {
		for _, m := range modes {
			if slices.Contains(m.Needs, stock.NeedKafka) && env.Kafka != "" && !env.Unready {
				r.AwaitMode(t, m.Name)
			}
		}
	}
	return h
}

// Start starts one more replica.
func (h *Harness) Start(t testing.TB) {
	t.Helper()
	h.Replicas = append(h.Replicas, open(t, h.env, len(h.Replicas), h.modes))
}

// AwaitMode waits until a mode can be used, if the replica has that mode.
func (r *Replica) AwaitMode(t testing.TB, name string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		s, err := r.Mode(name)
		if err != nil || s.Err == nil {
			return
		}
		if time.Since(begun) > 2*Patience { // a consumer group on a new broker starts slowly
			t.Fatalf("%s cannot be used: %v", name, s.Err)
		}
	}
}

// calm is how long a server may take to answer in tests that are not about time-outs.
const calm = 15 * time.Second

func open(t testing.TB, env Env, n int, modes []stock.Mode) *Replica {
	t.Helper()
	name := fmt.Sprintf("replica-%d", n+1)
	steps := &step.Stream{}
	locks := handoff.Options{TTL: lockTTL, Steps: steps}
	if env.Patience.Redis == 0 {
		env.Patience.Redis, locks.AttemptLimit, locks.CallTimeout = calm, calm, calm
	}
	if env.Health == (backend.Health{}) {
		env.Patience.Dial, env.Patience.Etcd = cmp.Or(env.Patience.Dial, calm), cmp.Or(env.Patience.Etcd, calm)
	}
	set, err := backend.Open(backend.Config{
		Redis: env.Redis, SQL: env.SQL, Prefix: env.Prefix, Conns: 16, Session: sessionTTL, Patience: env.Patience,
		Redlock: env.Redlock, ZooKeeper: env.ZooKeeper, Etcd: env.Etcd, Consul: env.Consul, Kafka: env.Kafka,
		Health: env.Health,
	})
	if err != nil {
		t.Fatalf("backend.Open: %v", err)
	}
	if _, err := backend.Migrate(t.Context(), set.DB); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	wakeups := textbook.NewWakeups(set.Client)
	engine, err := handoff.New(set.Client, locks)
	if err != nil {
		t.Fatalf("handoff.New: %v", err)
	}
	b := shop.Backends{
		Redis: set.Redis, SQL: set.SQL, Etcd: set.EtcdStore, Kafka: set.Kafka,
		Lockers: stock.Lockers{Client: set.Client, Prefix: env.Prefix, TTL: lockTTL, Wakeups: wakeups, Engine: engine},
	}
	o := shop.Options{
		Replica: name, Steps: steps, Log: env.Log, Work: cmp.Or(env.Work, 10*Patience), Settle: env.Patience.Settle,
		KeepKeys: idempotency.Retention(time.Hour),
	}
	if env.Idle > 0 {
		o.Tickets = shop.TicketOptions{Off: n < env.Idle, Claim: 50 * time.Millisecond, Most: 20,
			Apart: 5 * time.Millisecond}
	}
	if env.Health != (backend.Health{}) {
		b.Ask = func(ctx context.Context, b stock.Backend) error { return set.Ask(ctx, string(b)) }
		b.Down = func(b stock.Backend, products ...int64) error {
			if b == stock.NeedMySQL {
				b = stock.NeedSQL
			}
			return set.Down(string(b), products...)
		}
	}
	closers := services(set, &b.Lockers, steps)
	r := &Replica{Backends: b, Options: o, Deps: map[string]stock.Deps{}, Set: set}
	r.Shop, err = shop.New(b, o, r.recorded(modes))
	if err != nil {
		t.Fatalf("shop.New: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		errs := []error{r.Close(ctx), engine.Close(ctx), wakeups.Close()}
		for _, f := range closers {
			errs = append(errs, f())
		}
		if err := errors.Join(append(errs, set.Close())...); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return r
}

// recorded returns modes that record their Deps.
func (r *Replica) recorded(modes []stock.Mode) []stock.Mode {
	modes = slices.Clone(modes)
	for i, m := range modes {
		if m.New == nil {
			continue
		}
		modes[i].New = func(d stock.Deps) (stock.Deductor, error) {
			r.Deps[m.Name] = d
			return m.New(d)
		}
	}
	return modes
}

// sessionTTL is the TTL of the sessions of ZooKeeper, etcd and Consul, as long as their servers allow. consulDelay is
// the lock-delay: how long a test that ends a session on purpose waits for the key.
const (
	sessionTTL  = 40 * time.Second
	consulDelay = 100 * time.Millisecond
)

// services makes the locks on the other configured servers, and returns the functions that close them.
func services(set *backend.Set, l *stock.Lockers, steps *step.Stream) (closers []func() error) {
	if len(set.Redlock) > 0 {
		o := textbook.RedlockOptions{TTL: lockTTL}
		for _, n := range set.Redlock {
			o.Nodes = append(o.Nodes, textbook.RedlockNode{Name: n.Name, Client: n.Client})
		}
		l.Redlock = textbook.NewRedlock(o, steps)
	}
	if set.ZooKeeper != nil {
		l.ZooKeeper = coord.NewZooKeeper(set.ZooKeeper, "/"+strings.Trim(l.Prefix, ":"), sessionTTL, steps)
		closers = append(closers, l.ZooKeeper.Close)
	}
	if set.Etcd != nil {
		l.Etcd = coord.NewEtcd(set.Etcd, sessionTTL, steps)
		closers = append(closers, l.Etcd.Close)
	}
	if set.Consul != nil {
		l.Consul = coord.NewConsul(set.Consul, coord.ConsulOptions{TTL: sessionTTL, LockDelay: consulDelay}, steps)
		closers = append(closers, l.Consul.Close)
	}
	return closers
}

// Product creates a new product with the given stock.
func (h *Harness) Product(t testing.TB, units int64, segments int) int64 {
	t.Helper()
	return h.made(t, units, ledger.Rules{Segments: segments})
}

// ProductOf is Product by [Rules].
func (h *Harness) ProductOf(t testing.TB, m stock.Mode, units int64, most int) int64 {
	t.Helper()
	return h.made(t, units, Rules(m, most))
}

// Rules are those that a mode wants, with so many segments at most.
func Rules(m stock.Mode, most int) ledger.Rules {
	return ledger.Rules{Segments: min(m.Segments, most), Units: m.Units()}
}

// ProductWith is Product by the given rules.
func (h *Harness) ProductWith(t testing.TB, units int64, r ledger.Rules) int64 {
	t.Helper()
	return h.made(t, units, r)
}

func (h *Harness) made(t testing.TB, units int64, r ledger.Rules) int64 {
	t.Helper()
	id := h.products.Add(1)
	h.set(t, id, units, r)
	return id
}

// SetStock sets the stock of a product and clears what belongs to it.
func (h *Harness) SetStock(t testing.TB, id, units int64, segments int) {
	t.Helper()
	h.set(t, id, units, ledger.Rules{Segments: segments})
}

func (h *Harness) set(t testing.TB, id, units int64, r ledger.Rules) {
	t.Helper()
	if err := h.Replicas[0].SetStock(t.Context(), id, units, r); err != nil {
		t.Fatalf("SetStock(%d, %d, %+v): %v", id, units, r, err)
	}
}

// Ledger reads all rows of a product in all stores, in pages; the error is that of [shop.Shop.Page].
func (r *Replica) Ledger(ctx context.Context, product int64) (all shop.Ledger, err error) {
	for begun := time.Now(); time.Since(begun) < Patience; time.Sleep(time.Millisecond) {
		if p, err := r.Product(ctx, product); err != nil || p.InFlight == 0 {
			break
		}
	}
	page := shop.Page{Limit: 1000, Keys: true}
	all, err = r.Page(ctx, product, page)
	for err == nil && all.Next != nil {
		var more shop.Ledger
		page.After = all.Next
		more, err = r.Page(ctx, product, page)
		for s, f := range more.Facts {
			first := all.Facts[s]
			first.Orders, first.Keys = append(first.Orders, f.Orders...), append(first.Keys, f.Keys...)
			all.Facts[s] = first
		}
		all.Next = more.Next
	}
	return all, err
}

// DeleteLocks deletes every lock of the Env from Redis, as an expiry would: the fencing counters stay.
func (h *Harness) DeleteLocks(t testing.TB) {
	t.Helper()
	h.deleteLocks(t, func(key string) bool { return !strings.HasSuffix(key, ":fence") })
}

// LoseLocks deletes every lock of the Env and its fencing counter, like a Redis that restarts without its data.
func (h *Harness) LoseLocks(t testing.TB) {
	t.Helper()
	h.deleteLocks(t, func(string) bool { return true })
}

// staying lists the keys of a product in Redis, and of its segments, that stay for longer than a lock does.
func (h *Harness) staying(t testing.TB, product int64) []string {
	t.Helper()
	locks := h.Replicas[0].Backends.Lockers
	c := locks.Client
	keys := testenv.RedisKeys(t, c, fmt.Sprintf("%s*%d*", h.env.Prefix, product))
	return slices.DeleteFunc(keys, func(key string) bool {
		left := c.PTTL(t.Context(), key).Val()
		return left != -1 && left <= locks.TTL ||
			!strings.Contains(key, fmt.Sprintf("{%d}", product)) && !strings.Contains(key, fmt.Sprintf("{%d#", product))
	})
}

func (h *Harness) deleteLocks(t testing.TB, which func(key string) bool) {
	t.Helper()
	c := h.Replicas[0].Backends.Lockers.Client
	keys, err := c.Keys(t.Context(), h.env.Prefix+"lock:*").Result()
	keys = slices.DeleteFunc(keys, func(key string) bool { return !which(key) })
	if err != nil || len(keys) == 0 {
		t.Fatalf("KEYS %slock:* = %v, %v, want at least one lock", h.env.Prefix, keys, err)
	}
	if err := c.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatalf("DEL %v: %v", keys, err)
	}
}

// Deduct takes quantity units of a product with a key, not waiting for locks.
func (r *Replica) Deduct(ctx context.Context, mode string, s stock.Store, product, quantity int64,
	key string) (stock.Receipt, error) {
	req := Request(product, quantity, key)
	req.Store = s
	return r.Shop.Deduct(ctx, mode, req)
}

// Sell is Deduct that must succeed.
func (r *Replica) Sell(t testing.TB, mode string, s stock.Store, product, quantity int64, key string) stock.Receipt {
	t.Helper()
	got, err := r.Deduct(t.Context(), mode, s, product, quantity, key)
	if err != nil {
		t.Errorf("%s on %s: Deduct(%d of product %d with key %q) = %v, want nil", mode, r.Options.Replica, quantity, product,
			key, err)
	}
	return got
}

// Refuse is Deduct that must fail with want.
func (r *Replica) Refuse(t testing.TB, want error, mode string, s stock.Store, product, quantity int64, key string) {
	t.Helper()
	if got, err := r.Deduct(t.Context(), mode, s, product, quantity, key); !errors.Is(err, want) {
		t.Errorf("%s on %s: Deduct(%d of product %d with key %q) = %+v, %v, want %v", mode, r.Options.Replica, quantity,
			product, key, got, err, want)
	}
}

// Request is a request for one product with a key, not waiting for locks.
func Request(product, quantity int64, key string) stock.Request {
	return stock.Request{Items: []stock.Item{{ProductID: product, Quantity: quantity}}, Key: []byte(key), Answer: Answer}
}

// Watched is a deduction, run under Ctx, whose steps a test observes or interrupts.
type Watched struct {
	Ctx     context.Context
	Reached chan struct{} // closed when the deduction has got to the point
	Resume  func()        // lets it go on
	Cancel  func()        // ends Ctx, like a client that hangs up

	mu    sync.Mutex
	steps []step.Point
}

type watchedKey struct{}

// Watch records the steps of a deduction and, at each one, calls do.
func (r *Replica) Watch(t testing.TB, do func(*Watched, step.Point)) *Watched {
	t.Helper()
	w := &Watched{Reached: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), watchedKey{}, w))
	w.Ctx, w.Cancel = ctx, cancel
	unsubscribe := r.Options.Steps.Subscribe(func(ctx context.Context, e step.Event) {
		if ctx.Value(watchedKey{}) != w {
			return
		}
		w.mu.Lock()
		w.steps = append(w.steps, e.Point)
		w.mu.Unlock()
		if do != nil {
			do(w, e.Point)
		}
	})
	t.Cleanup(func() { cancel(); unsubscribe() })
	return w
}

// Hold stops a deduction at its first point p until Resume is called.
func (r *Replica) Hold(t testing.TB, p step.Point) *Watched {
	t.Helper()
	resumed := make(chan struct{})
	var first sync.Once
	w := r.Watch(t, func(w *Watched, at step.Point) {
		if at != p {
			return
		}
		first.Do(func() { close(w.Reached) })
		select {
		case <-resumed:
		case <-time.After(Patience):
			t.Errorf("nobody resumed the deduction at %s", p)
		}
	})
	w.Resume = sync.OnceFunc(func() { close(resumed) })
	t.Cleanup(w.Resume)
	return w
}

// HangUp cancels a deduction's context when it gets to point p.
func (r *Replica) HangUp(t testing.TB, p step.Point) *Watched {
	t.Helper()
	return r.Watch(t, func(w *Watched, at step.Point) {
		if at == p {
			w.Cancel()
		}
	})
}

// Steps returns the points passed so far.
func (w *Watched) Steps() []step.Point {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.steps)
}

// Await waits until the deduction has reached its point.
func (w *Watched) Await(t testing.TB) {
	t.Helper()
	select {
	case <-w.Reached:
	case <-time.After(Patience):
		t.Fatalf("the deduction did not reach its point; it passed %v", w.Steps())
	}
}

// Result is the result of a deduction.
type Result struct {
	Receipt stock.Receipt
	Err     error
}

// Go runs a deduction beside the test; await returns its result.
func Go(t testing.TB, deduct func() (stock.Receipt, error)) (await func() Result) {
	t.Helper()
	done := make(chan Result, 1)
	go func() {
		r, err := deduct()
		done <- Result{r, err}
	}()
	return func() Result {
		t.Helper()
		select {
		case r := <-done:
			return r
		case <-time.After(Patience):
			t.Fatal("the deduction did not return")
			return Result{}
		}
	}
}

// Books returns a product's books in one store, as the judge reads them. Where they balance, he must find nothing else.
func (h *Harness) Books(t testing.TB, product int64, s stock.Store) Books {
	t.Helper()
	l := h.Ledger(t, product)
	r := judge.Judge(judge.Input{Store: api.Store(s), Ledger: l})
	b := Books{Initial: r.Initial, Stock: r.Final, Sold: r.Sold, Orders: r.Orders, Keys: len(l.Keys)}
	if r.Verdict == judge.Inconclusive || r.Verdict == judge.Broken && b.Initial == b.Stock+b.Sold {
		t.Errorf("product %d: books %+v are\n%s", product, b, r.Text("en"))
	}
	return b
}

// Judge judges a product in one store by its ledger and the answers to requests for one unit each, all at one time.
func (h *Harness) Judge(t testing.TB, product int64, s stock.Store, answers ...Result) judge.Report {
	t.Helper()
	in := judge.Input{Store: api.Store(s), Ledger: h.Ledger(t, product), Directed: true}
	for _, a := range answers {
		op := judge.Op{ProductID: product, Quantity: 1, OrderID: a.Receipt.OrderID, Return: math.MaxInt64}
		op.Outcome, op.Code = Outcome(a.Err)
		in.History = append(in.History, op)
	}
	return judge.Judge(in)
}

// WantBooks compares a product's books in one store; of says in a failure what was tried.
func (h *Harness) WantBooks(t testing.TB, product int64, s stock.Store, want Books, of ...any) {
	t.Helper()
	if got := h.Books(t, product, s); got != want {
		t.Errorf("%v books of product %d in %s = %+v, want %+v", of, product, s, got, want)
	}
}

// Books sums up a product in one store. They balance when Initial = Stock + Sold.
type Books struct {
	Initial, Stock, Sold int64
	Orders, Keys         int
}
