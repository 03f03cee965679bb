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

// purgeTimeout bounds one batch. It is longer than a statement waits for SQLite's write lock, so a wait in vain is a conflict.
const purgeTimeout = 15 * time.Second

// Purge removes old keys and orders until none is left, and returns how many. It locks no row that a sale needs, unless a key is
// repeated at the moment of its removal. If a batch fails, the batches before it are committed.
func (s *SQL) Purge(ctx context.Context, keep Retention) (Purged, error) {
	sum, err := batches(ctx, func() (Purged, bool, error) {
		before := cutoff(keep.Keys)
		return purge[[]byte](ctx, s, removal{s.q.oldKeys, []any{before}, purgeBatch, before, (*Tx).purgeKeys})
	})
	if err != nil {
		return sum, err
	}
	orders, err := batches(ctx, func() (Purged, bool, error) {
		before := cutoff(keep.Orders)
		return purge[string](ctx, s, removal{s.q.oldOrders, []any{before}, purgeBatch, before, (*Tx).purgeOrders})
	})
	sum.add(orders)
	return sum, err
}

// removal describes a batch.
type removal struct {
	find   string // the query for the ids; its parameters are by and batch
	by     []any  // which: the time before which rows are old; for a trim its product, and what stays of it
	batch  int    // how many ids at most
	before int64  // keys from this time on stay
	remove func(tx *Tx, ids []any, before int64) (gone map[int64]Purged, err error)
}

// purge removes one batch: it finds the ids of old rows, of type T, without a lock, and removes those that still exist in a transaction.
func purge[T string | []byte](ctx context.Context, s *SQL, r removal) (sum Purged, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	query := s.db.WithContext(ctx).Raw(r.find, append(slices.Clip(r.by), r.batch)...)
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
		for _, product := range slices.Sorted(maps.Keys(gone)) { // the same order in every replica, against deadlocks
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
	return sum, len(old) == r.batch, nil
}

// purgeOrders removes the orders with these ids; of a cart, all rows.
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

// purgeKeys removes those of the keys that are still old: a key may have been purged and used again meanwhile.
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

// productsOf lists the products of an answer's orders. The row of a cart's key has the first product; the answer lists the others.
func productsOf(first int64, body []byte) []int64 {
	var cart struct {
		Items []struct {
			ProductID int64 `json:"product_id"`
		} `json:"items"`
	}
	all := []int64{first}
	if json.Unmarshal(body, &cart) != nil {
		return all // not in our format
	}
	for _, item := range cart.Items {
		if !slices.Contains(all, item.ProductID) {
			all = append(all, item.ProductID)
		}
	}
	return all
}

// each runs a query with a list of ids and further arguments.
func (t *Tx) each(query string, ids, more []any, scan func(*sql.Rows) error) error {
	rows, err := t.conn.QueryContext(t.ctx, list(query, len(ids)), slices.Concat(ids, more)...)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports every error
	for rows.Next() {
		if err := scan(rows); err != nil {
			return statementError(err)
		}
	}
	return statementError(rows.Err())
}

// list expands the "(?)" of a statement to n parameters.
func list(query string, n int) string {
	return strings.Replace(query, "(?)", "(?"+strings.Repeat(", ?", n-1)+")", 1)
}
