package plain

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Etcd sells under a lock of etcd, and writes in a transaction that asks whether the lock is still ours: if it is not,
// nothing is written. The stock is the key stock/101, and each order a key under orders/101/.
//
// Traps: every writer must take the lock, restocks too, or compare the stock's revision as well. Two mutexes of one
// session on one key do not exclude each other, hence a session for each sale. Close ends the lock at once; without
// it the lock ends with the session's TTL. An error of Commit is unknown: the sale may stand.
func Etcd(ctx context.Context, c *clientv3.Client, product, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	held := concurrency.NewMutex(session, fmt.Sprintf("lock/%d", product))
	if err := held.Lock(ctx); err != nil {
		return err
	}
	stock := fmt.Sprintf("stock/%d", product)
	got, err := c.Get(ctx, stock)
	if err != nil {
		return err
	}
	if len(got.Kvs) == 0 {
		return ErrSoldOut
	}
	units, err := strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
	if err != nil || units < quantity {
		return cmp.Or(err, ErrSoldOut)
	}
	done, err := c.Txn(ctx).If(held.IsOwner()).Then(
		clientv3.OpPut(stock, fmt.Sprint(units-quantity)),
		clientv3.OpPut(fmt.Sprintf("orders/%d/%s", product, rand.Text()), fmt.Sprint(quantity)),
	).Commit()
	if err == nil && !done.Succeeded {
		err = ErrContended
	}
	return err
}
