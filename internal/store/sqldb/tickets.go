package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"lastitem/contract/ledger"
	"lastitem/internal/sqlite"
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
	args := make([]any, 0, 10*len(ends))
	for _, e := range ends {
		args = append(args, e.ID, e.ProductID, e.Run, e.Quantity, e.State, null(e.OrderID), null(e.Reason), null(e.Key),
			e.Deliveries, micros)
	}
	n, err := t.affected(tuples(t.q.ReceivedInsert, len(ends)), args...)
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
		var order, reason sql.NullString
		err := rows.Scan(&e.ID, &e.ProductID, &e.Run, &e.Quantity, &e.State, &order, &reason, &e.Key, &e.Deliveries)
		e.OrderID, e.Reason = order.String, reason.String
		all[by(e)] = e
		return err
	})
	return all, err
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
