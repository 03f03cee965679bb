package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Redis cannot sum a list. Orders below a number never change, so their sum is cached here, and each snapshot adds only newer orders: the
// first snapshot of a product with a million orders takes seconds, later ones no time.

// sums caches the sums, by product.
type sums struct {
	mu  sync.Mutex
	all map[int64]*sum
}

// maxSums is how many products' sums are kept.
const maxSums = 256

// sum has the units of a product's orders below the number next, including purged ones.
type sum struct {
	turn  chan struct{} // one token: one reader sums, others wait for it
	next  int64
	units int64
	last  string // the row below next: as long as it is in the list, the rows before it are those that were summed
}

// of returns the sum of a product together with its token; the caller must call done.
func (s *sums) of(ctx context.Context, product int64) (*sum, error) {
	s.mu.Lock()
	if s.all == nil {
		s.all = map[int64]*sum{}
	}
	one := s.all[product]
	if one == nil {
		for id := range s.all { // any of them can be computed again
			if len(s.all) < maxSums {
				break
			}
			delete(s.all, id)
		}
		one = &sum{turn: make(chan struct{}, 1)}
		s.all[product] = one
	}
	s.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: redis: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// done puts the token back.
func (s *sum) done() { <-s.turn }

// unitsBelow sums the orders of a product below the end of a snapshot, including purged ones. ok is false if the last of them were
// purged, or the stock was set again, before the summing ended.
func (r *Redis) unitsBelow(ctx context.Context, product int64, s *sum, v view) (units int64, ok bool, err error) {
	known, err := r.stillKnown(ctx, product, s, v)
	if err != nil {
		return 0, false, err
	}
	if !known {
		s.next, s.units, s.last = v.first, v.Purged.Units, ""
	}
	err = r.walk(ctx, product, s.next, v.end, func(c view) error {
		if c.first > s.next { // the orders between were purged meanwhile, and the purge has summed them
			s.units = c.Purged.Units
		}
		for _, row := range c.rows {
			var o struct {
				Quantity int64 `json:"quantity"`
			}
			if err := json.Unmarshal([]byte(row), &o); err != nil {
				s.next = 0 // only half a batch was summed
				return fmt.Errorf("%w: an order of product %d: %w", ErrUnavailable, product, err)
			}
			s.units += o.Quantity
		}
		s.next, s.last = c.first+int64(len(c.rows)), c.rows[len(c.rows)-1]
		return nil
	})
	if errors.Is(err, errSetAgain) {
		return 0, false, nil
	}
	if s.next == v.end && s.last != v.last { // the stock was set again, and as much was sold
		s.next = 0
	}
	return s.units, s.next == v.end, err
}

// stillKnown says whether the summed orders are still those below next.
func (r *Redis) stillKnown(ctx context.Context, product int64, s *sum, v view) (bool, error) {
	if s.next <= v.first || s.next > v.end {
		return false, nil // all of them were purged, and the purge has summed them; or it is another run
	}
	c, err := r.chunk(ctx, product, s.next-1, s.next, v.Purged.Orders)
	if err != nil {
		return false, err
	}
	return c.first == s.next-1 && len(c.rows) == 1 && c.rows[0] == s.last, nil
}
