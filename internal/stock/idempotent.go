package stock

import (
	"context"
	"errors"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// idempotent makes a repeated request harmless: the key's row, the conditional update and the order are one
// transaction, so that either all three are there or none. A lock on the key answers "in flight" to most rivals; where
// it is lost, the unique index blocks the rival until the first has committed, and then the rival replays the first
// answer. So it is while Redis is out, too: nobody waits for the lock.
//
//	A   INSERT key ── UPDATE stock ── INSERT order ── keep answer ── COMMIT ── answer lost
//	A again, same key     INSERT IGNORE: 0 rows ── the answer kept: same status, same bytes, no second charge
var idempotent = Mode{
	Name:        "idempotent",
	Title:       text.Of("Key row, conditional update and order in one transaction; the first answer is replayed"),
	Needs:       []Backend{NeedRedis, NeedSQL},
	Optional:    []Backend{NeedRedis},
	Stores:      []Store{SQL},
	Cart:        true,
	KeyRequired: true,
	PerBuyer:    true,
	Adjusts:     true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: ".", Retry: ".",
			LateWrite: "."},
	},
	New: func(d Deps) (Deductor, error) {
		l, _ := d.Lockers.handoff() // without an engine, nothing is ever locked
		keys := &idempotency.Lock{Locker: l, Client: d.Lockers.Client, Prefix: d.Lockers.Prefix, TTL: d.Lockers.TTL}
		return idempotentDeductor{d, keys, newQueue(d)}, nil
	},
}

type idempotentDeductor struct {
	deps Deps
	keys *idempotency.Lock
	// crowd refuses those who come too late together: the answers of a batch are kept in one transaction, where each alone
	// would take a lock on its key and a commit.
	crowd *queueDeductor
}

func (i idempotentDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	if len(req.Items) == 1 && i.deps.SoldOut(req.Items[0].ProductID) {
		r, err := i.crowd.Deduct(ctx, req)
		if !errors.Is(err, ErrOtherWay) { // else it has a limit per buyer, which a batch does not keep to
			return r, err
		}
	}
	lease, err := i.deps.Optional(ctx, func(ctx context.Context) (lock.Lease, error) {
		return i.keys.Acquire(ctx, req.Key)
	})
	if err != nil {
		return Receipt{}, err
	}
	defer i.deps.Locks.Release(ctx, lease)
	return once(ctx, i.deps, req, i.take)
}

// taking takes the units of a request and inserts its order. A refusal is returned separately, because an error would
// roll the key back too.
type taking func(ctx context.Context, tx *sqldb.Tx, req Request) (r Receipt, refusal, err error)

// once executes the request, or finds the answer of an earlier execution.
func once(ctx context.Context, d Deps, req Request, take taking) (r Receipt, err error) {
	claim := idempotency.Claim{Key: req.Key, Product: req.Items[0].ProductID, Mode: d.Orders.Mode}
	if claim.Fingerprint, err = fingerprint(req); err != nil {
		return Receipt{}, err
	}
	ctx, cancel := Settling(ctx)
	defer cancel()
	var refusal error // sold_out is an answer too: it is committed and kept
	err = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {
		answer, replayed, err := claim.Once(tx, func() (a idempotency.Answer, err error) {
			if r, refusal, err = take(ctx, tx, req); err == nil {
				a = req.Answer(r, refusal)
			}
			return a, err
		})
		if err != nil {
			return err
		}
		if r.Stored, r.Replayed = &answer, replayed; replayed {
			return nil
		}
		return Begin(ctx)
	})
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Committed, "")
	return r, refusal
}

// fingerprint returns the fingerprint of a request's payload: its items, its store and its buyer.
func fingerprint(req Request) ([]byte, error) {
	return idempotency.Fingerprint(struct {
		Items []Item
		Store Store
		Buyer string `json:",omitempty"`
	}{req.Items, req.Store, req.Buyer})
}

// take does the conditional update and inserts the order. If a cart is refused, the items taken before the short one
// are rolled back, and the key stays.
func (i idempotentDeductor) take(ctx context.Context, tx *sqldb.Tx, req Request) (r Receipt, refusal, err error) {
	d, cart := i.deps, len(req.Items) > 1
	if cart {
		if err := tx.Savepoint(); err != nil {
			return Receipt{}, nil, err
		}
	}
	remaining, refusal, err := takeAll(tx, req.Items)
	limited := errors.Is(err, ErrOtherWay)
	if limited {
		remaining, refusal, err = takeLimited(tx, req, err)
	}
	if (cart || limited) && refusal != nil {
		err = tx.RollbackToSavepoint()
	}
	if err != nil || refusal != nil {
		return Receipt{}, refusal, err
	}
	d.Steps.At(ctx, step.Written, "")
	orders, err := d.Orders.Cart(req, remaining, 0)
	if err != nil {
		return Receipt{}, nil, err
	}
	for i := range orders {
		if limited {
			orders[i].Buyer = req.Buyer
		}
	}
	if err := insertAll(tx, orders); err != nil {
		return Receipt{}, nil, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return receiptOf(orders), nil, nil
}
