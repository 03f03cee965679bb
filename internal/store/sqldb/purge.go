package sqldb

import (
	"context"
	"net/http"
	"time"

	"lastitem/internal/store"
)

// A purge removes the answers to idempotency keys that are older than their retention, step by step. Any number of
// replicas may purge at the same time, and die while they do. Orders stay until the stock is set again.

// purgeBatch is the maximum number of keys in one transaction.
const purgeBatch = 200

// purgeTimeout bounds one transaction. It is longer than a statement waits for SQLite's write lock, so a wait in vain
// is a conflict.
const purgeTimeout = 15 * time.Second

// Purge removes the keys of sales that are older than keep, which is above 0, until none is left, and returns how many.
// It locks no row that a sale needs, unless a key is repeated at the moment of its removal. If a transaction fails,
// those before it are committed.
func (s *Store) Purge(ctx context.Context, keep time.Duration) (int64, error) {
	return store.InSteps(ctx, func() (int64, bool, error) {
		return s.purge(ctx, http.StatusOK, time.Now().Add(-keep).UnixMicro())
	})
}

// A refusal costs the client nothing, so clients can cause any number of them. Each keeps a row of up to 1 kB.
const (
	keepRefusals = 10 * time.Minute
	mostRefusals = 50_000
)

// PurgeRefusals is like [Store.Purge] for the keys of refusals: it removes those that are older than keep (0 = forever)
// or than ten minutes, and of the others all but the newest 50,000 of all products. A request whose refusal was
// forgotten is executed again, which is safe: the refusal changed nothing.
func (s *Store) PurgeRefusals(ctx context.Context, keep time.Duration) (int64, error) {
	if keep == 0 {
		keep = keepRefusals
	}
	var surplus int64 // when the newest of those beyond 50,000 was made; 0 = there are none
	err := s.db.WithContext(ctx).Raw(s.q.SurplusKeys, http.StatusConflict, mostRefusals).Scan(&surplus).Error
	if err != nil {
		return 0, statementError(err)
	}
	return store.InSteps(ctx, func() (int64, bool, error) {
		before := time.Now().Add(-min(keep, keepRefusals)).UnixMicro()
		return s.purge(ctx, http.StatusConflict, max(before, surplus+1))
	})
}

// purge finds the oldest keys without a lock, and removes them. A key that was removed and used again meanwhile stays.
func (s *Store) purge(ctx context.Context, status int, before int64) (gone int64, more bool, err error) {
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
