package redisdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
)

// This file keeps the answers to idempotency keys in Redis, where [Store.Sell] finds them.
//
// The answers for a product are in four hashes, so that a reset or a [Store.Purge] deletes them as a whole, without a
// scan:
//
//	answers:{101}       answers to sales, and those of replicas without retention; the field "" names the run
//	answers-old:{101}   the answers that a purge moved here; a later purge deletes them
//	answers-moved:{101} when it moved them
//	refusals:{101}      at most 10,000 refusals, until ten minutes after the last; none above half of the server's memory
//	refusals-old:{101}  the 10,000 refusals before them
//	key:<key>           the claim of the key: the product and the sale that it was used for. The same key for another
//	                    product is another payload
//
// An answer to a sale is kept for at least [Store.KeepAnswers], and at most twice that. Its claim lives for
// KeepAnswers; without a claim the script does not look into answers-old, except on a cluster, where it cannot see the
// claim. There are at most as many answers as units were sold, so the stock bounds them, and only an administrator sets
// stock. Refusals cost the client nothing: at most 20,000 per product are kept, of some 400 bytes each (8 MB), and for
// each a claim of some 210 bytes for ten seconds (21 MB at 10,000 refusals a second). Nothing is kept for products that
// do not exist. A request whose refusal was forgotten is executed again, which is safe: the refusal changed nothing.
//
// On a cluster the claim is in another slot than the product. A separate script makes it before the sale, and a
// refusal, or an error that left the stock alone, shortens it.

var (
	claimScript, unclaimScript = script("claim"), script("unclaim")

	nothingScript = redis.NewScript("return 0") // to learn whether a script may have such keys
)

const (
	// refusedClaim is how long a claim outlives a refusal on a cluster; sell.lua has the same number.
	refusedClaim = 10 * time.Second
	// claimGrace is how long a claim without an answer may belong to a sale in flight.
	claimGrace = 30 * time.Second
)

// KeyBusyError says that a sale of another product, which may be in flight, has claimed the idempotency key. Nothing
// was changed.
type KeyBusyError struct {
	Product int64
	// Held is how long the claim has existed, and Left how much longer it may exist at most.
	Held, Left time.Duration
}

// Error names the product.
func (e *KeyBusyError) Error() string {
	return fmt.Sprintf("store: the idempotency key is in use for product %d", e.Product)
}

// KeepAnswers sets the minimum time for which the answer to a sale is kept, instead of [idempotency.DefaultRetention];
// 0 = forever. Call it before the first sale.
func (r *Store) KeepAnswers(d time.Duration) { r.keep = d }

// answer returns the stored answer to a key for a product, "" = none.
func (r *Store) answer(ctx context.Context, product int64, key []byte) (string, error) {
	hashes := r.answerKeys(product)
	pipe := r.c.Pipeline()
	first := pipe.HMGet(ctx, hashes[0], string(key), "")
	older := make([]*redis.StringCmd, 0, len(hashes))
	for _, h := range hashes[1:] {
		older = append(older, pipe.HGet(ctx, h, string(key)))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return "", readError(err, product)
	}
	v := first.Val()
	if kept, ok := v[0].(string); ok {
		return kept, nil
	}
	for _, o := range older {
		if v[1] != nil && o.Val() != "" {
			return o.Val(), nil
		}
	}
	return "", nil
}

// owner names this sale as the owner of its key: the product, and on a cluster the time, which says how long the sale
// may be in flight. Elsewhere it is the order's id. It differs from sale to sale: a sale that has found a claim void
// takes the key only if no sale has claimed it since.
func (t *selling) owner(sale string) string {
	return strconv.FormatInt(t.Orders[0].ProductID, 10) + "@" + sale
}

// claim claims the key of a sale on a cluster. done says that the sale ends here.
func (t *selling) claim(ctx context.Context) (out Sold, done bool, err error) {
	if len(t.Orders) > 1 {
		// A cart that no script can sell must not claim its key: if two such requests fail at the same time, neither can give
		// up the claim.
		if _, err := t.r.eval(nothingScript, t.stocks(nil), nil); redis.HasErrorPrefix(err, "CROSSSLOT") {
			return Sold{}, true, sellError(err)
		}
	}
	if t.r.avoid != nil {
		if err := t.r.avoid(t.r.claimKey(t.Key)); err != nil {
			return Sold{}, true, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
	}
	for !t.claimed {
		t.own = t.owner(strconv.FormatInt(time.Now().UnixMilli(), 10))
		reply, err := t.r.eval(claimScript, []string{t.r.claimKey(t.Key)},
			[]any{t.own, t.void, t.r.keep.Milliseconds(), refusedClaim.Milliseconds()})
		if err != nil { // the claim may have been made, but no stock was deducted
			return Sold{}, true, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
		owner, _ := reply.(string)
		product, _ := parseOwner(owner)
		if t.claimed = product == t.Orders[0].ProductID; t.claimed {
			t.made = owner == t.own
			break
		}
		if out, again, err := t.claimedFor(ctx, owner); !again {
			return out, true, err
		}
	}
	return Sold{}, false, nil
}

// claimedFor decides about a sale whose key is claimed for another product: if the answer for that product still
// exists, it is the earlier answer; otherwise the claim is void, and the sale may try again.
func (t *selling) claimedFor(ctx context.Context, owner string) (out Sold, again bool, err error) {
	product, made := parseOwner(owner)
	kept, err := t.r.answer(ctx, product, t.Key)
	switch {
	case err != nil:
		return Sold{}, false, err
	case kept != "":
		out, err = earlier(kept)
		return out, false, err
	}
	if held := time.Since(made); held < claimGrace {
		return Sold{}, false, &KeyBusyError{Product: product, Held: held, Left: claimGrace - held}
	}
	t.void = owner
	return Sold{}, true, nil
}

// parseOwner parses the owner of a claim: the product and, on a cluster, the time of the claim.
func parseOwner(owner string) (product int64, made time.Time) {
	id, since, spread := strings.Cut(owner, "@")
	product, _ = strconv.ParseInt(id, 10, 64) // 0, which is no product's id, if it is not a number
	if ms, err := strconv.ParseInt(since, 10, 64); spread && err == nil {
		made = time.UnixMilli(ms)
	}
	return product, made
}

// unclaim shortens the claim of a sale that did not take place. If that fails, the claim only lives longer.
func (t *selling) unclaim() {
	_, _ = t.r.eval(unclaimScript, []string{t.r.claimKey(t.Key)}, []any{t.own, refusedClaim.Milliseconds()})
}
