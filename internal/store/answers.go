package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The answers that Redis keeps under idempotency keys, for [Redis.Sell] to find.
//
// Those of a product lie in four hashes, so that a reset frees them without looking for them, and so that they go as a whole:
//
//	answers:{101}       of sales, and what a replica without retention has written; under "" the name of the run
//	answers-old:{101}   what was in answers before the purge moved it here; the next time it is dropped
//	refusals:{101}      of refusals, at most 10,000, and ten minutes from the last one on
//	refusals-old:{101}  the 10,000 before them
//	key:<key>           for which product the key is claimed: the same key for another product is another payload
//
// An answer to a sale is kept for [Redis.KeepAnswers] at least, and twice that at most: its claim lives that long, and without one
// answers-old is not asked, but on a cluster, where the script does not see it. There are as many of them as units were
// sold, so stock bounds them, and only an administrator sets stock. A refusal costs its sender nothing: of a product at most 20,000 are
// kept, some 400 bytes each: 8 MB; beside each its claim, some 150 bytes for ten seconds: 15 MB at 10,000 refusals a second. Of a
// product that nobody made nothing is kept. A refusal that is forgotten is asked again: it has moved nothing.
//
// On a cluster the claim lies in another slot than the product. It is made first, by a script of its own, and a refusal shortens it.

//go:embed lua/claim.lua
var claimSource string

var claimScript = redis.NewScript(claimSource)

// DefaultKeepAnswers is how long answers are kept where nothing else is set.
const DefaultKeepAnswers = 24 * time.Hour

const (
	// refusedClaim is how long a claim outlives a refusal on a cluster; sell.lua says the same.
	refusedClaim = 10 * time.Second
	// claimGrace is how long a claim without an answer may belong to a sale that is under way.
	claimGrace = 30 * time.Second
)

// ErrKeyBusy says that the idempotency key is claimed by a sale of another product that may be under way. Nothing was changed.
var ErrKeyBusy = errors.New("store: the idempotency key is in use for another product")

// KeepAnswers sets how long the answer to a sale is kept at least, 0 = forever. It is to be called before the first sale.
func (r *Redis) KeepAnswers(d time.Duration) { r.keep = d }

func (r *Redis) claimKey(key []byte) string { return r.prefix + "key:" + string(key) }

// answerKeys are the hashes of a product, in the order in which the script has them.
func (r *Redis) answerKeys(product int64) []string {
	return []string{
		r.key("answers", product), r.key("answers-old", product), r.key("refusals", product), r.key("refusals-old", product),
	}
}

// newRunName draws a name for the time from one reset of a product to the next.
func newRunName() string { return "run-" + strconv.FormatUint(rand.Uint64(), 36) }

// answer returns what is kept under a key for a product, "" = nothing.
func (r *Redis) answer(ctx context.Context, product int64, key []byte) (string, error) {
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

// claim claims the key of a sale on a cluster. done says that the sale is not to go on.
func (t *selling) claim(ctx context.Context) (out Sold, done bool, err error) {
	own := fmt.Sprintf("%d@%d", t.Orders[0].ProductID, time.Now().UnixMilli())
	for !t.claimed {
		reply, err := t.r.scripts.eval(claimScript, []string{t.r.claimKey(t.Key)}, []any{own, t.void, t.r.keep.Milliseconds()})
		if err != nil { // whether it is claimed or not: no stock has moved
			return Sold{}, true, fmt.Errorf("%w: redis: %w", ErrUnavailable, err)
		}
		owner, _ := reply.(string)
		product, _ := parseOwner(owner)
		if t.claimed = product == t.Orders[0].ProductID; t.claimed {
			break
		}
		if out, again, err := t.claimedFor(ctx, owner); !again {
			return out, true, err
		}
	}
	return Sold{}, false, nil
}

// claimedFor is what becomes of a sale whose key another product has claimed: where the answer for that is still there, it is the
// earlier one; else the claim is void, and the sale may try again.
func (t *selling) claimedFor(ctx context.Context, owner string) (out Sold, again bool, err error) {
	product, made := parseOwner(owner)
	kept, err := t.r.answer(ctx, product, t.Key)
	switch {
	case err != nil:
		return Sold{}, false, err
	case kept != "":
		out, err = earlier(kept)
		return out, false, err
	case time.Since(made) < claimGrace:
		return Sold{}, false, fmt.Errorf("%w: %d", ErrKeyBusy, product)
	}
	t.void = owner
	return Sold{}, true, ctx.Err()
}

// parseOwner reads for which product a key is claimed and, on a cluster, since when.
func parseOwner(owner string) (product int64, made time.Time) {
	id, since, spread := strings.Cut(owner, "@")
	product, _ = strconv.ParseInt(id, 10, 64) // 0, which no product has, where it is nobody's
	if ms, err := strconv.ParseInt(since, 10, 64); spread && err == nil {
		made = time.UnixMilli(ms)
	}
	return product, made
}

// unclaim shortens the claim of a sale that did not take place. Where that fails, the claim only stays longer.
func (t *selling) unclaim(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedClaim)
	defer cancel()
	_ = t.r.c.PExpire(ctx, t.r.claimKey(t.Key), refusedClaim).Err()
}
