// Package etcddb keeps the count and the orders in etcd; [New] makes the [Store]. See package store for what a store
// is, and for its errors.
package etcddb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Store keeps the count and the orders in etcd, whose transactions write several keys or none, under conditions on
// others.
//
// Keys, after the prefix:
//
//	stock/101               the count, or "segmented:5000" of a product that is segmented in Redis
//	initial/101             what Reset set, and adjustments have changed since
//	adjusts/101             what initial is the sum of, JSON: the setting, then the adjustments
//	orders/101/<order id>   an order, JSON
type Store struct {
	c      *clientv3.Client
	prefix string
	within time.Duration
}

// New returns the store on c. Every key starts with prefix.
func New(c *clientv3.Client, prefix string) *Store {
	return &Store{c: c, prefix: prefix, within: timeout}
}

// AnswersWithin sets the time limit of each request; the default is three seconds. Call it before the first request.
func (e *Store) AnswersWithin(d time.Duration) { e.within = d }

// timeout bounds a request: the client waits for a server that is down for as long as it is allowed to.
const timeout = 3 * time.Second

func (e *Store) key(family string, product int64) string {
	return fmt.Sprintf("%s%s/%d", e.prefix, family, product)
}

func (e *Store) orderPrefix(product int64) string { return e.key("orders", product) + "/" }

// Read returns the count of a product that is not segmented, and the revision that wrote it. It is linearizable: it
// sees every write acknowledged before, whichever member answers.
func (e *Store) Read(ctx context.Context, product int64) (stock, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	res, err := e.c.Get(ctx, e.key("stock", product))
	if err != nil {
		return 0, 0, readError(err)
	}
	if len(res.Kvs) == 0 {
		return 0, 0, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	stock, err = store.ParseCount(string(res.Kvs[0].Value), product)
	return stock, res.Kvs[0].ModRevision, err
}

// Write sets the count absolutely and adds the order, in one transaction that the server carries out only if guard
// holds, and the count is still of the revision at which it was read; ok is false when not, and nothing was written.
// [store.ErrConflict]: the guard holds, and the count was written since.
func (e *Store) Write(ctx context.Context, guard clientv3.Cmp, revision, stock int64, o ledger.Order) (ok bool,
	err error) {
	row, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	count := e.key("stock", o.ProductID)
	res, err := e.c.Txn(ctx).If(guard, clientv3.Compare(clientv3.ModRevision(count), "=", revision)).Then(
		clientv3.OpPut(count, strconv.FormatInt(stock, 10)),
		clientv3.OpPut(e.orderPrefix(o.ProductID)+o.ID, string(row)),
	).Else(clientv3.OpTxn([]clientv3.Cmp{guard}, nil, nil)).Commit()
	switch {
	case err != nil:
		return false, writeError(err)
	case !res.Succeeded && res.Responses[0].GetResponseTxn().GetSucceeded():
		return false, fmt.Errorf("%w: etcd: the count was written since it was read", store.ErrConflict)
	}
	return res.Succeeded, nil
}

// Reset sets the stock of a product and deletes its orders. Segments are Redis's, and no mode keeps to a limit per
// buyer here: a product that has them is only marked.
func (e *Store) Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	count := strconv.FormatInt(stock, 10)
	initial := count
	switch {
	case rules.Segments > 0:
		count = store.SegmentedMark + count
	case rules.PerBuyer > 0:
		count = store.Limited(count, rules.PerBuyer)
	}
	set, err := json.Marshal([]ledger.Adjustment{{Delta: stock, Initial: stock, Stock: stock,
		AtMicros: time.Now().UnixMicro()}})
	if err != nil {
		return err
	}
	_, err = e.c.Txn(ctx).Then(
		clientv3.OpPut(e.key("stock", product), count),
		clientv3.OpPut(e.key("initial", product), initial),
		clientv3.OpPut(e.key("adjusts", product), string(set)),
		clientv3.OpDelete(e.orderPrefix(product), clientv3.WithPrefix()),
	).Commit()
	return writeError(err)
}

// Facts reads the counts of a product.
func (e *Store) Facts(ctx context.Context, product int64) (ledger.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	res, err := e.c.Txn(ctx).Then(e.askFacts(product)...).Commit()
	if err != nil {
		return ledger.Facts{}, readError(err)
	}
	return decodeFacts(res, product)
}

// askFacts are the reads whose answers decodeFacts decodes.
func (e *Store) askFacts(product int64) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(e.key("stock", product)), clientv3.OpGet(e.key("initial", product)),
		clientv3.OpGet(e.key("adjusts", product))}
}

// decodeFacts decodes the answers to askFacts: a product's count and its initial count.
func decodeFacts(res *clientv3.TxnResponse, product int64) (f ledger.Facts, err error) {
	for i, dest := range []*int64{&f.Stock, &f.Initial} {
		kvs := res.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 {
			if len(res.Responses[1-i].GetResponseRange().Kvs) > 0 {
				return ledger.Facts{}, store.CountLost("etcd", product)
			}
			return ledger.Facts{}, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
		}
		_, count := store.Marked(string(kvs[0].Value))
		if *dest, err = store.Number(count, product); err != nil {
			return ledger.Facts{}, err
		}
	}
	for _, kv := range res.Responses[2].GetResponseRange().Kvs {
		if err := json.Unmarshal(kv.Value, &f.Adjustments); err != nil {
			return f, fmt.Errorf("%w: etcd: the adjustments of product %d: %w", store.ErrUnavailable, product, err)
		}
	}
	return f, nil
}

func decodeOrders(kvs []*mvccpb.KeyValue) ([]ledger.Order, error) {
	if len(kvs) == 0 {
		return nil, nil
	}
	all := make([]ledger.Order, len(kvs))
	for i, kv := range kvs {
		if err := json.Unmarshal(kv.Value, &all[i]); err != nil {
			return nil, fmt.Errorf("%w: order %s: %w", store.ErrUnavailable, kv.Key, err)
		}
	}
	return all, nil
}

// readError maps an error of a read: nothing was changed.
func readError(err error) error { return fmt.Errorf("%w: etcd: %w", store.ErrUnavailable, err) }

// writeError maps an error of a write: a write that the server refused changed nothing. Any other error leaves the
// outcome open. That includes "unavailable": it also comes from a member that lost its leader, or a client that lost
// its connection, after the write was proposed.
func writeError(err error) error {
	if err == nil {
		return nil
	}
	if Answered(err) {
		return fmt.Errorf("%w: etcd: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: etcd: %w", store.ErrUnknown, err)
}

// Answered reports whether err is a server's answer: the server is reachable but refuses.
func Answered(err error) bool {
	var answered rpctypes.EtcdError
	return errors.As(err, &answered) && slices.Contains(refusals, answered.Code())
}

// refusals are the codes of errors such as a request that is too large, a database without space, a missing
// permission.
var refusals = []codes.Code{
	codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted, codes.PermissionDenied,
	codes.Unauthenticated,
}
