package redisdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

// A reservation in Redis is a field of a hash in its product's slot. Each arrow of its life is one script, so nothing
// is ever half done, and the clock is the script's TIME. The keys:
//
//	holds:{101}         by id: the reservation, JSON
//	due:{101}           those that are held, by deadline
//	closed:{101}        those that are not, by when they may be deleted
//	payments:{101}      by payment: reservation, order ("" = refunded), time; of all runs, forever
//	run-payments:{101}  those of the run, for the judge
//	buyers:{101}        by buyer: the units that count for the limit
//	hold-keys:{101}     by key: the reservation that it made
//	returned:{101}      by order and request: quantity, and whether it was restocked; by order: 0, and their sum
//	rules:{101}         run, limit per buyer, late payments, the longest hold and the number of extensions where they are
//	                    not the usual ones, the number of changes, and how many units are held
//	holds-old:{101}     holds of the run before, for a week: those that were held are void
//	payment:<payment>   the claim of a payment, forever: it is for a reservation of this product, or "refunded" if there
//	                    was no such reservation; hold-key:<key> likewise, for a week
//	holding             the products that may have reservations, for the sweeper

// holdFamilies are the KEYS of the scripts hold_*.lua, and runFamilies those of set.lua after the counts.
var (
	holdFamilies = []string{"stock", "orders", "rules", "holds", "due", "payments", "buyers", "run-payments", "hold-keys",
		"returned", "closed", "holds-old"}
	runFamilies = []string{"rules", "holds", "holds-old", "orders", "due", "buyers", "run-payments", "hold-keys",
		"returned", "closed", "tickets", "stream", "tries", "dropped", "adjusts", "adjust-keys"}
)

// The scripts of the arrows.
var makeScript, confirmScript, cancelScript, extendScript, readScript, sweepScript, returnScript = script("hold",
	"hold_make"), script("hold", "hold_confirm"), script("hold", "hold_cancel"), script("hold", "hold_extend"),
	script("hold", "hold_read"), script("hold", "hold_sweep"), script("hold", "hold_return")

var adjustScript = script("hold", "adjust")

// Reservations makes, changes and reads the reservations of a store. There is one for each store in a process.
type Reservations struct {
	s       *Store
	holding roll          // the products that may have reservations
	closed  time.Duration // see NewReservations
	pages   sync.Map      // by product: *orderPages
	store.Ends
}

// NewReservations returns the reservations of a store. One that is closed is kept for that long if it has a payment or
// a key, or if a late payment may still become an order; others are kept for one hour, and those with an order as long
// as that. 0 = all are kept until the stock is set.
func NewReservations(s *Store, closed time.Duration) *Reservations {
	return &Reservations{s: s, closed: closed, holding: roll{s: s, set: "holding", family: "due"}}
}

// week is how long a key belongs to the product that it first came for.
const week = 7 * 24 * time.Hour

// arrow runs one of the scripts hold_*.lua. A lost answer is asked for again: each script knows what it has done.
func (r *Reservations) arrow(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error) {
	args = append(args, r.closed.Microseconds())
	for lost := 0; ; lost++ {
		if err := ctx.Err(); err != nil && lost == 0 {
			return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
		reply, err := r.s.eval(script, keys, args)
		list, ok := reply.([]any)
		switch err = sellError(err); {
		case err == nil && ok && len(list) > 0:
			return list, nil
		case err == nil:
			return nil, fmt.Errorf("%w: redis: the script answered %v", store.ErrUnknown, reply)
		case errors.Is(err, store.ErrUnknown) && lost+1 < sellTries:
			continue
		case lost > 0 && !errors.Is(err, store.ErrUnknown): // this try did not arrive; the one before may have been executed
			err = fmt.Errorf("%w: an answer was lost, and then: %w", store.ErrUnknown, err)
		}
		return nil, err
	}
}

func (r *Reservations) holdKeys(product int64) []string {
	keys := make([]string, len(holdFamilies), len(holdFamilies)+1)
	for i, family := range holdFamilies {
		keys[i] = r.s.key(family, product)
	}
	return keys
}

// textAt returns a part of a reply, "" if there is none.
func textAt(list []any, i int) string {
	if i >= len(list) {
		return ""
	}
	s, _ := list[i].(string)
	return s
}

func integer(list []any, i int, to *int64) (err error) {
	*to, err = strconv.ParseInt(textAt(list, i), 10, 64)
	return err
}

// holdClaim is the claim of a payment or of a key by a product: no other product's slot may use it too.
type holdClaim struct {
	family, field string // of the hash in which the product that uses it has it
	product       int64
	void          string // the owner whose claim is void
	reused        error  // what a use by another product is
}

// claimed runs a script that claims: together with the rest, or on a cluster before it, where the claim is in another
// slot.
func (r *Reservations) claimed(ctx context.Context, script *redis.Script, c holdClaim, args ...any) ([]any, error) {
	name := []string{r.s.prefix + strings.TrimSuffix(c.family, "s") + ":" + c.field}
	keep := week
	if c.family == "payments" {
		keep = 0 // a payment has one end, whatever was set since
	}
	for {
		keys, own, owner := r.holdKeys(c.product), fmt.Sprint(c.product, "@"), ""
		together := !r.s.spread.Load()
		if together {
			keys = append(keys, name...)
		} else {
			own += strconv.FormatInt(time.Now().UnixMilli(), 10) // it tells how long a request may be in flight
			reply, err := r.s.eval(claimScript, name, []any{own, c.void, keep.Milliseconds(), refusedClaim.Milliseconds()})
			if err != nil { // the claim may have been made, but nothing else
				return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
			}
			owner, _ = reply.(string)
		}
		if product, _ := parseOwner(owner); together || product == c.product {
			list, err := r.arrow(ctx, script, keys, append(args, own, c.void, keep.Milliseconds())...)
			switch {
			case together && errors.Is(err, store.ErrCrossSlot):
				r.s.spread.Store(true)
				continue
			case err != nil:
				return nil, err
			case list[0] != "claimed":
				if owner == own && list[0] == "none" {
					return list, writeError(r.s.c.Set(ctx, name[0], refundedClaim, keep).Err())
				}
				if owner == own && !slices.Contains([]any{"made", "held", "earlier", "done", "replay"}, list[0]) {
					_, _ = r.s.eval(unclaimScript, name, []any{own, refusedClaim.Milliseconds()})
				}
				return list, nil
			}
			owner = textAt(list, 1)
		}
		if err := r.heldBy(ctx, c, owner); err != nil {
			return nil, err
		}
		c.void = owner
	}
}

// refundedClaim owns a payment for a reservation that did not exist: the payment goes back, and never becomes an order.
const refundedClaim = "refunded"

var errRefunded = errors.New("store: the payment was for a reservation that did not exist")

// heldBy says whether a claim of another product stands: nil = it is void.
func (r *Reservations) heldBy(ctx context.Context, c holdClaim, owner string) error {
	if owner == refundedClaim {
		return errRefunded
	}
	product, made := parseOwner(owner)
	present, err := r.s.c.HExists(ctx, r.s.key(c.family, product), c.field).Result()
	held := time.Since(made)
	switch {
	case err != nil:
		return readError(err, product)
	case present:
		return c.reused
	case held < claimGrace:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, &KeyBusyError{Product: product, Held: held,
			Left: claimGrace - held})
	}
	return nil
}
