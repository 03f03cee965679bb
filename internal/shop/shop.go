// Package shop runs the modes of package stock over one set of backends: it checks a request and calls its mode under a
// deadline. It contains everything that is not the lesson of a mode.
//
// [New] builds a [Shop] from [Backends] and [Options]. A request passes [Shop.Deduct]:
//
//	check.go (valid? which store?) ── backends.go (up?) ── deadline.go (in time) ── the mode ── group_commit.go, where it is queued
//
// Products are set and read in product.go, page by page in page.go; what buyers hold of them, in reservations.go.
package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/lock"
	"lastitem/internal/shop/kafka"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// Shop runs the modes over one set of backends. It is safe for concurrent use.
type Shop struct {
	backends Backends
	options  Options
	entries  []*entry
	byName   map[string]*entry
	known    known
	refusals refusals
	outage   *outage
	closers  []func(context.Context) error
	releases step.Throttle // of the log
	requests requests
	*reservations
	*ticketing
}

type entry struct {
	mode     stock.Mode
	deductor stock.Deductor // nil when err is set
	required []stock.Backend
	readers  lock.Locker // nil where the mode has none
	err      error
	usable   func() error // nil = only the backends decide
}

// Status is one mode of a shop and why it cannot be used, nil when it can.
type Status struct {
	Mode stock.Mode
	Err  error
	Down bool // everything that the mode needs is configured, and Err may pass
	// Unlocked is why the mode deducts without its lock, which only saves work, and Late why the orders of its tickets are
	// written later than usual; nil if it does not, and if they are not.
	Unlocked, Late error
}

// New builds every mode whose backends are configured; the others stay listed with the reason.
func New(b Backends, o Options, modes []stock.Mode) (*Shop, error) {
	if err := stock.Servable(modes); err != nil {
		return nil, err
	}
	s := &Shop{backends: b, options: o, byName: map[string]*entry{},
		requests: requests{work: cmp.Or(o.Work, defaultWork), settle: o.Settle}}
	s.outage = s.newOutage()
	s.reservations = newReservations(b, o, &s.requests, modes)
	s.ticketing = newTicketing(b, o, &s.requests, modes, func() { s.repeated("redis-stream") })
	for _, m := range modes {
		e := &entry{mode: m, required: m.Required()}
		if e.err = b.configured(e.required); e.err == nil {
			s.build(e)
		}
		s.entries = append(s.entries, e)
		s.byName[m.Name] = e
	}
	s.closers = append(s.closers, s.sweep()...)
	s.closers = append(s.closers, s.endTickets)
	return s, nil
}

// build builds a mode.
func (s *Shop) build(e *entry) {
	m, b, o := e.mode, s.backends, s.options
	group := groupCommit{sql: b.SQL, steps: o.Steps, keep: o.KeepKeys, limits: &sync.Map{},
		repeated: func() { s.repeated(m.Name) }}
	deps := stock.Deps{
		Redis: b.Redis, SQL: b.SQL, Etcd: b.Etcd, Reservations: s.redis,
		Orders:  &stock.Orders{Mode: m.Name, Replica: o.Replica, Redis: b.Redis, SQL: b.SQL, Steps: o.Steps},
		Locks:   s.locks(m.Name),
		Lockers: b.Lockers, Optional: s.outage.acquire, Group: group, SoldOut: s.refusals.has, Steps: o.Steps,
	}
	if m.Tickets {
		deps.Tickets = s.line
	}
	if slices.Contains(m.Needs, stock.NeedKafka) {
		log := kafka.Open(kafka.Options{
			Client: b.Kafka, Group: b.KafkaGroup, Prefix: b.Lockers.Prefix, Run: b.SQL.Run, Ready: group.ready, Commit: group,
			Gauge: o.Gauge, Steps: o.Steps, Log: o.Log,
		})
		deps.Log, e.usable = log, log.Usable
		s.closers = append(s.closers, log.Close)
	}
	if e.deductor, e.err = m.New(deps); e.err == nil && m.Readers != nil {
		e.readers, e.err = m.Readers(deps)
	}
}

// Close waits for running deductions, and then ends the modes' background work. Call it after the last Deduct. ctx
// bounds it.
func (s *Shop) Close(ctx context.Context) error {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.requests.running.Wait()
	}()
	select {
	case <-settled:
	case <-ctx.Done():
	}
	var errs []error
	for _, f := range s.closers {
		errs = append(errs, f(ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}

// KeepKeys is the minimum time for which an idempotency key is kept; 0 = forever.
func (s *Shop) KeepKeys() time.Duration { return time.Duration(s.options.KeepKeys) }

// Modes lists every mode in teaching order.
func (s *Shop) Modes() []Status {
	all := make([]Status, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, s.status(e))
	}
	return all
}

// Mode returns one mode by name, or stock.ErrUnknownMode.
func (s *Shop) Mode(name string) (Status, error) {
	e, ok := s.byName[name]
	if !ok {
		return Status{}, fmt.Errorf("%w: %q", stock.ErrUnknownMode, name)
	}
	return s.status(e), nil
}

func (s *Shop) status(e *entry) Status {
	if e.err != nil {
		return Status{Mode: e.mode, Err: e.err}
	}
	if s.backends.Check != nil {
		for _, b := range e.required {
			err := s.backends.Check(b)
			if err != nil && e.mode.Tickets && b == stock.NeedSQL {
				return Status{Mode: e.mode, Late: err}
			}
			if err != nil {
				return Status{Mode: e.mode, Err: fmt.Errorf("%s: %w", b, err), Down: true}
			}
		}
	}
	if e.usable != nil {
		err := e.usable()
		return Status{Mode: e.mode, Err: err, Down: err != nil}
	}
	status := Status{Mode: e.mode}
	if len(e.mode.Optional) > 0 {
		_, status.Unlocked = s.outage.state()
	}
	return status
}

// Deduct takes units by the named mode, within the request's wait and [Options.Work]. Its error wraps one of the
// sentinels of package stock.
func (s *Shop) Deduct(ctx context.Context, mode string, req stock.Request) (stock.Receipt, error) {
	e, ok := s.byName[mode]
	if !ok {
		return stock.Receipt{}, fmt.Errorf("%w: %q", stock.ErrUnknownMode, mode)
	}
	if err := check(e.mode, &req); err != nil {
		return stock.Receipt{}, err
	}
	if e.err != nil {
		return stock.Receipt{}, &stock.ModeError{Mode: mode, Lacks: e.err}
	}
	if err := s.backends.keeps(req.Store); err != nil { // a mode with several stores may have only one configured
		return stock.Receipt{}, &stock.ModeError{Mode: mode, Store: req.Store, Lacks: err}
	}
	r, err := s.deduct(ctx, e, req)
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", stock.ErrContended, err)
	} else {
		err = refusal(err)
	}
	// Another store may have the product: a store that was added to a running shop is empty until the stock is set again.
	if unknown, ok := errors.AsType[*ledger.ProductError](err); ok && unknown.Store == "" {
		unknown.Store = string(req.Store)
	}
	return r, err
}

// deduct calls the mode, unless a backend that it needs is known to be down.
func (s *Shop) deduct(ctx context.Context, e *entry, req stock.Request) (stock.Receipt, error) {
	if len(e.mode.Needs) == 0 { // it never blocks
		return e.deductor.Deduct(ctx, req)
	}
	var products []int64
	if !e.mode.KeyRequired { // its lock is on the key
		for _, item := range req.Items {
			products = append(products, item.ProductID)
		}
	}
	needs := e.required
	if e.mode.Tickets { // it is won in Redis; the order waits for SQL
		needs = []stock.Backend{stock.NeedRedis}
	}
	err := s.backends.down(products, needs...)
	if err == nil && req.Store != "" && !e.mode.Tickets {
		err = s.backends.down(products, req.Store.Backend())
	}
	if err != nil {
		return stock.Receipt{}, err
	}
	return within(ctx, &s.requests, req.Wait+req.Hold.Work, false, func(ctx context.Context) (stock.Receipt, error) {
		if e.mode.Counter || e.mode.Tickets { // both leave something in Redis for good
			if err := s.exist(ctx, req.Store, req.Items); err != nil {
				return stock.Receipt{}, err
			}
		}
		if err := s.refused(ctx, e.mode, req); err != nil {
			return stock.Receipt{}, err
		}
		r, err := s.retried(ctx, e, req)
		if req.Store == stock.SQL {
			s.refusals.note(req, r, err)
		}
		return r, err
	})
}

// retried calls the mode again while the store has decided for another request, until the request's wait is over. Each
// call is a whole deduction, with the same key: it reads again.
func (s *Shop) retried(ctx context.Context, e *entry, req stock.Request) (r stock.Receipt, err error) {
	until := time.Now().Add(req.Wait)
	err = store.Retry(ctx, req.Wait, func(n int) (err error) {
		if n > 0 {
			s.repeated(e.mode.Name)
			req.Wait = max(0, time.Until(until))
		}
		r, err = e.deductor.Deduct(ctx, req)
		return err
	})
	return r, err
}

// repeated counts a transaction of a mode that is tried again.
func (s *Shop) repeated(mode string) {
	if s.options.Repeated != nil {
		s.options.Repeated(mode)
	}
}
