package plain

import (
	"context"
	"database/sql"
)

// Queue sells one product by group commit: while a transaction commits, requests gather, and the next one serves them
// all. It sells as many times more than Atomic as requests gather. The schema is that of Atomic.
//
// Traps: answer nobody before COMMIT. Bound the queue, and the group: its INSERT must fit into max_allowed_packet.
// Each process may have a queue of its own, since the row is locked before it is read. A client that repeats its
// request buys twice: see Idempotent.
type Queue struct{ requests chan request }

type request struct {
	quantity int64
	answer   chan error
}

// NewQueue serves requests until ctx ends.
func NewQueue(ctx context.Context, db *sql.DB, product int64) *Queue {
	q := &Queue{requests: make(chan request, 1000)}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case first := <-q.requests:
				group := []request{first}
				for len(group) < 200 && len(q.requests) > 0 {
					group = append(group, <-q.requests)
				}
				q.commit(ctx, db, product, group)
			}
		}
	}()
	return q
}

// Deduct waits for the answer. If ctx ends first, the outcome is unknown.
func (q *Queue) Deduct(ctx context.Context, quantity int64) error {
	if quantity < 1 {
		return ErrQuantity
	}
	r := request{quantity, make(chan error, 1)}
	select {
	case q.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit serves the group in one transaction, first come, first served.
func (q *Queue) commit(ctx context.Context, db *sql.DB, product int64, group []request) {
	var sold []bool
	err := inTx(ctx, db, func(tx *sql.Tx) (err error) {
		sold, err = serve(ctx, tx, product, group)
		return err
	})
	for i, r := range group {
		switch {
		case err != nil:
			r.answer <- err
		case !sold[i]:
			r.answer <- ErrSoldOut
		default:
			r.answer <- nil
		}
	}
}

// serve locks the row, decides in memory, and writes two statements for the whole group.
func serve(ctx context.Context, tx *sql.Tx, product int64, group []request) (sold []bool, err error) {
	var units, taken int64
	err = tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE product = ? FOR UPDATE", product).Scan(&units)
	if err != nil {
		return nil, err
	}
	insert, args := "INSERT INTO orders (product, quantity) VALUES ", []any{}
	sold = make([]bool, len(group))
	for i, r := range group {
		if sold[i] = taken+r.quantity <= units; sold[i] {
			taken += r.quantity
			insert, args = insert+"(?, ?),", append(args, product, r.quantity)
		}
	}
	if taken == 0 {
		return sold, nil
	}
	if _, err = tx.ExecContext(ctx, "UPDATE stock SET units = units - ? WHERE product = ?", taken, product); err == nil {
		_, err = tx.ExecContext(ctx, insert[:len(insert)-1], args...)
	}
	return sold, err
}
