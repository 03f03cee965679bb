package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Tx is one transaction of [Store.Tx]. The errors of its methods are [store.ErrConflict] and [store.ErrUnavailable];
// after any of them the body must return, so that everything is rolled back.
type Tx struct {
	ctx     context.Context
	conn    conn
	q       *queries
	mysql   bool
	packets bool        // the connection allows several statements in a packet
	kept    []statement // see later
	places  *unitPlaces

	rowWait time.Duration // the longest wait for a row
}

// conn executes the statements of a transaction: a *sql.Tx, or a *sql.Conn whose session has no autocommit.
type conn interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Read reads the row of a product that is not segmented, without a lock.
func (t *Tx) Read(product int64) (Row, error) {
	return readRow(t.conn.QueryRowContext(t.ctx, t.q.Read, product), product)
}

// Set writes the count absolutely, whatever it is now; but not over units that may come back, see
// [store.ErrReservationUnsupported].
func (t *Tx) Set(product, stock int64) error {
	n, err := t.affected(t.q.Set, stock, product)
	if err == nil && n == 0 {
		err = t.RefuseHeld(product)
	}
	return err
}

// soldProduct says how a product is sold.
type soldProduct struct {
	id, run, stock int64
	longest        int64 // hold, in microseconds
	sold           ledger.Sold
	perBuyer       sql.NullInt64
	late           string
	now            int64 // the time of the read
}

// sold reads how a product is sold, by a plain read.
func (t *Tx) sold(id int64) (p soldProduct, err error) {
	var segments int
	row := t.conn.QueryRowContext(t.ctx, t.q.HoldProduct, id)
	err = row.Scan(&p.id, &p.run, &segments, &p.stock, &p.perBuyer, &p.late, &p.sold, &p.longest, &p.now)
	if errors.Is(err, sql.ErrNoRows) {
		return p, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: id}
	}
	p.sold = soldAs(p.sold, segments)
	return p, statementError(err)
}

// RefuseHeld is [store.ErrReservationUnsupported] if units of the product were held.
func (t *Tx) RefuseHeld(product int64) error {
	p, err := t.sold(product)
	if _, ok := p.sold.After(ledger.Overwrite); err == nil && !ok {
		err = &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: product}
	}
	return err
}

// Take subtracts quantity if the stock suffices, in one statement, and returns the remaining stock. ok is false if the
// stock does not suffice, or the product is unknown or segmented.
func (t *Tx) Take(product, quantity int64) (remaining int64, ok bool, err error) {
	return t.take(t.q.Take, quantity, product, quantity)
}

// TakeOfRun is Take for requests from a log: only while the product is still in the given run, see [Store.Run], and if
// no units of it were held. From then on none can be.
func (t *Tx) TakeOfRun(product, quantity, run int64) (remaining int64, ok bool, err error) {
	return t.take(t.q.TakeOfRun, quantity, product, quantity, run)
}

func (t *Tx) take(query string, args ...any) (remaining int64, ok bool, err error) {
	if query, args, err = t.along(query, args); err != nil {
		return 0, false, statementError(err)
	}
	if !t.mysql {
		err = t.conn.QueryRowContext(t.ctx, query, args...).Scan(&remaining)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, false, nil
		}
		return remaining, err == nil, statementError(err)
	}
	res, err := t.conn.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, false, statementError(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return 0, false, err
	}
	remaining, err = res.LastInsertId()
	return remaining, true, err
}

// TakeAt subtracts quantity and raises lease_seq, if the row is unchanged since leaseSeq was read and the stock
// suffices.
func (t *Tx) TakeAt(product, quantity int64, leaseSeq uint64) (ok bool, err error) {
	n, err := t.affected(t.q.TakeAt, quantity, product, leaseSeq, quantity)
	return n > 0, err
}

// Savepoint marks where [Tx.RollbackToSavepoint] goes back to. There is one; a second call moves it.
func (t *Tx) Savepoint() error { return t.exec("SAVEPOINT here") }

// RollbackToSavepoint undoes the writes since the savepoint. The rows stay locked.
func (t *Tx) RollbackToSavepoint() error { return t.exec("ROLLBACK TO SAVEPOINT here") }

// SetVersion writes the count absolutely if nobody has written since version was read.
func (t *Tx) SetVersion(product, stock int64, version uint64) (ok bool, err error) {
	n, err := t.affected(t.q.SetVersion, stock, product, version)
	return n > 0, err
}

// SetUpdated writes the count absolutely if the row's time is still the one that was read. It changes once a second at
// most.
func (t *Tx) SetUpdated(product, stock int64, updatedAt string) (ok bool, err error) {
	n, err := t.affected(t.q.SetUpdated, stock, product, updatedAt)
	if err == nil && n == 0 {
		err = t.RefuseHeld(product)
	}
	return n > 0, err
}

// InsertOrder adds an order.
func (t *Tx) InsertOrder(o ledger.Order) error {
	return t.exec(t.q.InsertOrder, o.ID, o.ProductID, o.Quantity, o.Remaining, o.Mode, o.Replica, o.Key, o.Fence,
		o.CreatedMicros)
}

// BoughtBy writes the run, and the buyer if he is known, on an order that no reservation was made for: it counts in
// that run only, and a return gives the buyer's units back. Run 0 is the present one of a row that the transaction has
// locked.
func (t *Tx) BoughtBy(buyer, order string, product, run int64) error {
	if run == 0 {
		p, err := t.sold(product)
		if err != nil {
			return err
		}
		run = p.run
	}
	return t.exec(t.q.OrderBuyer, run, null(buyer), order, product)
}

// ClaimKey inserts the key. first says that the key was new; until the transaction ends, a rival with the same key
// blocks in its own ClaimKey. If the key was not new, its first answer is returned.
func (t *Tx) ClaimKey(key []byte, product int64, fingerprint []byte, micros int64) (first bool,
	earlier idempotency.Record, err error) {
	n, err := t.affected(t.q.ClaimKey, key, product, fingerprint, micros)
	if err != nil || n > 0 {
		return n > 0, idempotency.Record{}, err
	}
	err = t.conn.QueryRowContext(t.ctx, t.q.ReadKey, key).Scan(&earlier.Fingerprint, &earlier.Status, &earlier.Body,
		&earlier.Mode)
	if errors.Is(err, sql.ErrNoRows) {
		return false, earlier, fmt.Errorf("%w: the key's row vanished", store.ErrConflict)
	}
	return false, earlier, statementError(err)
}

// KeepAnswer stores the answer under a claimed key.
func (t *Tx) KeepAnswer(key []byte, a idempotency.Record) error {
	return t.exec(t.q.KeepAnswer, a.Status, a.Body, a.Mode, key)
}

// later keeps a statement for the next one that writes, or for COMMIT, which takes it along: in one packet, where the
// connection allows that. A read in between does not see it, and nobody asks how many rows it has changed. The server
// executes a packet up to the first statement that fails, whose error is the packet's.
func (t *Tx) later(query string, args ...any) { t.kept = append(t.kept, statement{query, args}) }

// statement is one that waits to be sent.
type statement struct {
	query string
	args  []any
}

// along returns a statement with those that wait for it; what cannot go in one packet with it is executed first.
func (t *Tx) along(query string, args []any) (string, []any, error) {
	kept := t.kept
	t.kept = nil
	if !t.packets {
		for _, s := range kept {
			if _, err := t.conn.ExecContext(t.ctx, s.query, s.args...); err != nil {
				return "", nil, err
			}
		}
		return query, args, nil
	}
	for _, s := range slices.Backward(kept) {
		query, args = s.query+";\n"+query, slices.Concat(s.args, args)
	}
	return query, args, nil
}

// send executes the statements that wait.
func (t *Tx) send() error {
	if len(t.kept) == 0 {
		return nil
	}
	last := t.kept[len(t.kept)-1]
	t.kept = t.kept[:len(t.kept)-1]
	return t.exec(last.query, last.args...)
}

func (t *Tx) exec(query string, args ...any) error {
	_, err := t.affected(query, args...)
	return err
}

func (t *Tx) affected(query string, args ...any) (int64, error) {
	query, args, err := t.along(query, args)
	if err != nil {
		return 0, statementError(err)
	}
	res, err := t.conn.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, statementError(err)
	}
	n, err := res.RowsAffected() // of the last statement
	return n, statementError(err)
}
