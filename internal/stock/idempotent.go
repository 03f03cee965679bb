package stock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/step"
	"lastitem/internal/store"
)

// idempotent makes a repeated request harmless: the key's row, the conditional update and the order are one transaction, so
// that either all three are there or none. A lock on the key answers "in flight" to most rivals; where it is lost, the
// unique index holds the rival until the first has committed, and then the rival replays the first answer.
//
//	A   INSERT key ── UPDATE stock ── INSERT order ── keep answer ── COMMIT ── answer lost
//	A again, same key     INSERT IGNORE: 0 rows ── the answer kept: same status, same bytes, no second charge
var idempotent = Mode{
	Name:        "idempotent",
	Title:       Text{"Key row, conditional update and order in one transaction; the first answer is replayed", "幂等：幂等键、条件更新、订单同一事务，重复请求原样返回首次结果"},
	Needs:       []Backend{NeedRedis, NeedSQL},
	Stores:      []Store{SQL},
	Cart:        true,
	KeyRequired: true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: ".", Retry: ".", LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		l, err := d.handoff()
		return idempotentDeductor{d, l}, err
	},
}

type idempotentDeductor struct {
	deps   Deps
	locker lock.Locker
}

func (i idempotentDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	key := i.deps.keyLock(req.Key)
	lease, err := i.locker.Acquire(lock.WithWait(ctx, 0), key)
	if errors.Is(err, ErrLockBusy) {
		return Receipt{}, i.deps.inFlight(ctx, key, err)
	}
	if err != nil {
		return Receipt{}, err
	}
	defer i.deps.release(ctx, lease)
	defer i.deps.forget(ctx, lease, key)
	return i.once(ctx, req)
}

// inFlight is the error of a request whose key is locked. Its holder renews the lock while it is alive, and a process that was killed
// leaves it behind for its TTL: the error says how much of that is over, and how much is left.
func (d Deps) inFlight(ctx context.Context, key string, cause error) error {
	left, err := d.Client.PTTL(ctx, key).Result()
	if err != nil {
		left = 0 // the error works without it
	}
	left = max(left, 0)
	return &InFlightError{Held: max(d.LockTTL-left, 0), Left: left, Cause: cause}
}

// forget deletes the fencing counter of a lock that is held, and that nobody waits for. The engine keeps it for days, so that it
// never goes back; but there are as many of these keys as there are requests, and nobody reads their fences.
func (d Deps) forget(ctx context.Context, lease lock.Lease, key string) {
	if errors.Is(context.Cause(lease.Context()), lock.ErrLost) {
		return // it is somebody else's by now
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	_ = d.Client.Del(ctx, handoff.KeysOf(key).Fence).Err() // otherwise the counter stays for those days
}

// keyLock names the lock on an idempotency key: its hash, since a key may be any bytes.
func (d Deps) keyLock(key []byte) string {
	sum := sha256.Sum256(key)
	return fmt.Sprintf("%slock:key:{%s}", d.Prefix, hex.EncodeToString(sum[:16]))
}

// fingerprint tells one payload from another under the same key: the first must not be answered for the second.
func fingerprint(req Request) ([]byte, error) {
	payload, err := json.Marshal(struct {
		Items []Item
		Store Store
	}{req.Items, req.Store})
	sum := sha256.Sum256(payload)
	return sum[:], err
}

// once executes the request, or finds the answer of the one that did.
func (i idempotentDeductor) once(ctx context.Context, req Request) (r Receipt, err error) {
	payload, err := fingerprint(req)
	if err != nil {
		return Receipt{}, err
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	var refusal error // sold_out is an answer: it is committed and kept like any other
	err = i.deps.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {
		first, earlier, err := tx.ClaimKey(req.Key, req.Items[0].ProductID, payload, time.Now().UnixMicro())
		if err != nil {
			return err
		}
		if !first {
			r, err = replay(earlier, payload, i.deps.mode)
			return err
		}
		if r, refusal, err = i.take(ctx, tx, req); err != nil {
			return err
		}
		answer := req.Answer(r, refusal)
		r.Stored = &answer
		if err := tx.KeepAnswer(req.Key, store.Answer{Status: answer.Status, Body: answer.Body, Mode: i.deps.mode}); err != nil {
			return err
		}
		return begin(ctx)
	})
	if err != nil {
		return Receipt{}, err
	}
	i.deps.Steps.At(ctx, step.Committed, "")
	return r, refusal
}

// replay returns the earlier answer, unless it belongs to another payload or another mode.
func replay(earlier store.Answer, payload []byte, mode string) (Receipt, error) {
	if !bytes.Equal(earlier.Fingerprint, payload) || earlier.Mode != "" && earlier.Mode != mode {
		return Receipt{}, ErrKeyReused
	}
	return Receipt{Stored: &idempotency.Answer{Status: earlier.Status, Body: earlier.Body}, Replayed: true}, nil
}

// take is the conditional update and the order. A refusal is returned apart from an error, which rolls the key back too; of a
// cart that is refused, what was taken before the short item is rolled back, and the key stays.
func (i idempotentDeductor) take(ctx context.Context, tx *store.Tx, req Request) (r Receipt, refusal, err error) {
	d, cart := i.deps, len(req.Items) > 1
	if cart {
		if err := tx.Savepoint(); err != nil {
			return Receipt{}, nil, err
		}
	}
	remaining, refusal, err := takeAll(tx, req.Items)
	if cart && refusal != nil {
		err = tx.RollbackToSavepoint()
	}
	if err != nil || refusal != nil {
		return Receipt{}, refusal, err
	}
	d.Steps.At(ctx, step.Written, "")
	orders, err := d.newOrders(req, remaining, 0)
	if err != nil {
		return Receipt{}, nil, err
	}
	if err := insertAll(tx, orders); err != nil {
		return Receipt{}, nil, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return receiptOf(orders), nil, nil
}
