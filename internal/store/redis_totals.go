package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// Redis cannot add up a list. The orders below a number stay what they are, so their sum is kept, and each snapshot adds what has
// come since: the first one of a product with a million orders takes seconds, the next ones take none.

// sums holds what was added up, by product.
type sums struct {
	mu  sync.Mutex
	all map[int64]*sum
}

// maxSums is how many products' sums are kept.
const maxSums = 256

// sum is the units of a product's orders below the number next, those that were purged included.
type sum struct {
	turn  chan struct{} // one token: one reader adds, others wait for it
	next  int64
	units int64
	last  string // the row below next: as long as it is there, the rows before it are those that were added
}

// of returns the sum of a product; whoever asks has its token, and must put it back.
func (s *sums) of(ctx context.Context, product int64) (*sum, error) {
	s.mu.Lock()
	if s.all == nil {
		s.all = map[int64]*sum{}
	}
	one := s.all[product]
	if one == nil {
		for id := range s.all { // any of them can be had again
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

// unitsBelow adds up the orders of a product below the end of a snapshot, those that were purged included. ok is false where the
// last of them were purged, or the product was set again, before that was done.
func (r *Redis) unitsBelow(ctx context.Context, product int64, s *sum, v view) (units int64, ok bool, err error) {
	known, err := r.stillKnown(ctx, product, s, v)
	if err != nil {
		return 0, false, err
	}
	if !known {
		s.next, s.units, s.last = v.first, v.Purged.Units, ""
	}
	err = r.walk(ctx, product, s.next, v.end, func(c view) error {
		if c.first > s.next { // what lies between was purged meanwhile, and added up by the purge
			s.units = c.Purged.Units
		}
		for _, row := range c.rows {
			var o struct {
				Quantity int64 `json:"quantity"`
			}
			if err := json.Unmarshal([]byte(row), &o); err != nil {
				s.next = 0 // half a batch was added
				return fmt.Errorf("%w: an order of product %d: %w", ErrUnavailable, product, err)
			}
			s.units += o.Quantity
		}
		s.next, s.last = c.first+int64(len(c.rows)), c.rows[len(c.rows)-1]
		return nil
	})
	return s.units, s.next == v.end, err
}

// stillKnown says whether the orders that were added up are those below next still.
func (r *Redis) stillKnown(ctx context.Context, product int64, s *sum, v view) (bool, error) {
	if s.next <= v.first || s.next > v.end {
		return false, nil // all of them were purged, and added up by the purge; or it is another run
	}
	c, err := r.chunk(ctx, product, s.next-1, s.next, v.Purged.Orders)
	if err != nil {
		return false, err
	}
	return c.first == s.next-1 && len(c.rows) == 1 && c.rows[0] == s.last, nil
}
