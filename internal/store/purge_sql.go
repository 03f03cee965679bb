package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// purgeTimeout bounds one batch.
const purgeTimeout = 10 * time.Second

// Purge removes old keys and orders until none is left, and returns how many. It locks nothing that a sale needs, but for a key that
// is repeated in the moment in which it goes. An error is that of one batch; those before it are done.
func (s *SQL) Purge(ctx context.Context, keep Retention) (Purged, error) {
	sum, err := batches(ctx, func() (Purged, bool, error) {
		return purge[[]byte](ctx, s, removal{s.q.oldKeys, cutoff(keep.Keys), (*Tx).purgeKeys})
	})
	if err != nil {
		return sum, err
	}
	orders, err := batches(ctx, func() (Purged, bool, error) {
		return purge[string](ctx, s, removal{s.q.oldOrders, cutoff(keep.Orders), (*Tx).purgeOrders})
	})
	sum.add(orders)
	return sum, err
}

// removal is what a batch removes: how to find the ids of old rows, before when they are old, and how to remove them.
type removal struct {
	find   string
	before int64
	remove func(tx *Tx, ids []any, before int64) (gone map[int64]Purged, err error)
}

// purge is one batch: it finds the ids of old rows, of type T, without a lock, and in a transaction removes those that are still there.
func purge[T string | []byte](ctx context.Context, s *SQL, r removal) (sum Purged, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	query := s.db.WithContext(ctx).Raw(r.find, r.before, purgeBatch)
	old, err := scanRows(query, func(rows *sql.Rows, id *T) error { return rows.Scan(id) })
	if err != nil || len(old) == 0 {
		return sum, false, err
	}
	ids := make([]any, len(old))
	for i, id := range old {
		ids[i] = id
	}
	err = s.Tx(ctx, ReadCommitted, func(tx *Tx) error {
		gone, err := r.remove(tx, ids, r.before)
		if err != nil {
			return err
		}
		for _, product := range slices.Sorted(maps.Keys(gone)) { // in the same order for all who purge
			p := gone[product]
			sum.add(p)
			if err := tx.exec(s.q.addPurged, p.Orders, p.Units, p.Keys, product); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Purged{}, false, err
	}
	return sum, len(old) == purgeBatch, nil
}

// purgeOrders removes the orders with these ids, of a cart all its rows.
func (t *Tx) purgeOrders(ids []any, _ int64) (map[int64]Purged, error) {
	gone := map[int64]Purged{}
	err := t.each(t.q.lockOrders, ids, nil, func(rows *sql.Rows) error {
		var product, quantity int64
		if err := rows.Scan(&product, &quantity); err != nil {
			return err
		}
		p := gone[product]
		p.add(Purged{Orders: 1, Units: quantity})
		gone[product] = p
		return nil
	})
	if err != nil || len(gone) == 0 {
		return gone, err
	}
	return gone, t.exec(list(t.q.purgeOrders, len(ids)), ids...)
}

// purgeKeys removes those of the keys that are old; one that was purged and used again since is not.
func (t *Tx) purgeKeys(keys []any, before int64) (map[int64]Purged, error) {
	gone := map[int64]Purged{}
	var old []any
	err := t.each(t.q.lockKeys, keys, []any{before}, func(rows *sql.Rows) error {
		var key, body []byte
		var product int64
		if err := rows.Scan(&key, &product, &body); err != nil {
			return err
		}
		old = append(old, key)
		for _, id := range productsOf(product, body) {
			p := gone[id]
			p.add(Purged{Keys: 1})
			gone[id] = p
		}
		return nil
	})
	if err != nil || len(old) == 0 {
		return gone, err
	}
	return gone, t.exec(list(t.q.purgeKeys, len(old)), old...)
}

// productsOf lists the products whose orders an answer is about. The row of a cart's key has the first one; the others stand in the
// answer.
func productsOf(first int64, body []byte) []int64 {
	var cart struct {
		Items []struct {
			ProductID int64 `json:"product_id"`
		} `json:"items"`
	}
	all := []int64{first}
	if json.Unmarshal(body, &cart) != nil {
		return all // not ours to read
	}
	for _, item := range cart.Items {
		if !slices.Contains(all, item.ProductID) {
			all = append(all, item.ProductID)
		}
	}
	return all
}

// each runs a query over a list of ids, and then of other arguments.
func (t *Tx) each(query string, ids, more []any, scan func(*sql.Rows) error) error {
	rows, err := t.conn.QueryContext(t.ctx, list(query, len(ids)), slices.Concat(ids, more)...)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below tells all
	for rows.Next() {
		if err := scan(rows); err != nil {
			return statementError(err)
		}
	}
	return statementError(rows.Err())
}

// list puts n parameters where a statement has the list "(?)".
func list(query string, n int) string {
	return strings.Replace(query, "(?)", "(?"+strings.Repeat(", ?", n-1)+")", 1)
}
