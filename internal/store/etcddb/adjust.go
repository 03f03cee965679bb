package etcddb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// mostAdjustments is how many adjustments of a run are kept: all are in one value, so that a transaction can compare
// it. The setting includes older ones, and their keys are forgotten.
const mostAdjustments = 1000

// Adjust is like that of sqldb, in one transaction that is carried out only if nobody has written the count since it
// was read, else [store.ErrConflict]. The time is the replica's.
func (e *Store) Adjust(ctx context.Context, product int64, a ledger.Adjustment, look bool) (done ledger.Adjustment,
	earlier bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	res, err := e.c.Txn(ctx).Then(e.askFacts(product)...).Commit()
	if err != nil {
		return a, false, readError(err)
	}
	f, err := decodeFacts(res, product)
	if err != nil {
		return a, false, err
	}
	for _, first := range f.Adjustments {
		switch {
		case len(first.Key) == 0 || !bytes.Equal(first.Key, a.Key):
		case first.Delta != a.Delta || first.Reason != a.Reason:
			return a, false, idempotency.ErrKeyReused
		default:
			return first, true, nil
		}
	}
	a.Initial, a.Stock, a.AtMicros = f.Initial+a.Delta, f.Stock+a.Delta, time.Now().UnixMicro()
	if a.Stock < 0 {
		return a, false, &ledger.ShortError{Err: store.ErrShort, ProductID: product, Requested: -a.Delta,
			Available: f.Stock}
	}
	if look {
		return a, false, nil
	}
	now := res.Responses[0].GetResponseRange().Kvs[0]
	mark := strings.TrimSuffix(string(now.Value), strconv.FormatInt(f.Stock, 10))
	rows, err := json.Marshal(kept(append(f.Adjustments, a)))
	if err != nil {
		return a, false, err
	}
	res, err = e.c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(now.Key)), "=", now.ModRevision)).Then(
		clientv3.OpPut(string(now.Key), mark+strconv.FormatInt(a.Stock, 10)),
		clientv3.OpPut(e.key("initial", product), strconv.FormatInt(a.Initial, 10)),
		clientv3.OpPut(e.key("adjusts", product), string(rows)),
	).Commit()
	if err == nil && !res.Succeeded {
		err = fmt.Errorf("%w: etcd: the count was written since it was read", store.ErrConflict)
	} else {
		err = writeError(err)
	}
	return a, false, err
}

// kept are the rows to keep.
func kept(rows []ledger.Adjustment) []ledger.Adjustment {
	for len(rows) > mostAdjustments {
		rows[1] = ledger.Adjustment{Delta: rows[0].Delta + rows[1].Delta, AtMicros: rows[0].AtMicros,
			Older: rows[0].Older + 1}
		rows = rows[1:]
	}
	return rows
}
