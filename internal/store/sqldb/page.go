package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// Snapshot reads a product in one transaction: its facts and totals, and its first rows. The position is the one after
// them.
func (s *Store) Snapshot(ctx context.Context, product int64, want ledger.Want) (f ledger.Facts, p ledger.Position,
	err error) {
	err = s.view(ctx, func(v *view) error {
		if f, p, err = v.facts(product); err != nil {
			return err
		}
		return v.page(product, want, &f, &p)
	})
	return f, p, err
}

// Page reads the rows after a position, and returns the position after them. The reader's first snapshot no longer
// exists: the page may contain an order that was committed since, by a replica whose clock is slow.
func (s *Store) Page(ctx context.Context, product int64, p ledger.Position, want ledger.Want) (f ledger.Facts,
	next ledger.Position, err error) {
	err = s.view(ctx, func(v *view) error { return v.page(product, want, &f, &p) })
	return f, p, err
}

// Scan calls body with a snapshot of a product, in one transaction.
func (s *Store) Scan(ctx context.Context, product int64, body func(*ledger.Snapshot) error) error {
	return s.view(ctx, func(v *view) error {
		f, _, err := v.facts(product)
		if err != nil {
			return err
		}
		snap := &ledger.Snapshot{Facts: f}
		snap.Orders = func(each func([]ledger.Order) error) error {
			return inBatches(v, scanOrder, each, s.q.OrdersOf, product)
		}
		snap.Keys = func(each func([]ledger.KeyRow) error) error {
			if err := inBatches(v, scanKey, each, s.q.KeysOf, product); err != nil {
				return err
			}
			return inBatches(v, scanKey, each, s.q.CartKeysOf, product)
		}
		return body(snap)
	})
}

// view is a read-only transaction that sees the database as it was at its first read.
type view struct {
	ctx          context.Context
	conn         *sql.Tx
	q            *queries
	now, overdue int64 // held units, by that time
}

// view runs body in a snapshot that has every commit of before. [store.ErrCopy]: the server is one that may lack some.
// A node of Galera is told to wait for the others' commits, on a connection that is used for nothing else.
func (s *Store) view(ctx context.Context, body func(*view) error) error {
	pool, err := s.db.DB()
	if err != nil {
		return statementError(err)
	}
	if err = snapshot(ctx, s, pool, body); !errors.Is(err, errBehind) {
		return err
	}
	c, err := pool.Conn(ctx)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = c.Raw(func(any) error { return driver.ErrBadConn }) }() // closes it
	if _, err := c.ExecContext(ctx, "SET SESSION wsrep_sync_wait = 1"); err != nil {
		return statementError(err)
	}
	return snapshot(ctx, s, c, body) // still behind: a proxy has lost the setting
}

// snapshot runs body in a transaction that sees one moment. REPEATABLE READ begins it at the first read. A splitter
// leaves the transaction at the primary, but MaxScale sends one that is READ ONLY to a replica. With SQLite's WAL every
// read-only transaction sees one moment, and does not wait for the writer.
func snapshot(ctx context.Context, s *Store, at interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}, body func(*view) error) error {
	opts := sql.TxOptions{ReadOnly: true}
	if s.MySQL() {
		opts = sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	}
	tx, err := at.BeginTx(ctx, &opts)
	if err != nil {
		return statementError(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	v := view{ctx: ctx, conn: tx, q: &s.q}
	if s.MySQL() {
		if err := v.notCopy(); err != nil {
			return err
		}
	}
	return body(&v)
}

// errBehind: the server is a node of Galera whose session does not wait for what other nodes have committed.
var errBehind = fmt.Errorf("%w: wsrep_sync_wait is not 1", store.ErrCopy)

// replicaStates ask whether a server has threads of replication, running or stopped: MariaDB, MySQL, and MySQL before
// 8.0.22. Each is a syntax error elsewhere.
var replicaStates = []string{"SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"}

// notCopy returns an error if the server may lack commits of the primary: a read-only one that has threads of
// replication or does not say whether it has.
func (v *view) notCopy() error {
	is := map[string]string{}
	err := eachRow(v.ctx, v.conn, v.q.ServerState, nil, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		is[name] = value
		return err
	})
	waits, _ := strconv.Atoi(is["wsrep_sync_wait"])
	switch {
	case err != nil:
		return err
	case is["wsrep_on"] == "ON" && waits&1 == 0:
		return errBehind
	case is["innodb_read_only"] == "ON": // a reader of Aurora, which has no threads
		return store.ErrCopy
	case is["read_only"] == "OFF", is["read_only"] == "":
		return nil
	case is["group_replication_group_name"] != "": // a secondary, whose threads the statements below do not show
		return store.ErrCopy
	}
	for _, ask := range replicaStates {
		replicates := false
		err := eachRow(v.ctx, v.conn, ask, nil, func(*sql.Rows) error {
			replicates = true
			return nil
		})
		if my, ok := errors.AsType[*mysql.MySQLError](err); ok && my.Number == erParse {
			continue
		}
		if err != nil { // no right to ask
			return fmt.Errorf("%w: %w", store.ErrCopy, err)
		}
		if !replicates {
			return nil
		}
		break
	}
	return store.ErrCopy
}

// facts reads a product without its rows, the position before its first row, and that of its last.
func (v *view) facts(product int64) (f ledger.Facts, p ledger.Position, err error) {
	row := v.conn.QueryRowContext(v.ctx, v.q.Facts, product)
	err = scanFacts(row, &f)
	unknown := errors.Is(err, sql.ErrNoRows)
	if err == nil || unknown {
		row := v.conn.QueryRowContext(v.ctx, v.q.Totals, product, product, product)
		err = row.Scan(&f.Totals.Orders, &f.Totals.Units, &f.WrittenOff, &f.Restocked, &p.Order, &p.Until)
	}
	switch {
	case err == nil && unknown && f.Totals.Orders > 0:
		return ledger.Facts{}, ledger.Position{}, store.CountLost("sql", product)
	case err == nil && unknown:
		return f, p, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product}
	}
	p.NoOrders = f.Totals.Orders == 0
	if err == nil {
		err = v.held(product, &f)
	}
	if err == nil {
		f.Adjustments, err = v.adjustments(product, f.Run)
	}
	return f, p, statementError(err)
}

// adjustments reads how the initial stock of a run came about.
func (v *view) adjustments(product, run int64) ([]ledger.Adjustment, error) {
	var count, sum int64
	if err := v.conn.QueryRowContext(v.ctx, v.q.AdjustmentsSum, product, run).Scan(&count, &sum); err != nil {
		return nil, statementError(err)
	}
	newest, err := allRows(v.ctx, v.conn, scanAdjustment, v.q.AdjustmentsOf, product, run, ledger.MostAdjustments)
	slices.Reverse(newest)
	return ledger.Journal(newest, count, sum), err
}

// held sums what is held of a product.
func (v *view) held(product int64, f *ledger.Facts) error {
	row := func(query string, args ...any) *sql.Row { return v.conn.QueryRowContext(v.ctx, query, args...) }
	if err := v.q.count(product, f, row); err != nil {
		return err
	}
	err := row(v.q.HoldsOf, v.now, product, product, product).Scan(&f.Held, &v.overdue, &f.Released)
	f.Released = f.Released || f.Restocked > 0
	return err
}

// page reads the rows after a position, and moves the position past them.
func (v *view) page(product int64, want ledger.Want, f *ledger.Facts, p *ledger.Position) error {
	if err := v.pageOfKeys(product, want.Keys, f, p); err != nil {
		return err
	}
	if p.NoOrders || want.Orders <= 0 {
		return nil
	}
	if !plainASCII(p.Order) || !plainASCII(p.Until) {
		return store.ErrPosition
	}
	from, last := p.Order, ""
	var err error
	f.Orders, err = allRows(v.ctx, v.conn, func(rows *sql.Rows, o *ledger.Order) error {
		return rows.Scan(&o.ID, &o.ProductID, &o.Quantity, &o.Remaining, &o.Mode, &o.Replica, &o.Key, &o.Fence,
			&o.CreatedMicros, &o.ReservationID, &last)
	}, v.q.OrdersPage, product, from, p.Until, want.Orders)
	if err != nil {
		return err
	}
	if p.NoOrders = len(f.Orders) < want.Orders || last == p.Until; len(f.Orders) > 0 {
		p.Order = last
		// A cart's key is stored under its first product, and is found through the order that its answer names.
		var keys []ledger.KeyRow
		keys, err = allRows(v.ctx, v.conn, scanKey, v.q.CartKeysPage, product, from, last)
		f.Keys = append(f.Keys, keys...)
	}
	return err
}

// plainASCII says whether a text can be compared with an id: MySQL refuses to compare texts of different character
// sets.
func plainASCII(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func (v *view) pageOfKeys(product int64, want int, f *ledger.Facts, p *ledger.Position) error {
	if p.NoKeys || want <= 0 {
		p.NoKeys = true
		return nil
	}
	after := p.Key
	if after == nil {
		after = []byte{} // a comparison with NULL would select no row
	}
	var err error
	f.Keys, err = allRows(v.ctx, v.conn, scanKey, v.q.KeysPage, product, after, want)
	if p.NoKeys = len(f.Keys) < want; len(f.Keys) > 0 {
		p.Key = f.Keys[len(f.Keys)-1].Key
	}
	return err
}

func scanOrder(rows *sql.Rows, o *ledger.Order) error {
	return rows.Scan(&o.ID, &o.ProductID, &o.Quantity, &o.Remaining, &o.Mode, &o.Replica, &o.Key, &o.Fence,
		&o.CreatedMicros, &o.ReservationID)
}

func scanKey(rows *sql.Rows, k *ledger.KeyRow) error {
	return rows.Scan(&k.Key, &k.Status, &k.CreatedMicros, &k.Mode)
}

// inBatches calls each with batches of a query's rows. each may keep the rows, but not the slice.
func inBatches[T any](v *view, scan func(*sql.Rows, *T) error, each func([]T) error, query string,
	args ...any) error {
	var batch []T
	var stopped error // by each, whose error is returned as it is
	err := eachRow(v.ctx, v.conn, query, args, func(rows *sql.Rows) error {
		var row T
		if err := scan(rows, &row); err != nil {
			return err
		}
		if batch = append(batch, row); len(batch) == store.BatchRows {
			stopped = each(batch)
			batch = batch[:0]
		}
		return stopped
	})
	if err == nil && len(batch) > 0 {
		stopped = each(batch)
	}
	return cmp.Or(stopped, err)
}
