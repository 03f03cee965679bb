package shop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/lock"
	"lastitem/internal/stock"
	"lastitem/internal/store"
)

// Product is the stock of one product in every store that is configured.
type Product struct {
	Stock    map[stock.Store]int64
	LeaseSeq uint64
	Segments []int64
	InFlight int64 // tickets
}

// Ledger is the raw facts that a judge needs. A store that could not be read is missing from Facts and named in
// Unavailable.
type Ledger struct {
	Facts       map[stock.Store]ledger.Facts
	Unavailable map[stock.Store]error
	// Next is the position of the next row; nil after the last one.
	Next Cursor
}

// Down joins the errors of the stores that could not be read; nil when all could.
func (l Ledger) Down() error {
	var errs []error
	for _, s := range stock.Stores() {
		errs = append(errs, l.Unavailable[s])
	}
	return errors.Join(errs...)
}

// SetStock creates the product if it is new, sets its stock in every configured store, and clears its orders, locks and
// idempotency keys: a run starts here. No request for the product may be in flight; requests that Kafka delivers again
// later are void. If a store fails, and another may have been set, the error is stock.ErrUnknown: call it again.
func (s *Shop) SetStock(ctx context.Context, product, units int64, rules ledger.Rules) error {
	if err := s.settable(product); err != nil { // if one store cannot be set, the new run is void in the others too
		return err
	}
	wait := max(0, setLimit-2*s.requests.work)
	_, err := within(ctx, &s.requests, wait, true, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.setStock(ctx, product, units, rules)
	})
	return err
}

// setLimit bounds the setting of a stock, which takes the longer the more orders there are, together with the reading
// of the product that follows it, within [Options.Work].
const setLimit = 55 * time.Second

// settable returns the errors of the configured stores that are known not to answer.
func (s *Shop) settable(product int64) error {
	var errs []error
	for _, at := range stock.Stores() {
		if s.backends.has(at.Backend()) == nil {
			errs = append(errs, s.backends.silent(at, product))
		}
	}
	return errors.Join(errs...)
}

func (s *Shop) setStock(ctx context.Context, product, units int64, rules ledger.Rules) error {
	var errs []error
	set := 0
	done := func(store string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", store, err))
			return
		}
		set++
		s.known.add(stock.Store(store), product)
	}
	// first, since it is what an operator may have forbidden: then no other store is set
	if q := s.backends.SQL; q != nil {
		err := refusal(q.Reset(ctx, product, units, rules, s.locks("sql-unique").Key(product)))
		if errors.Is(err, stock.ErrForbidden) {
			return fmt.Errorf("sql: %w", err)
		}
		done("sql", err)
	}
	if r := s.backends.Redis; r != nil {
		if set > 0 {
			run, err := s.backends.SQL.Run(ctx, product)
			if err != nil {
				return fmt.Errorf("%w: sql: the run: %w", stock.ErrUnknown, err)
			}
			rules.Book = strconv.FormatInt(run, 10)
		}
		locks := func(segments int) []string { return s.lockKeys(product, segments) }
		done("redis", refusal(r.Reset(ctx, product, units, rules, locks)))
	}
	if e := s.backends.Etcd; e != nil {
		done("etcd", e.Reset(ctx, product, units, rules))
	}
	s.freeRedlock(ctx, product)
	err := errors.Join(errs...)
	if err != nil && set > 0 {
		return fmt.Errorf("%w: stores set: %d: %w", stock.ErrUnknown, set, err)
	}
	return err
}

// freeRedlock deletes a dead holder's lock on the Redlock nodes. An unreachable node must not stop a run of another
// mode: its key expires. The locks of ZooKeeper, etcd and Consul end with the session of their holder.
func (s *Shop) freeRedlock(ctx context.Context, product int64) {
	redlock, log := s.backends.Lockers.Redlock, s.options.Log
	if redlock == nil {
		return
	}
	if err := redlock.Delete(ctx, s.locks("redlock").Key(product)); err != nil && log != nil {
		log.WarnContext(ctx, "reset", "product", product, "err", err)
	}
}

// Product reads the stock of a product from every configured store; stock.ErrUnknownProduct when none of them has it.
func (s *Shop) Product(ctx context.Context, id int64) (Product, error) {
	l, err := within(ctx, &s.requests, 0, false, func(ctx context.Context) (Ledger, error) {
		return s.collect(id, func(_ stock.Store, r reader) (ledger.Facts, error) { return r.Facts(ctx, id) })
	})
	if err != nil {
		return Product{}, err
	}
	p := Product{Stock: map[stock.Store]int64{}}
	for name, f := range l.Facts {
		p.Stock[name] = f.Stock
	}
	p.LeaseSeq, p.Segments = l.Facts[stock.SQL].LeaseSeq, l.Facts[stock.Redis].Segments
	if l.Facts[stock.Redis].Sold != ledger.Undecided { // else it has never had a ticket
		if p.InFlight, err = s.inFlight(ctx, id); err != nil {
			return p, errors.Join(l.Down(), err)
		}
	}
	return p, l.Down()
}

// ReadLocked runs read under a mode's lock for readers, so that no deduction by that mode is half done meanwhile. It
// waits for the lock no longer than wait. read must use its own ctx, which ends when the lock is lost.
func (s *Shop) ReadLocked(ctx context.Context, mode string, product int64, wait time.Duration,
	read func(context.Context) error) error {
	_, err := within(ctx, &s.requests, wait, false, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.readLocked(ctx, mode, product, wait, read)
	})
	return err
}

func (s *Shop) readLocked(ctx context.Context, mode string, product int64, wait time.Duration,
	read func(context.Context) error) error {
	e, ok := s.byName[mode]
	switch {
	case !ok:
		return fmt.Errorf("%w: %q", stock.ErrUnknownMode, mode)
	case e.mode.Readers == nil:
		return invalid("mode", "mode "+mode+" has no lock to read under")
	case e.err != nil:
		return &stock.ModeError{Mode: mode, Lacks: e.err}
	}
	if err := s.backends.down([]int64{product}, e.mode.Needs...); err != nil {
		return err
	}
	lease, err := e.readers.Acquire(lock.WithWait(ctx, wait), s.locks(mode).Key(product))
	if err != nil {
		return err
	}
	defer s.locks(mode).Release(ctx, lease)
	err = read(lease.Context())
	if errors.Is(context.Cause(lease.Context()), stock.ErrLockLost) { // the result may show a half-done deduction
		return stock.ErrLockLost
	}
	return err
}

// reader is the reading half of a store.
type reader interface {
	Facts(ctx context.Context, product int64) (ledger.Facts, error)
	Snapshot(ctx context.Context, product int64, want ledger.Want) (ledger.Facts, ledger.Position, error)
	Page(ctx context.Context, product int64, p ledger.Position, want ledger.Want) (ledger.Facts, ledger.Position, error)
	Scan(ctx context.Context, product int64, body func(*ledger.Snapshot) error) error
}

// reader returns a store, or nil if it is not configured.
func (s *Shop) reader(name stock.Store) reader {
	switch {
	case name == stock.Redis && s.backends.Redis != nil:
		return s.backends.Redis
	case name == stock.SQL && s.backends.SQL != nil:
		return s.backends.SQL
	case name == stock.Etcd && s.backends.Etcd != nil:
		return s.backends.Etcd
	}
	return nil
}

// collect asks each configured store, except those known not to answer; stock.ErrUnknownProduct when none of them has
// the product.
func (s *Shop) collect(id int64, ask func(stock.Store, reader) (ledger.Facts, error)) (Ledger, error) {
	l := Ledger{Facts: map[stock.Store]ledger.Facts{}, Unavailable: map[stock.Store]error{}}
	for _, name := range stock.Stores() {
		r := s.reader(name)
		if r == nil {
			continue
		}
		var f ledger.Facts
		err := s.backends.silent(name, id)
		if err == nil {
			f, err = ask(name, r)
		}
		switch {
		case err == nil:
			l.Facts[name] = f
		case !errors.Is(err, store.ErrUnknownProduct):
			l.Unavailable[name] = err
		}
	}
	if len(l.Facts) == 0 && len(l.Unavailable) == 0 {
		return l, &ledger.ProductError{Err: stock.ErrUnknownProduct, ProductID: id}
	}
	return l, nil
}
