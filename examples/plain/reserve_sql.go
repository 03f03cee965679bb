package plain

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ReserveSQL holds units for a buyer who pays later. Each change locks the reservation, reads the clock after that, and
// ends what is overdue before anything else: a payment, a cancel and the sweep exclude each other.
//
//	CREATE TABLE stock (product BIGINT PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0),
//	  per_buyer BIGINT NOT NULL DEFAULT 0, rehold BOOL NOT NULL DEFAULT FALSE);
//	CREATE TABLE reservation (id VARBINARY(64) PRIMARY KEY, request VARBINARY(64) UNIQUE, product BIGINT NOT NULL,
//	  quantity BIGINT NOT NULL, buyer VARBINARY(64) NOT NULL, state VARCHAR(9) NOT NULL, expires_us BIGINT NOT NULL,
//	  extended_us BIGINT NOT NULL DEFAULT 0, rehold BOOL NOT NULL, returned VARCHAR(5) NOT NULL DEFAULT '',
//	  KEY due (state, expires_us));
//	CREATE TABLE bought (product BIGINT, buyer VARBINARY(64), units BIGINT NOT NULL, PRIMARY KEY (product, buyer));
//	CREATE TABLE payment (id VARBINARY(64) PRIMARY KEY, reservation VARBINARY(64) NOT NULL, ordered BOOL NOT NULL,
//	  at_us BIGINT NOT NULL);
//	CREATE TABLE orders (id VARBINARY(64) PRIMARY KEY, product BIGINT NOT NULL, quantity BIGINT NOT NULL,
//	  payment VARBINARY(64) NOT NULL);
//	CREATE TABLE history (id BIGINT AUTO_INCREMENT PRIMARY KEY, reservation VARBINARY(64) NOT NULL,
//	  was VARCHAR(9) NOT NULL, became VARCHAR(9) NOT NULL, expires_us BIGINT NOT NULL, at_us BIGINT NOT NULL,
//	  KEY (reservation));
//	CREATE TABLE adjustment (product BIGINT, id VARBINARY(64), delta BIGINT NOT NULL, at_us BIGINT NOT NULL,
//	  PRIMARY KEY (product, id));
//
// per_buyer is how many units a buyer may hold or have, 0 = any number. rehold says that a payment after the deadline
// gets the units if they are still free; otherwise it goes back.
//
// Traps: lock in this order everywhere: the reservation, the payment or the adjustment, the buyer, the stock.
// UTC_TIMESTAMP is when its statement began, so read it in a statement after the lock. Units that are held have no
// counter of their own, which could differ from the rows. Each payment has one end, in the transaction of its answer:
// keep its row. After an error that is none of the answers nobody gives money back: repeat it with the same key or
// payment.
type ReserveSQL struct{ DB *sql.DB }

const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Hold holds r.Quantity units of r.Product for r.Buyer. A key that comes again gets the reservation that it made,
// whatever became of it. ErrSoldOut and ErrLimit are answers for now: units come back.
func (s ReserveSQL) Hold(ctx context.Context, r Reservation, d time.Duration) (made Reservation, err error) {
	if err := r.valid(); err != nil {
		return made, err
	}
	r.ID, r.State = rand.Text(), "held" // whoever knows an id may act on it
	err = inTx(ctx, s.DB, func(tx *sql.Tx) error {
		l := locked{Reservation: r, ctx: ctx, tx: tx}
		l.row([]any{&l.Rehold, &l.now}, "SELECT rehold, "+clock+" FROM stock WHERE product = ?", r.Product)
		if errors.Is(l.err, sql.ErrNoRows) {
			return ErrSoldOut
		}
		l.ExpiresMicros = l.now + d.Microseconds()
		l.exec("INSERT INTO reservation (id, request, product, quantity, buyer, state, expires_us, rehold)"+
			" VALUES (?, NULLIF(?, ''), ?, ?, ?, 'held', ?, ?)", l.ID, r.Request, r.Product, r.Quantity, r.Buyer,
			l.ExpiresMicros, l.Rehold)
		if says(l.err, 1062) { // duplicate key: this request has made one
			l.err = nil
			l.read("request = ?", r.Request)
			made = l.Reservation
			return cmp.Or(l.err, l.repeats(r))
		}
		l.note("")
		l.take()
		made = l.Reservation
		return l.err
	})
	return made, err
}

// Confirm makes an order of a reservation, once. If refund is true the payment goes back to its buyer: the reservation
// is over, belongs to another payment, or does not exist (ErrNoReservation). The same payment is answered the same.
// ErrOtherSale: it was for another reservation, and what it was answered there stands.
func (s ReserveSQL) Confirm(ctx context.Context, id, payment string) (r Reservation, refund bool, err error) {
	if payment == "" || len(payment) > 64 {
		return r, false, ErrKey
	}
	r, err = s.change(ctx, id, func(l *locked) {
		refund = l.State != "held"
		l.exec("INSERT INTO payment (id, reservation, ordered, at_us) VALUES (?, ?, ?, ?)", payment, l.ID, !refund, l.now)
		switch {
		case says(l.err, 1062): // it has had its answer
			var of string
			var ordered bool
			l.err = nil
			l.row([]any{&of, &ordered}, "SELECT reservation, ordered FROM payment WHERE id = ?", payment)
			refund = !ordered
			if l.err == nil && of != l.ID {
				l.err = ErrOtherSale
			}
			return
		case l.State == "expired" && l.Rehold:
			refund = !l.takeAgain(payment)
		}
		if !refund {
			l.exec("INSERT INTO orders (id, product, quantity, payment) VALUES (?, ?, ?, ?)", l.ID, l.Product, l.Quantity,
				payment)
			l.move("confirmed")
		}
	})
	return r, refund && (err == nil || errors.Is(err, ErrNoReservation)), err
}

// Cancel ends a reservation, if it is held; its State says what it is now. A late payment does not revive it.
func (s ReserveSQL) Cancel(ctx context.Context, id string) (Reservation, error) {
	return s.change(ctx, id, func(l *locked) {
		switch {
		case l.State == "expired" && l.Rehold:
			l.exec("UPDATE reservation SET rehold = FALSE WHERE id = ?", id)
		case l.State == "held":
			l.end("cancelled")
		}
	})
}

// Extend moves the deadline to d from now, once, and never to an earlier time. State says whether it is held at all.
func (s ReserveSQL) Extend(ctx context.Context, id string, d time.Duration) (Reservation, error) {
	return s.change(ctx, id, func(l *locked) {
		if l.State == "held" && l.ExtendedMicros == 0 {
			l.ExpiresMicros, l.ExtendedMicros = max(l.ExpiresMicros, l.now+d.Microseconds()), l.now
			l.move("held")
		}
	})
}

// Read reads a reservation. One that is overdue is ended first, so that what was told stays true.
func (s ReserveSQL) Read(ctx context.Context, id string) (Reservation, error) {
	return s.change(ctx, id, func(*locked) {})
}

// Return takes an order back, once: its units go to the stock, or are written off. The buyer may buy as many again.
func (s ReserveSQL) Return(ctx context.Context, id string, restock bool) (Reservation, error) {
	return s.change(ctx, id, func(l *locked) {
		switch {
		case l.State != "confirmed":
			l.err = ErrNoOrder
		case l.Returned == "": // otherwise the first answer stands
			l.Returned = returned(restock)
			l.exec("UPDATE reservation SET returned = ? WHERE id = ?", l.Returned, id)
			l.give(restock)
		}
	})
}

// Adjust adds units while the product sells, or takes free ones if delta is below zero, once for each key of a product.
// ErrSoldOut: fewer are free, or there is no such product; nothing was changed, and the key is free again. The stock
// that a sale began with and the adjustments after it are what was there to sell.
func (s ReserveSQL) Adjust(ctx context.Context, key string, product, delta int64) error {
	if err := adjustable(key, delta); err != nil {
		return err
	}
	return inTx(ctx, s.DB, func(tx *sql.Tx) error {
		l := locked{ctx: ctx, tx: tx}
		l.exec("INSERT INTO adjustment (product, id, delta, at_us) VALUES (?, ?, ?, "+clock+")", product, key, delta)
		if says(l.err, 1062) { // it was done
			var was int64
			l.err = nil
			l.row([]any{&was}, "SELECT delta FROM adjustment WHERE product = ? AND id = ?", product, key)
			if l.err == nil && was != delta {
				l.err = ErrOtherSale
			}
			return l.err
		}
		if l.err == nil {
			l.err = take(ctx, tx, product, -delta) // units >= -20 holds for every stock
		}
		return l.err
	})
}

// Sweep ends what is overdue, each reservation in a transaction of its own, so that a bad row holds up no other. It
// returns how many were overdue. Run it once a second in each process: sweeps exclude each other.
func (s ReserveSQL) Sweep(ctx context.Context) (n int, err error) {
	rows, err := s.DB.QueryContext(ctx, "SELECT id FROM reservation WHERE state = 'held' AND expires_us <= "+clock)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	var overdue []string
	for id := ""; rows.Next(); overdue = append(overdue, id) {
		err = errors.Join(err, rows.Scan(&id))
	}
	err = errors.Join(err, rows.Err())
	for _, id := range overdue {
		if _, bad := s.Read(ctx, id); bad != nil {
			err = errors.Join(err, fmt.Errorf("reservation %s: %w", id, bad))
		}
	}
	return len(overdue), err
}

// change runs body with a reservation that it has locked. If there is none, its ID and State are empty, what body does
// is done, and the answer is ErrNoReservation.
func (s ReserveSQL) change(ctx context.Context, id string, body func(*locked)) (r Reservation, err error) {
	err = inTx(ctx, s.DB, func(tx *sql.Tx) error {
		l := locked{ctx: ctx, tx: tx}
		l.read("id = ? FOR UPDATE", id)
		if errors.Is(l.err, sql.ErrNoRows) {
			l.err = nil
		}
		l.row([]any{&l.now}, "SELECT "+clock)
		if l.State == "held" && l.now >= l.ExpiresMicros {
			l.end("expired")
		}
		if l.err == nil {
			body(&l)
		}
		r = l.Reservation
		return l.err
	})
	if err == nil && r.ID == "" {
		err = ErrNoReservation
	}
	return r, err
}

// locked is a reservation in a transaction that has locked it. After its first error it sends nothing more.
type locked struct {
	Reservation
	ctx context.Context
	tx  *sql.Tx
	now int64 // by the database's clock, after the lock
	err error
}

func (l *locked) exec(query string, args ...any) {
	if l.err == nil {
		_, l.err = l.tx.ExecContext(l.ctx, query, args...)
	}
}

// row reads the one row.
func (l *locked) row(into []any, query string, args ...any) {
	if l.err == nil {
		l.err = l.tx.QueryRowContext(l.ctx, query, args...).Scan(into...)
	}
}

func (l *locked) read(where string, arg any) {
	l.row([]any{&l.ID, &l.Request, &l.Product, &l.Quantity, &l.Buyer, &l.State, &l.ExpiresMicros, &l.ExtendedMicros,
		&l.Rehold, &l.Returned}, "SELECT id, COALESCE(request, ''), product, quantity, buyer, state, expires_us,"+
		" extended_us, rehold, returned FROM reservation WHERE "+where, arg)
}

// move changes the state, and writes down what it was.
func (l *locked) move(to string) {
	was := l.State
	l.State = to
	l.exec("UPDATE reservation SET state = ?, expires_us = ?, extended_us = ? WHERE id = ?", to, l.ExpiresMicros,
		l.ExtendedMicros, l.ID)
	l.note(was)
}

func (l *locked) note(was string) {
	l.exec("INSERT INTO history (reservation, was, became, expires_us, at_us) VALUES (?, ?, ?, ?, ?)", l.ID, was, l.State,
		l.ExpiresMicros, l.now)
}

func (l *locked) end(state string) {
	l.move(state)
	l.give(true)
}

// take takes the units from the limit of the buyer, and then from the stock, for whose row others wait.
func (l *locked) take() {
	if l.Buyer != "" {
		var limit, have int64
		// INSERT IGNORE would take a shared lock, and a double click would deadlock
		l.exec("INSERT INTO bought (product, buyer, units) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE units = units + ?",
			l.Product, l.Buyer, l.Quantity, l.Quantity)
		l.row([]any{&limit, &have}, "SELECT per_buyer, (SELECT units FROM bought WHERE product = ? AND buyer = ?)"+
			" FROM stock WHERE product = ?", l.Product, l.Buyer, l.Product)
		if l.err == nil && limit > 0 && have > limit {
			l.err = ErrLimit
		}
	}
	if l.err == nil {
		l.err = take(l.ctx, l.tx, l.Product, l.Quantity)
	}
}

// takeAgain takes the units of an expired reservation for a late payment, if it can.
func (l *locked) takeAgain(payment string) bool {
	l.exec("SAVEPOINT expired")
	l.take()
	if errors.Is(l.err, ErrSoldOut) || errors.Is(l.err, ErrLimit) {
		l.err = nil
		l.exec("ROLLBACK TO SAVEPOINT expired")
		return false
	}
	l.exec("UPDATE payment SET ordered = TRUE WHERE id = ?", payment)
	return true
}

// give gives the units back to the limit of the buyer, and to the stock.
func (l *locked) give(restock bool) {
	l.exec("UPDATE bought SET units = units - ? WHERE product = ? AND buyer = ?", l.Quantity, l.Product, l.Buyer)
	if restock {
		l.exec("UPDATE stock SET units = units + ? WHERE product = ?", l.Quantity, l.Product)
	}
}
