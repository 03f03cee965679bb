package stock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/internal/lock"
)

// Hold is how a request wants its lock held: an experiment with a lease time, with re-entry, or with work that takes
// long. The zero value leaves the lock as the mode holds it. It does not belong to the payload of an idempotency key:
// it changes how units are taken, not which.
type Hold struct {
	// Lease is how long after acquisition the lock ends; nothing renews it: the lease time of Redisson's tryLock(wait,
	// lease). 0 = none.
	Lease time.Duration
	// Depth is how often the holder re-enters its lock before it reads the count.
	Depth int
	// Work is how long the work takes, between the read and the write.
	Work time.Duration
}

// HoldField names a field of [Hold] as the HTTP API does.
type HoldField string

// The fields.
const (
	LeaseField HoldField = "lease_ms"
	DepthField HoldField = "depth"
	WorkField  HoldField = "hold_ms"
)

// HoldFields lists them.
func HoldFields() []HoldField { return []HoldField{LeaseField, DepthField, WorkField} }

// The fields of a [Hold] that a mode's lock may support, see Mode.Holds. Only a lock with a TTL has a lease time, and
// only a lock that recognises its holder can be re-entered.
var (
	holdsWork  = []HoldField{WorkField}
	holdsLease = []HoldField{LeaseField, WorkField}
	holdsAll   = HoldFields()
)

// The limits of a [Hold]. A lease time shorter than MinLease shows nothing on a busy machine: the lock would end before
// its holder reads.
const (
	MinLease = 50 * time.Millisecond // where there is a lease time
	MaxLease = time.Minute
	MaxDepth = 10
	MaxWork  = 30 * time.Second
)

// check returns an *InvalidError for values outside the limits of every lock.
func (h Hold) check() error {
	switch {
	case h.Lease != 0 && (h.Lease < MinLease || h.Lease > MaxLease):
		return &InvalidError{string(LeaseField), fmt.Sprintf("must be 0 or between %d and %d", MinLease.Milliseconds(),
			MaxLease.Milliseconds())}
	case h.Depth < 0 || h.Depth > MaxDepth:
		return &InvalidError{string(DepthField), fmt.Sprintf("must be between 0 and %d", MaxDepth)}
	case h.Work < 0 || h.Work > MaxWork:
		return &InvalidError{string(WorkField), fmt.Sprintf("must be between 0 and %d", MaxWork.Milliseconds())}
	}
	return nil
}

// CheckHold returns an *InvalidError for a part of a [Hold] that the mode does not have.
func (m Mode) CheckHold(h Hold) error {
	for _, asked := range []struct {
		field HoldField
		given bool
		why   string
	}{
		{LeaseField, h.Lease != 0, "has no lock that ends after a given time"},
		{DepthField, h.Depth != 0, "has no lock that its holder can enter again"},
		{WorkField, h.Work != 0, "takes no lock on the product"},
	} {
		if asked.given && !slices.Contains(m.Holds, asked.field) {
			return &InvalidError{string(asked.field), fmt.Sprintf("mode %s %s; GET /modes lists under \"holds\" what each "+
				"mode takes", m.Name, asked.why)}
		}
	}
	return nil
}

// acquire takes a lock as the request wants it held. take makes one Acquire, or several with AcquireAll, with the
// context that it gets. For each re-entry it is called again, with the context of the previous lease: a goroutine has
// no identity, so the context identifies the holder.
func (r Request) acquire(ctx context.Context, take func(context.Context) (lock.Lease, error)) (lock.Lease, error) {
	if _, bounded := lock.WaitUntil(ctx); !bounded { // segmented has one bound for all its tries
		ctx = lock.WithWait(ctx, r.Wait)
	}
	if r.Hold.Lease > 0 {
		ctx = lock.WithLease(ctx, r.Hold.Lease)
	}
	first, err := take(ctx)
	switch {
	case errors.Is(err, lock.ErrLeaseTime): // a lock may have a limit of its own, as Redlock's nodes have
		return nil, &InvalidError{string(LeaseField), "the lock of this mode cannot end after this time"}
	case err != nil || r.Hold.Depth == 0:
		return first, err
	}
	held := entries{first}
	for range r.Hold.Depth {
		again, err := take(lock.WithReentry(held[len(held)-1].Context()))
		if err != nil {
			return nil, errors.Join(err, held.Release(ctx))
		}
		held = append(held, again)
	}
	return held, nil
}

// acquireKey is acquire for one key of a locker.
func (r Request) acquireKey(ctx context.Context, l lock.Locker, key string) (lock.Lease, error) {
	return r.acquire(ctx, func(ctx context.Context) (lock.Lease, error) { return l.Acquire(ctx, key) })
}

// entries is a lock and its re-entries, as one lease.
type entries []lock.Lease

// Context returns the context of the innermost entry.
func (e entries) Context() context.Context { return e[len(e)-1].Context() }

// Fence returns the token of the hold.
func (e entries) Fence() uint64 { return e[0].Fence() }

// Release releases every entry, the innermost first. It goes on after an error.
func (e entries) Release(ctx context.Context) error {
	var errs []error
	for _, lease := range slices.Backward(e) {
		errs = append(errs, lease.Release(ctx))
	}
	return errors.Join(errs...)
}

// work waits for the Work of the request, between the read and the write. It ends early with ctx.
func (r Request) work(ctx context.Context) error {
	if r.Hold.Work <= 0 {
		return nil
	}
	done := time.NewTimer(r.Hold.Work)
	defer done.Stop()
	select {
	case <-done.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: ended at its work: %w", ErrUnavailable, context.Cause(ctx))
	}
}
