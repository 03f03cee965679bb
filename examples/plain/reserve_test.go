package plain_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/examples/plain"
	"lastitem/internal/store"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// reserver is what both ways to hold have.
type reserver interface {
	Hold(ctx context.Context, r plain.Reservation, d time.Duration) (plain.Reservation, error)
	Confirm(ctx context.Context, id, payment string) (r plain.Reservation, refund bool, err error)
	Cancel(ctx context.Context, id string) (plain.Reservation, error)
	Extend(ctx context.Context, id string, d time.Duration) (plain.Reservation, error)
	Read(ctx context.Context, id string) (plain.Reservation, error)
	Return(ctx context.Context, id string, restock bool) (plain.Reservation, error)
}

// life is a way to hold as the table of reservations plays on it.
type life struct {
	reserver
	name  string // "sql-": in the table the ids begin with it
	reset func(ctx context.Context, product, stock int64, rules ledger.Rules) error
	sweep func(ctx context.Context, product int64) (int, error)
	books func(ctx context.Context, product int64) (books, error)

	began, known sync.Map // rules by product; reservations and payments that were answered before
}

// books are what a store keeps about a product, as text where both keep the same: histories are "was became deadline
// time", payments "reservation end time", and orders "id quantity payment".
type books struct {
	now, stock   int64
	reservations []plain.Reservation
	histories    map[string][]string
	payments     map[string]string
	orders       []string
	buyers       map[string]int64
}

type begun struct {
	stock int64
	ledger.Rules
}

func (l *life) rules(product int64) begun {
	rules, _ := l.began.Load(product)
	return rules.(begun)
}

func (l *life) Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	l.began.Store(product, begun{stock, rules})
	return l.reset(ctx, product, stock, rules)
}

func (l *life) Sweep(ctx context.Context, product int64) (int, error) { return l.sweep(ctx, product) }

func (l *life) Sell(context.Context, ledger.Order) (*int64, error) { return nil, errors.ErrUnsupported }

func (l *life) Reserve(ctx context.Context, r ledger.Reservation, d time.Duration) (ledger.Reservation, *int64, bool,
	error) {
	i := r.Items[0]
	made, err := l.Hold(ctx, plain.Reservation{Request: string(r.Key), Product: i.ProductID, Quantity: i.Quantity,
		Buyer: r.Buyer}, d)
	if err != nil {
		if errors.Is(err, plain.ErrLimit) {
			err = &ledger.ShortError{Err: store.ErrLimit, Available: l.rules(i.ProductID).PerBuyer}
		}
		return r, nil, false, said(err)
	}
	_, earlier := l.known.LoadOrStore(made.ID, true)
	made.State = "held" // the contract tells what was, the example what is
	return l.row(made), nil, earlier, nil
}

func (l *life) Confirm(ctx context.Context, id, _, _ string, payment []byte) (e ledger.Ended, err error) {
	r, refund, err := l.reserver.Confirm(ctx, l.own(id), string(payment))
	if err != nil {
		if errors.Is(err, plain.ErrNoReservation) != refund {
			err = fmt.Errorf("%w, and refund = %t", err, refund)
		}
		return e, said(err)
	}
	if e.Reservation, e.Refund = l.row(r), refund; !refund {
		e.OrderID = e.Reservation.ID
	}
	_, e.Replay = l.known.LoadOrStore(string(payment), true)
	return e, nil
}

func (l *life) Cancel(ctx context.Context, id, _ string) (ledger.Ended, error) {
	r, err := l.reserver.Cancel(ctx, l.own(id))
	return ledger.Ended{Reservation: l.row(r)}, said(err)
}

func (l *life) Extend(ctx context.Context, id, _ string, d time.Duration) (ledger.Ended, error) {
	r, err := l.reserver.Extend(ctx, l.own(id), d)
	return ledger.Ended{Reservation: l.row(r)}, said(err)
}

func (l *life) Read(ctx context.Context, id, _ string) (ledger.Reservation, error) {
	r, err := l.reserver.Read(ctx, l.own(id))
	return l.row(r), said(err)
}

func (l *life) Return(ctx context.Context, _ int64, order string, restock bool) (int64, bool, error) {
	r, err := l.reserver.Return(ctx, l.own(order), restock)
	if errors.Is(err, plain.ErrNoReservation) {
		err = plain.ErrNoOrder
	}
	return r.Quantity, r.Returned == "stock", said(err)
}

func (l *life) own(id string) string { return strings.TrimPrefix(id, l.name) }

func (l *life) row(r plain.Reservation) ledger.Reservation {
	late := map[bool]string{true: ledger.LateRehold, false: ledger.LateRefund}[r.Rehold]
	return ledger.Reservation{ID: l.name + r.ID, Key: []byte(r.Request), Buyer: r.Buyer, Mode: "m", Replica: "r",
		State: ledger.ReservationState(r.State), Late: late, ExpiresMicros: r.ExpiresMicros, ExtendedMicros: r.ExtendedMicros,
		Items: []ledger.ReservationItem{{ProductID: r.Product, Quantity: r.Quantity, Run: 1}}}
}

// said is an error as the store of a mode says it.
func said(err error) error {
	for is, of := range map[error]error{plain.ErrSoldOut: store.ErrShort, plain.ErrNoReservation: store.ErrNoReservation,
		plain.ErrNoOrder: store.ErrNoOrder, plain.ErrOtherSale: store.ErrPaymentReused,
		plain.ErrContended: store.ErrConflict} {
		if errors.Is(err, is) {
			return of
		}
	}
	return err
}

func (l *life) Page(ctx context.Context, product int64, _ string) (h ledger.Reservations, err error) {
	b, err := l.books(ctx, product)
	rules := l.rules(product)
	h = ledger.Reservations{AsOfMicros: b.now, Initial: rules.stock, Stock: b.stock, PerBuyer: rules.PerBuyer, Run: 1}
	if rules.PerBuyer > 0 { // the example counts in any case
		h.BuyerUnits = b.buyers
	}
	for _, r := range b.reservations {
		row := ledger.ReservationRow{Reservation: l.row(r)}
		for _, text := range b.histories[r.ID] {
			e := ledger.ReservationEvent{Replica: "r"}
			was, rest, _ := strings.Cut(text, " ")
			_, scanned := fmt.Sscan(rest, &e.Now, &e.DeadlineMicros, &e.AtMicros)
			e.Was, err = ledger.ReservationState(was), errors.Join(err, scanned)
			row.Events = append(row.Events, e)
		}
		row.CreatedMicros = row.Events[0].AtMicros
		for payment, text := range b.payments {
			p := ledger.Payment{ID: []byte(payment)}
			if of, rest, _ := strings.Cut(text, " "); of == r.ID {
				_, scanned := fmt.Sscan(rest, &p.Outcome, &p.AtMicros)
				p.OrderID, err = map[bool]string{true: row.ID}[p.Outcome == "order"], errors.Join(err, scanned)
				row.Payments = append(row.Payments, p)
			}
		}
		for _, text := range b.orders {
			o := ledger.ReservationOrder{Buyer: r.Buyer, Returned: r.Returned != "", Restocked: r.Returned == "stock"}
			_, scanned := fmt.Sscan(text, &o.ID, &o.Quantity, &o.Payment)
			if err = errors.Join(err, scanned); o.ID == r.ID {
				o.ID = row.ID
				row.Orders = append(row.Orders, o)
			}
		}
		count(&h, r)
		h.Rows = append(h.Rows, row)
	}
	return h, err
}

func count(h *ledger.Reservations, r plain.Reservation) {
	switch {
	case r.State == "held" && h.AsOfMicros >= r.ExpiresMicros:
		h.Overdue += r.Quantity
		fallthrough
	case r.State == "held":
		h.Held += r.Quantity
	case r.State == "confirmed" && r.Returned == "":
		h.Ordered += r.Quantity
	case r.Returned == "gone":
		h.WrittenOff += r.Quantity
	}
}

// inSQL holds in a database of its own.
func inSQL(t *testing.T) *life {
	t.Helper()
	db := shop(t, "reserve_sql.go", 0)
	s := plain.ReserveSQL{DB: db}
	return &life{reserver: s, name: "sql-", books: func(ctx context.Context, product int64) (books, error) {
		return booksIn(ctx, db, product)
	}, sweep: func(ctx context.Context, _ int64) (int, error) { return s.Sweep(ctx) },
		reset: func(ctx context.Context, product, stock int64, rules ledger.Rules) (err error) {
			for _, table := range []string{"reservation", "bought", "stock", "orders"} {
				_, failed := db.ExecContext(ctx, "DELETE FROM "+table+" WHERE product = ?", product)
				err = errors.Join(err, failed)
			}
			_, failed := db.ExecContext(ctx, "INSERT INTO stock (product, units, per_buyer, rehold) VALUES (?, ?, ?, ?)", product,
				stock, rules.PerBuyer, rules.Late == ledger.LateRehold)
			return errors.Join(err, failed)
		}}
}

func booksIn(ctx context.Context, db *sql.DB, product int64) (b books, err error) {
	b = books{histories: map[string][]string{}, payments: map[string]string{}, buyers: map[string]int64{}}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return b, err
	}
	defer func() { _ = tx.Rollback() }()
	each := func(query string, row func(scan func(...any) error) error, args ...any) {
		rows, failed := tx.QueryContext(ctx, query, args...)
		for err = errors.Join(err, failed); failed == nil && rows.Next(); {
			err = errors.Join(err, row(rows.Scan))
		}
	}
	each("SELECT units, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM stock WHERE product = ?",
		func(scan func(...any) error) error { return scan(&b.stock, &b.now) }, product)
	each("SELECT id, quantity, buyer, state, expires_us, extended_us, rehold, returned FROM reservation WHERE product = ?",
		func(scan func(...any) error) error {
			r := plain.Reservation{Product: product}
			err := scan(&r.ID, &r.Quantity, &r.Buyer, &r.State, &r.ExpiresMicros, &r.ExtendedMicros, &r.Rehold, &r.Returned)
			b.reservations = append(b.reservations, r)
			return err
		}, product)
	var id, text string
	each("SELECT reservation, CONCAT_WS(' ', was, became, expires_us, at_us) FROM history ORDER BY id",
		func(scan func(...any) error) error {
			err := scan(&id, &text)
			b.histories[id] = append(b.histories[id], text)
			return err
		})
	each("SELECT id, CONCAT_WS(' ', reservation, IF(ordered, 'order', 'refund'), at_us) FROM payment",
		func(scan func(...any) error) error {
			err := scan(&id, &text)
			b.payments[id] = text
			return err
		})
	each("SELECT CONCAT_WS(' ', id, quantity, payment) FROM orders WHERE product = ?",
		func(scan func(...any) error) error {
			err := scan(&text)
			b.orders = append(b.orders, text)
			return err
		}, product)
	each("SELECT buyer, units FROM bought WHERE product = ? AND units <> 0", func(scan func(...any) error) error {
		var units int64
		err := scan(&id, &units)
		b.buyers[id] = units
		return err
	}, product)
	return b, err
}

// inRedis holds in a Redis.
func inRedis(c redis.UniversalClient) *life {
	s := plain.ReserveRedis{Redis: c}
	key := func(name string, product int64) string { return fmt.Sprintf("%s:{%d}", name, product) }
	return &life{reserver: s, name: "redis-", sweep: s.Sweep,
		reset: func(ctx context.Context, product, stock int64, rules ledger.Rules) error {
			for _, name := range []string{"reservations", "payments", "requests", "buyers", "due", "orders"} {
				c.Del(ctx, key(name, product))
			}
			return cmp.Or(c.Set(ctx, key("stock", product), stock, 0).Err(), c.HSet(ctx, key("rules", product), "per_buyer",
				rules.PerBuyer, "rehold", map[bool]int{true: 1}[rules.Late == ledger.LateRehold]).Err())
		},
		books: func(ctx context.Context, product int64) (b books, err error) {
			b.stock, err = c.Get(ctx, key("stock", product)).Int64()
			b.now, b.histories, b.buyers = c.Time(ctx).Val().UnixMicro(), map[string][]string{}, map[string]int64{}
			for _, text := range c.HVals(ctx, key("reservations", product)).Val() {
				var r struct {
					plain.Reservation
					History []string `json:"history"`
				}
				err = errors.Join(err, json.Unmarshal([]byte(text), &r))
				b.reservations, b.histories[r.ID] = append(b.reservations, r.Reservation), r.History
			}
			b.payments = c.HGetAll(ctx, key("payments", product)).Val()
			b.orders = c.LRange(ctx, key("orders", product), 0, -1).Val()
			for buyer, units := range c.HGetAll(ctx, key("buyers", product)).Val() {
				var n int64
				_, scanned := fmt.Sscan(units, &n)
				b.buyers[buyer], err = n, errors.Join(err, scanned)
			}
			return b, err
		}}
}

// lacks is what the copies leave out: sales without a hold, setting the stock under what is held, and segments.
var lacks = []string{"sell", "reset", "segments"}

// Both ways to hold keep the rules of the modes, and in races too.
func TestReservations(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]func(t *testing.T) *life{"sql": inSQL,
		"redis": func(t *testing.T) *life { return inRedis(client(t)) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seam, from := reservationtest.InStore(l(t), name, lacks...), time.Now().UnixMicro() // the Redis is shared
			reservationtest.Play(t, seam, from)
			reservationtest.Race(t, seam, from-1)
		})
	}
}

// If memory is full nothing new is held, and whatever ends a reservation works. What cannot be read holds up no sweep.
func TestReservationsInAFullRedis(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.RedisNodes(t, 1, "maxmemory-policy noeviction")[0].URL)
	testkit.Must(t, err)
	c := testkit.Closing(t, redis.NewClient(o))
	p := reservationtest.New(t, reservationtest.InStore(inRedis(c), "redis", lacks...), 1)
	p.Begin(ledger.Rules{})
	p.Play(`hold a 1 = held 4; hold b 1 = held 3; hold d 1 = held 2; confirm d p = confirmed op; brief c 1 = held 1
		late c =`)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if said := p.Do("hold e 1"); !strings.Contains(said, "OOM") {
		t.Errorf("a hold = %s, want that memory is full", said)
	}
	p.Play(`cancel b = cancelled; confirm b r = cancelled refund; sweep = 1; confirm a q = confirmed oq; restock op = 1 true
		confirm none s = unknown_reservation refund`)
	testkit.Must(t, errors.Join(c.ConfigSet(t.Context(), "maxmemory", "0").Err(),
		c.ZAdd(t.Context(), "due:{1}", redis.Z{Score: 1, Member: "1-ghost"}).Err()))
	p.Say("brief f 1 = held 3; late f =")
	if n, err := p.Sweep(t.Context(), 1); n != 2 || err == nil || !strings.Contains(err.Error(), "1-ghost") {
		t.Errorf("Sweep() = %d, %v, want 2 of which 1-ghost cannot be read", n, err)
	}
	p.Play("read f = expired; sweep = 0")
}

// Sweeps come about once a period, and their errors are told.
func TestSweepEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		swept, failed := 0, 0
		plain.SweepEvery(ctx, time.Second, func(context.Context) (int, error) {
			swept++
			return 0, errors.New("not now")
		}, func(error) { failed++ })
		if swept < 40 || swept > 120 || failed != swept {
			t.Errorf("%d sweeps in a minute, %d errors told, want about 60 and as many", swept, failed)
		}
	})
}
