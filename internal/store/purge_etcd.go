package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdPurgeBatch stays below the 128 operations that a transaction of etcd may have.
const etcdPurgeBatch = 100

// Purge removes old orders until none is left, and returns how many. The server frees their space at its next compaction. etcd
// stores no answers.
func (e *Etcd) Purge(ctx context.Context, keep Retention) (sum Purged, err error) {
	if keep.Orders == 0 {
		return sum, nil
	}
	asked, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	head := e.prefix + "initial/"
	products, err := e.c.Get(asked, head, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return sum, etcdReadError(err)
	}
	var errs []error
	for _, kv := range products.Kvs {
		product, err := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), head), 10, 64)
		if err != nil {
			continue // not a key of ours
		}
		gone, err := batches(ctx, func() (Purged, bool, error) { return e.purge(ctx, product, cutoff(keep.Orders)) })
		sum.add(gone)
		errs = append(errs, err)
	}
	return sum, errors.Join(errs...)
}

// purge removes one batch. Order ids begin with their time, so the first keys are the oldest. The transaction succeeds only if nobody
// has purged, or set the stock, since the orders were read.
func (e *Etcd) purge(ctx context.Context, product, before int64) (gone Purged, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	read, err := e.c.Txn(ctx).Then(
		clientv3.OpGet(e.key("initial", product)), clientv3.OpGet(e.key("purged", product)),
		clientv3.OpGet(e.orderPrefix(product), clientv3.WithPrefix(), clientv3.WithLimit(etcdPurgeBatch)),
	).Commit()
	if err != nil {
		return gone, false, etcdReadError(err)
	}
	initial, purged := read.Responses[0].GetResponseRange().Kvs, read.Responses[1].GetResponseRange().Kvs
	sum, err := purgedSince(initial, purged)
	if err != nil {
		return gone, false, err
	}
	gone, ops, err := oldOrders(read.Responses[2].GetResponseRange().Kvs, before)
	if err != nil || gone.Orders == 0 {
		return gone, false, err
	}
	sum.add(gone)
	value, err := json.Marshal(sum)
	if err != nil {
		return Purged{}, false, err
	}
	same := []clientv3.Cmp{unchanged(e.key("initial", product), initial), unchanged(e.key("purged", product), purged)}
	res, err := e.c.Txn(ctx).If(same...).Then(append(ops, clientv3.OpPut(e.key("purged", product), string(value)))...).Commit()
	if err != nil {
		return Purged{}, false, etcdWriteError(err)
	}
	if !res.Succeeded { // another replica was first
		return Purged{}, true, nil
	}
	return gone, gone.Orders == etcdPurgeBatch, nil
}

// unchanged compares a key's revision with that of an earlier read; 0 = it does not exist.
func unchanged(key string, kvs []*mvccpb.KeyValue) clientv3.Cmp {
	var revision int64
	if len(kvs) > 0 {
		revision = kvs[0].ModRevision
	}
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// oldOrders sums the old orders at the start, and returns the operations that delete them.
func oldOrders(kvs []*mvccpb.KeyValue, before int64) (sum Purged, ops []clientv3.Op, err error) {
	for _, kv := range kvs {
		var o Order
		if err := json.Unmarshal(kv.Value, &o); err != nil {
			return Purged{}, nil, fmt.Errorf("%w: order %s: %w", ErrUnavailable, kv.Key, err)
		}
		if o.CreatedMicros >= before {
			break
		}
		sum.add(Purged{Orders: 1, Units: o.Quantity})
		ops = append(ops, clientv3.OpDelete(string(kv.Key)))
	}
	return sum, ops, nil
}
