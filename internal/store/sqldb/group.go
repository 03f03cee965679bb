package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// A group commit needs few round trips, because the row is locked meanwhile, and statements for many rows.

// GroupsOn makes [Store.GroupTx] use pool, whose connections are made by [GroupSessions]. MySQL only.
func (s *Store) GroupsOn(pool *sql.DB) { s.groups = pool }

// GroupSessions makes the connections of a pool for [Store.GroupTx], by c. Isolation and autocommit are set once for
// each of them, not in every transaction; no other pool may use them.
func GroupSessions(c driver.Connector) driver.Connector { return sessions{c, groupSession, nil} }

// groupSession is for transactions of READ COMMITTED that their first statement begins.
var groupSession = []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION autocommit = 0"}

// sessions opens sessions and executes statements in each.
type sessions struct {
	driver.Connector
	first  []string
	galera *atomic.Bool // becomes true when a session leads to a node of Galera; nil = nobody asks
}

// Connect opens a session.
func (s sessions) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	e, ok := c.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(fmt.Errorf("store: %T does not execute statements", c), c.Close())
	}
	for _, q := range s.first {
		if _, err := e.ExecContext(ctx, q, nil); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if s.galera == nil || s.galera.Load() {
		return c, nil
	}
	on, err := galera(ctx, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if on {
		s.galera.Store(true)
	}
	return c, nil
}

// galera says that a session leads to a node of Galera. Other servers have no such variable, or have it OFF.
func galera(ctx context.Context, c driver.Conn) (bool, error) {
	q, ok := c.(driver.QueryerContext)
	if !ok {
		return false, fmt.Errorf("store: %T does not query", c)
	}
	rows, err := q.QueryContext(ctx, "SHOW SESSION VARIABLES LIKE 'wsrep_on'", nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Next reports every error
	row := make([]driver.Value, 2)
	if err = rows.Next(row); errors.Is(err, io.EOF) {
		return false, nil
	}
	return fmt.Sprintf("%s", row[1]) == "ON", err
}

// GroupTx is [Store.Tx] in [ReadCommitted], with the same errors. If it has a pool, it sends only the statements of
// body and COMMIT.
func (s *Store) GroupTx(ctx context.Context, body func(*Tx) error) error {
	return s.txOn(ctx, s.groups, false, body)
}

// txOn runs body in a transaction that its first statement begins, on a connection of pool; nil = in one of Tx.
func (s *Store) txOn(ctx context.Context, pool *sql.DB, packets bool, body func(*Tx) error) error {
	if pool == nil {
		return s.Tx(ctx, ReadCommitted, body)
	}
	c, err := pool.Conn(ctx)
	if err != nil {
		return statementError(err)
	}
	return s.finish(ctx, c, packets && !s.galera.Load(), body)
}

// ReadLocked reads the row of a product that is not segmented, as it is now, and holds it until the transaction ends.
// run is that of [Store.Run]; it is returned with store.ErrSegmented too, and is 0 with store.ErrUnknownProduct.
func (t *Tx) ReadLocked(product int64) (r Row, run int64, err error) {
	r, err = readRow(t.conn.QueryRowContext(t.ctx, t.q.ReadLocked, product), product, &run)
	return r, run, err
}

// InsertOrders adds orders, at least one, in one statement. store.ErrOrderExists when one of them is there already.
func (t *Tx) InsertOrders(orders []ledger.Order) error {
	args := make([]any, 0, 9*len(orders))
	for _, o := range orders {
		args = append(args, o.ID, o.ProductID, o.Quantity, o.Remaining, o.Mode, o.Replica, o.Key, o.Fence, o.CreatedMicros)
	}
	err := t.exec(tuples(t.q.InsertOrder, len(orders)), args...)
	if duplicate(err) {
		err = fmt.Errorf("%w: %w", store.ErrOrderExists, err)
	}
	return err
}

// KeyedAnswer is the first answer under a key.
type KeyedAnswer struct {
	Key    []byte
	Answer idempotency.Record
}

// InsertAnswers keeps first answers, at least one and no key twice, in one statement, and returns how many of the keys
// were new. A rival's uncommitted key blocks it. If not all keys were new, the caller must roll the transaction back.
func (t *Tx) InsertAnswers(product, micros int64, answers []KeyedAnswer) (inserted int, err error) {
	args := make([]any, 0, 7*len(answers))
	for _, a := range answers {
		args = append(args, a.Key, product, a.Answer.Fingerprint, a.Answer.Status, a.Answer.Body, micros, a.Answer.Mode)
	}
	n, err := t.affected(tuples(t.q.InsertAnswers, len(answers)), args...)
	return int(n), err
}

// Answers returns the committed first answers under keys, at least one, by key.
func (s *Store) Answers(ctx context.Context, keys [][]byte) (map[string]idempotency.Record, error) {
	all := map[string]idempotency.Record{}
	err := eachRow(ctx, s.pool(), list(s.q.ReadAnswers, len(keys)), anys(keys), func(rows *sql.Rows) error {
		var key sql.RawBytes
		var a idempotency.Record
		err := rows.Scan(&key, &a.Fingerprint, &a.Status, &a.Body, &a.Mode)
		all[string(key)] = a
		return err
	})
	return all, err
}

// AnySold says whether any of the given orders (at least one) of a product exists.
func (t *Tx) AnySold(product int64, ids []string) (bool, error) {
	var n int
	err := t.conn.QueryRowContext(t.ctx, list(t.q.AnySold, len(ids)), append([]any{product}, anys(ids)...)...).Scan(&n)
	return n > 0, statementError(err)
}

// Sold returns the stock left after each of the given orders (at least one) that exists, by id.
func (s *Store) Sold(ctx context.Context, product int64, ids []string) (map[string]*int64, error) {
	all, args := map[string]*int64{}, append([]any{product}, anys(ids)...)
	err := eachRow(ctx, s.pool(), list(s.q.Sold, len(ids)), args, func(rows *sql.Rows) error {
		var id string
		var remaining *int64
		err := rows.Scan(&id, &remaining)
		all[id] = remaining
		return err
	})
	return all, err
}

// LimitedRow is the row of a product with a limit per buyer, locked, and what its buyers have.
type LimitedRow struct {
	Product, Run, Stock, PerBuyer int64
	Units                         map[string]int64 // by buyer
}

// ReadLimited locks the rows of some buyers and then that of the product, as holds do; nil = the product has no limit,
// and nothing is locked.
func (t *Tx) ReadLimited(product int64, buyers []string) (*LimitedRow, error) {
	p, err := t.sold(product)
	if err != nil || p.sold != ledger.PerBuyer {
		return nil, err
	}
	l := LimitedRow{Product: product, Run: p.run, PerBuyer: p.perBuyer.Int64, Units: map[string]int64{}}
	buyers = slices.Compact(slices.Sorted(slices.Values(buyers))) // in one order, so that batches do not deadlock
	for _, b := range buyers {
		if b == "" {
			continue
		}
		if err := t.exec(t.q.BuyerRow, product, l.Run, b); err != nil {
			return nil, err
		}
		var n int64
		if err := t.conn.QueryRowContext(t.ctx, t.q.BuyerHas, product, l.Run, b).Scan(&n); err != nil {
			return nil, statementError(err)
		}
		l.Units[b] = n
	}
	_, run, err := t.ReadLocked(product) // it says that the product is sold in another way, and locks it
	if !errors.Is(err, store.ErrOtherWay) {
		return nil, errors.Join(err, errOvertaken)
	}
	again, err := t.sold(product)
	if err == nil && (run != l.Run || again.run != run) {
		err = errOvertaken
	}
	l.Stock = again.stock
	return &l, err
}

// LimitReached is the refusal of a buyer's surplus.
func (l *LimitedRow) LimitReached(requested int64) error {
	return limitReached(l.Product, l.PerBuyer, requested)
}

// TakeLimited takes what a batch has sold from the row, and from its buyers.
func (t *Tx) TakeLimited(l *LimitedRow, sum int64, sold map[string]int64) error {
	for buyer, n := range sold {
		ok, err := t.affected(t.q.BuyerTake, n, l.Product, l.Run, buyer, n, l.PerBuyer)
		if err != nil {
			return err
		}
		if ok == 0 {
			return fmt.Errorf("%w: a limit changed under its lock", store.ErrConflict)
		}
	}
	_, ok, err := t.take(t.q.HoldTake, sum, l.Product, sum, l.Run)
	if err == nil && !ok {
		err = fmt.Errorf("%w: stock changed under its lock", store.ErrConflict)
	}
	return err
}

// Bought counts the units that a buyer has by the orders of the product's run, by a plain read, and reads the limit;
// 0 = none.
func (s *Store) Bought(ctx context.Context, buyer string, product int64) (units, limit int64, err error) {
	err = s.db.WithContext(ctx).Raw(s.q.BuyerBought, buyer, product).Row().Scan(&units, &limit)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	return units, limit, statementError(err)
}
