package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A purge removes the answers to idempotency keys that are older than their retention, step by step. Any number of
// replicas may purge at the same time, and die while they do. Orders stay until the stock is set again.

// purgeBatch is the maximum number of keys in one transaction. The pause between two steps is as long as the last step
// took, so that a purge uses a store for at most half of the time; purgeRest is the shortest pause.
const (
	purgeBatch = 200
	purgeRest  = 5 * time.Millisecond
)

// inSteps calls step until it finds nothing more, or fails, or ctx ends, and sums the removals.
func inSteps(ctx context.Context, step func() (gone int64, more bool, err error)) (sum int64, err error) {
	for more := true; more && ctx.Err() == nil; {
		var gone int64
		begun := time.Now()
		gone, more, err = step()
		sum += gone
		if err != nil {
			return sum, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(purgeRest, time.Since(begun))):
		}
	}
	return sum, ctx.Err()
}

// purgeTimeout bounds one transaction. It is longer than a statement waits for SQLite's write lock, so a wait in vain
// is a conflict.
const purgeTimeout = 15 * time.Second

// Purge removes the keys of sales that are older than keep, which is above 0, until none is left, and returns how many.
// It locks no row that a sale needs, unless a key is repeated at the moment of its removal. If a transaction fails,
// those before it are committed.
func (s *SQL) Purge(ctx context.Context, keep time.Duration) (int64, error) {
	return inSteps(ctx, func() (int64, bool, error) {
		return s.purge(ctx, http.StatusOK, time.Now().Add(-keep).UnixMicro())
	})
}

// A refusal costs the client nothing, so clients can cause any number of them. Each keeps a row of up to 1 kB.
const (
	keepRefusals = 10 * time.Minute
	mostRefusals = 50_000
)

// PurgeRefusals is like [SQL.Purge] for the keys of refusals: it removes those that are older than keep (0 = forever)
// or than ten minutes, and of the others all but the newest 50,000 of all products. A request whose refusal was
// forgotten is executed again, which is safe: the refusal changed nothing.
func (s *SQL) PurgeRefusals(ctx context.Context, keep time.Duration) (int64, error) {
	if keep == 0 {
		keep = keepRefusals
	}
	var surplus int64 // when the newest of those beyond 50,000 was made; 0 = there are none
	err := s.db.WithContext(ctx).Raw(s.q.SurplusKeys, http.StatusConflict, mostRefusals).Scan(&surplus).Error
	if err != nil {
		return 0, statementError(err)
	}
	return inSteps(ctx, func() (int64, bool, error) {
		before := time.Now().Add(-min(keep, keepRefusals)).UnixMicro()
		return s.purge(ctx, http.StatusConflict, max(before, surplus+1))
	})
}

// purge finds the oldest keys without a lock, and removes them. A key that was removed and used again meanwhile stays.
func (s *SQL) purge(ctx context.Context, status int, before int64) (gone int64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	old, err := allRows(ctx, s.pool(), column[any], s.q.OldKeys, status, before, purgeBatch)
	if err != nil || len(old) == 0 {
		return 0, false, err
	}
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) (err error) {
		gone, err = tx.affected(list(s.q.PurgeKeys, len(old)), append(old, before)...)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return gone, len(old) == purgeBatch, nil
}

//go:embed lua/purge.lua
var purgeSource string

var purgeScript = redis.NewScript(purgeSource)

// scanCount is how many keys one SCAN inspects; Redis does nothing else meanwhile.
const scanCount = 500

// Purge removes answers to sales that are older than keep, which is above 0, at the latest at twice that age, and
// returns how many. It finds the products with SCAN. If one product fails, Purge still handles the others, and returns
// the error.
func (r *Redis) Purge(ctx context.Context, keep time.Duration) (int64, error) {
	var sum atomic.Int64 // the masters are scanned at the same time
	err := r.eachServer(ctx, func(ctx context.Context, server redis.Cmdable) error {
		gone, err := r.scan(ctx, server, "answers", func(product int64) (int64, error) {
			answers := []string{r.key("answers", product), r.key("answers-old", product), r.key("answers-moved", product)}
			n, err := purgeScript.Run(ctx, r.c, answers, keep.Milliseconds()).Int64()
			return n, writeError(err)
		})
		sum.Add(gone)
		return err
	})
	return sum.Load(), err
}

// eachServer calls do for the server, on a cluster for all masters at the same time.
func (r *Redis) eachServer(ctx context.Context, do func(ctx context.Context, server redis.Cmdable) error) error {
	cluster, ok := r.c.(*redis.ClusterClient)
	if !ok {
		return do(ctx, r.c)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return do(ctx, master) })
}

// scan calls do for the products that have a key of a family on one server, and sums what it returns. If one product
// fails, the others are still handled.
func (r *Redis) scan(ctx context.Context, server redis.Cmdable, family string,
	do func(product int64) (int64, error)) (int64, error) {
	var errs []error
	var cursor uint64
	head := r.prefix + family + ":{"
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	sum, err := inSteps(ctx, func() (gone int64, more bool, err error) {
		var keys []string
		if keys, cursor, err = server.Scan(ctx, cursor, glob.Replace(head)+"*}", scanCount).Result(); err != nil {
			return 0, false, fmt.Errorf("%w: redis: %w", ErrUnavailable, err)
		}
		for _, key := range keys {
			id, ok := strings.CutSuffix(strings.TrimPrefix(key, head), "}")
			product, err := strconv.ParseInt(id, 10, 64)
			if !ok || err != nil {
				continue // not a key of ours
			}
			n, err := do(product)
			gone += n
			errs = append(errs, err)
		}
		return gone, cursor != 0, nil
	})
	return sum, errors.Join(append(errs, err)...)
}
