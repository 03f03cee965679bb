package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/sqlite"
	"lastitem/internal/store"
)

// TakeTickets subtracts what tickets of a run have won, in one statement, and returns the remaining stock. ok is false
// if the stock does not suffice, the product is in another run, or it has no counter.
func (t *Tx) TakeTickets(product, quantity, run int64) (remaining int64, ok bool, err error) {
	return t.take(t.q.TakeTickets, quantity, product, quantity, run)
}

// InsertEnds writes the ends of tickets, at least one, in one statement, and returns how many of them were new: neither
// the ticket nor its key had an end. A rival's uncommitted end blocks it. If not all were new, the caller must roll the
// transaction back.
func (t *Tx) InsertEnds(micros int64, ends []ledger.TicketEnd) (inserted int, err error) {
	return t.insertEnds(t.q.ReceivedInsert, micros, ends)
}

// ReplaceEnds writes the ends of tickets, at least one, whatever ends they had, and without their keys: nobody asks
// whether there was one.
func (t *Tx) ReplaceEnds(micros int64, ends []ledger.TicketEnd) (written int, err error) {
	ends = slices.Clone(ends)
	for i := range ends {
		ends[i].Key = nil
	}
	return t.insertEnds(t.q.ReceivedReplace, micros, ends)
}

func (t *Tx) insertEnds(query string, micros int64, ends []ledger.TicketEnd) (inserted int, err error) {
	args := make([]any, 0, 10*len(ends))
	for _, e := range ends {
		args = append(args, e.ID, e.ProductID, e.Run, e.Quantity, e.State, null(e.OrderID), null(e.Reason), null(e.Key),
			e.Deliveries, micros)
	}
	n, err := t.affected(tuples(query, len(ends)), args...)
	return int(n), err
}

// Ends returns the committed ends of tickets, at least one, by ticket.
func (s *Store) Ends(ctx context.Context, ids ...string) (map[string]ledger.TicketEnd, error) {
	return s.ends(ctx, func(e ledger.TicketEnd) string { return e.ID }, list(s.q.Received, len(ids)), anys(ids))
}

// EndsOfKeys returns the committed ends of a run's tickets that were sold under keys, at least one, by key.
func (s *Store) EndsOfKeys(ctx context.Context, product, run int64, keys [][]byte) (map[string]ledger.TicketEnd,
	error) {
	return s.ends(ctx, func(e ledger.TicketEnd) string { return string(e.Key) }, list(s.q.ReceivedKeys, len(keys)),
		append([]any{product, run}, anys(keys)...))
}

func (s *Store) ends(ctx context.Context, by func(ledger.TicketEnd) string, query string, args []any) (
	map[string]ledger.TicketEnd, error) {
	all := map[string]ledger.TicketEnd{}
	err := eachRow(ctx, s.pool(), query, args, func(rows *sql.Rows) error {
		var e ledger.TicketEnd
		err := scanEnd(rows, &e)
		all[by(e)] = e
		return err
	})
	return all, err
}

func scanEnd(rows *sql.Rows, e *ledger.TicketEnd) error {
	var order, reason sql.NullString
	err := rows.Scan(&e.ID, &e.ProductID, &e.Run, &e.Quantity, &e.State, &order, &reason, &e.Key, &e.Deliveries)
	e.OrderID, e.Reason = order.String, reason.String
	return err
}

// EndsPage returns the ends of a product's run, of one kind, after a ticket, by ticket, atMost.
func (s *Store) EndsPage(ctx context.Context, product int64, state ledger.TicketState, after string, atMost int) (
	all []ledger.TicketEnd, err error) {
	err = s.view(ctx, func(v *view) error {
		all, err = allRows(v.ctx, v.conn, scanEnd, v.q.ReceivedPage, product, state, after, atMost)
		return err
	})
	return all, err
}

// FactsLocked reads the row of a product as [Store.Facts] does, and locks it until the transaction ends, so that no
// order of it is committed meanwhile. [store.ErrRowBusy]: another transaction had it for all of wait.
func (t *Tx) FactsLocked(product int64, wait time.Duration) (f ledger.Facts, err error) {
	query, args := t.q.Facts, []any{product} // in SQLite a transaction has all rows
	if t.mysql {
		query, args = t.q.FactsForUpdate, []any{wait.Seconds(), wait.Milliseconds(), product}
	}
	err = scanFacts(t.conn.QueryRowContext(t.ctx, query, args...), &f)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: product, Store: "sql"}
	case outOfTime(err):
		err = fmt.Errorf("%w: product %d: %w", store.ErrRowBusy, product, err)
	default:
		err = statementError(err)
	}
	return f, err
}

// soldAtOnce is how many tickets one statement is asked about.
const soldAtOnce = 2000

// SoldOf returns the units of those of some tickets that are sold. With [Tx.FactsLocked] no other is sold meanwhile.
func (t *Tx) SoldOf(tickets map[string]int64) (units int64, err error) {
	for ids := range slices.Chunk(slices.Collect(maps.Keys(tickets)), soldAtOnce) {
		sold, err := allRows(t.ctx, t.conn, column[string], list(t.q.ReceivedSold, len(ids)), anys(ids)...)
		if err != nil {
			return 0, err
		}
		for _, id := range sold {
			units += tickets[id]
		}
	}
	return units, nil
}

// Ticketed says whether tickets of a run have ended.
func (t *Tx) Ticketed(product, run int64) (there bool, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.ReceivedAny, product, run).Scan(&there)
	return there, statementError(err)
}

// Reconciled returns the last generation in the journal of a run, and what the corrections up to the generation that
// Redis has have added for orders that it did not know of.
func (t *Tx) Reconciled(product, run, generation int64) (last, corrected int64, err error) {
	err = t.conn.QueryRowContext(t.ctx, t.q.Reconciled, generation, generation, product, run).Scan(&last, &corrected)
	return last, corrected, statementError(err)
}

// Journal writes a correction down before it is made, and what the generation that Redis has says of earlier ones.
func (t *Tx) Journal(micros int64, c ledger.Correction) error {
	return errors.Join(
		t.exec(t.q.ReconciliationUndone, c.Product, c.Run, c.Base),
		t.exec(t.q.ReconciliationApplied, micros, c.Product, c.Run, c.Base),
		t.exec(t.q.ReconciliationInsert, c.Product, c.Run, c.Generation, c.Base, c.Leaked-c.Forgotten, c.Leaked, c.Forgotten,
			micros))
}

// Corrected notes that a correction was made.
func (s *Store) Corrected(ctx context.Context, micros int64, c ledger.Correction) error {
	return statementError(s.db.WithContext(ctx).
		Exec(s.q.ReconciliationApplied, micros, c.Product, c.Run, c.Generation).Error)
}

// OneWriter says that the row of a product, once locked, is locked for all: no other server writes the database. A
// server that does not know says so.
func (s *Store) OneWriter(ctx context.Context) (bool, error) {
	if !s.MySQL() {
		return true, nil
	}
	several := false
	err := eachRow(ctx, s.pool(), s.q.SeveralWriters, nil, func(*sql.Rows) error {
		several = true
		return nil
	})
	return !several, err
}

// OfTheData says that a statement was refused for what it would write, so that it will be refused again: a value that
// does not fit, a constraint, a trigger.
func OfTheData(err error) bool {
	var my *mysql.MySQLError
	if !errors.As(err, &my) {
		return sqlite.Constraint(err)
	}
	class := string(my.SQLState[:2])
	return class == "22" || class == "23" || class == "45"
}
