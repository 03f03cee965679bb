package plain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/examples/plain"
	"lastitem/judge"
	"lastitem/target"
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
	Adjust(ctx context.Context, key string, product, delta int64) error
}

// life is a way to hold as the table of reservations plays on it.
type life struct {
	reserver
	reset func(ctx context.Context, product, stock int64, rules ledger.Rules) error
	sweep func(ctx context.Context, product int64) (int, error)
	books func(ctx context.Context, product int64) (books, error)

	began, known sync.Map // books at the beginning, by product; reservations and payments that were answered before
}

// books are what a store has about a product. Reservations are JSON, with their "history" of "was became deadline
// time"; payments are "id reservation end time", orders "id quantity payment", buyers "name units", and adjustments
// "key units time".
type books struct {
	initial, limit, now, stock                          int64
	reservations, payments, orders, buyers, adjustments []string
}

func (l *life) Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error {
	l.began.Store(product, books{initial: stock, limit: rules.PerBuyer})
	return l.reset(ctx, product, stock, rules)
}

func (l *life) Sweep(ctx context.Context, product int64) (int, error) { return l.sweep(ctx, product) }

var codes = map[error]api.Code{plain.ErrSoldOut: api.SoldOut, plain.ErrLimit: api.LimitReached,
	plain.ErrNoReservation: api.UnknownReservation, plain.ErrNoOrder: api.UnknownOrder, plain.ErrOtherSale: api.KeyReused}

// Ask answers as the contract does.
func (l *life) Ask(ctx context.Context, a target.Ask) (said reservationtest.Answer) {
	id, _ := strings.CutPrefix(a.Reservation, "p-")
	var r plain.Reservation
	var refund, known bool
	var err error
	said.Outcome = judge.OK
	switch a.Kind {
	case judge.Reserve:
		r, err = l.Hold(ctx, plain.Reservation{Request: a.Key, Product: a.Product, Quantity: a.Quantity,
			Buyer: a.Buyer}, a.For)
		_, known = l.known.LoadOrStore(r.ID, true)
		r.State = target.StateHeld // the contract tells what was, a copy what is
	case judge.Confirm:
		r, refund, err = l.Confirm(ctx, id, a.Key)
		_, known = l.known.LoadOrStore("payment "+a.Key, true)
		if !refund {
			said.OrderID = r.ID
		}
	case judge.Cancel:
		r, err = l.Cancel(ctx, id)
	case judge.Extend:
		r, err = l.Extend(ctx, id, a.For)
	case judge.Return:
		r, err = l.Return(ctx, cmp.Or(id, fmt.Sprint(a.Product, "-none")), a.Restock)
		said.Quantity, said.Restock = r.Quantity, r.Returned == "stock"
	case judge.Adjust:
		err = l.Adjust(ctx, a.Key, a.Product, a.Quantity)
		_, known = l.known.LoadOrStore(fmt.Sprint("adjustment ", a.Product, a.Key, err), true)
		said.Delta = a.Quantity
	case reservationtest.Read:
		r, err = l.Read(ctx, id)
	}
	if refund {
		said.Refund = api.RefundYes
	}
	if err != nil {
		began, _ := l.began.Load(a.Product)
		said.Code, said.PerBuyer = cmp.Or(codes[err], api.Code(err.Error())), began.(books).limit
		said.Outcome = map[bool]judge.Outcome{true: judge.Refused, false: judge.Declined}[said.Code == api.SoldOut]
		return said
	}
	if refund || a.Kind == judge.Cancel && r.State == "confirmed" || a.Kind == judge.Extend && r.State != "held" {
		said.Outcome = judge.Refused
	}
	said.ReservationID, said.State, said.ExpiresAt = r.ID, r.State, time.UnixMicro(r.ExpiresMicros)
	said.Replayed, said.Items = known && !refund, []api.Line{{ProductID: r.Product, Quantity: r.Quantity}}
	return said
}

// Book reads what a store has as a judge wants it.
func (l *life) Book(ctx context.Context, product int64) (*api.Reservations, error) {
	b, err := l.books(ctx, product)
	at, _ := l.began.Load(product)
	began := at.(books)
	book := &api.Reservations{ProductID: product, AsOfMicros: b.now, Initial: began.initial, Stock: b.stock,
		PerBuyer: began.limit, Run: 1, BuyerUnits: map[string]int64{}, Adjustments: []api.Adjustment{{Delta: began.initial}}}
	for _, text := range b.adjustments {
		var a api.Adjustment
		_, failed := fmt.Sscan(text, &a.Key, &a.Delta, &a.AtMicros)
		a.Key = api.KeyText([]byte(a.Key))
		err, book.Initial, book.Adjustments = errors.Join(err, failed), book.Initial+a.Delta, append(book.Adjustments, a)
	}
	for _, text := range b.buyers {
		var buyer string
		var units int64
		_, failed := fmt.Sscan(text, &buyer, &units)
		err = errors.Join(err, failed)
		if began.limit > 0 && units > 0 { // a copy counts in any case
			book.BuyerUnits[buyer] = units
		}
	}
	for _, text := range b.reservations {
		row, failed := b.row(text)
		err, book.Rows = errors.Join(err, failed), append(book.Rows, row)
		if row.State == target.StateHeld && b.now >= row.ExpiresMicros {
			book.Overdue += row.Quantity
		}
	}
	book.Held, book.Ordered, book.WrittenOff = book.Count()
	return book, err
}

func (b books) row(text string) (row api.ReservationRow, err error) {
	var r struct {
		plain.Reservation
		History []string `json:"history"`
	}
	err = json.Unmarshal([]byte(text), &r)
	scan := func(text string, into ...any) {
		_, failed := fmt.Sscan(text, into...)
		err = errors.Join(err, failed)
	}
	row = api.ReservationRow{ReservationID: r.ID, Mode: "m", Replica: "r", Buyer: r.Buyer, State: r.State,
		Late: map[bool]string{true: ledger.LateRehold, false: ledger.LateRefund}[r.Rehold], Quantity: r.Quantity,
		ExpiresMicros: r.ExpiresMicros, ExtendedMicros: r.ExtendedMicros}
	for _, text := range r.History {
		e := api.ReservationEvent{Replica: "r"}
		was, rest, _ := strings.Cut(text, " ")
		scan(rest, &e.Now, &e.DeadlineMicros, &e.AtMicros)
		e.Was = was
		row.Events = append(row.Events, e)
	}
	row.CreatedMicros = row.Events[0].AtMicros
	for _, text := range b.payments {
		payment, end, _ := strings.Cut(text, " "+r.ID+" ")
		if p := (api.ReservationPaid{Payment: api.KeyText([]byte(payment))}); end != "" {
			scan(end, &p.Outcome, &p.AtMicros)
			p.OrderID = map[string]string{"order": r.ID}[p.Outcome]
			row.Payments = append(row.Payments, p)
		}
	}
	for _, text := range b.orders {
		o := api.ReservationOrder{Buyer: r.Buyer}
		if scan(text, &o.OrderID, &o.Quantity, &o.Payment); r.Returned != "" {
			o.Returns = []api.ReturnedPart{{Quantity: o.Quantity, Restocked: r.Returned == "stock"}}
		}
		if o.OrderID == r.ID {
			row.Orders = append(row.Orders, o)
		}
	}
	return row, err
}

// inSQL holds in a database of its own.
func inSQL(t *testing.T) *life {
	t.Helper()
	db := shop(t, "reserve_sql.go", 0)
	s := plain.ReserveSQL{DB: db}
	do := func(ctx context.Context, query string, args ...any) error {
		_, err := db.ExecContext(ctx, query, args...)
		return err
	}
	return &life{reserver: s, sweep: func(ctx context.Context, _ int64) (int, error) { return s.Sweep(ctx) },
		reset: func(ctx context.Context, product, stock int64, rules ledger.Rules) (err error) {
			for _, table := range []string{"reservation", "bought", "orders", "adjustment", "stock"} {
				err = errors.Join(err, do(ctx, "DELETE FROM "+table+" WHERE product = ?", product))
			}
			return errors.Join(err, do(ctx, "INSERT INTO stock (product, units, per_buyer, rehold) VALUES (?, ?, ?, ?)", product,
				stock, rules.PerBuyer, rules.Late == ledger.LateRehold))
		},
		books: func(ctx context.Context, product int64) (b books, err error) {
			err = db.QueryRowContext(ctx, "SELECT units, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM stock"+
				" WHERE product = ?", product).Scan(&b.stock, &b.now)
			column := func(query string, args ...any) (all []string) {
				rows, failed := db.QueryContext(ctx, query, args...)
				if failed != nil {
					err = errors.Join(err, failed)
					return nil
				}
				defer func() { _ = rows.Close() }()
				for text := ""; rows.Next(); all = append(all, text) {
					err = errors.Join(err, rows.Scan(&text))
				}
				err = errors.Join(err, rows.Err())
				return all
			}
			b.reservations = column(`SELECT CONCAT('{"id":"', id, '","quantity":"', quantity, '","buyer":"', buyer,
				'","state":"', state, '","expires":"', expires_us, '","extended":"', extended_us,
				'","rehold":', IF(rehold, 'true', 'false'),
				',"returned":"', returned, '","product":"1","history":["', (SELECT GROUP_CONCAT(CONCAT_WS(' ', was, became,
				expires_us, at_us) ORDER BY id SEPARATOR '","') FROM history WHERE reservation = r.id), '"]}')
				FROM reservation r WHERE product = ?`, product)
			b.payments = column("SELECT CONCAT_WS(' ', id, reservation, IF(ordered, 'order', 'refund'), at_us) FROM payment")
			b.orders = column("SELECT CONCAT_WS(' ', id, quantity, payment) FROM orders WHERE product = ?", product)
			b.adjustments = column("SELECT CONCAT_WS(' ', id, delta, at_us) FROM adjustment WHERE product = ?", product)
			b.buyers = column("SELECT CONCAT_WS(' ', buyer, units) FROM bought WHERE product = ?", product)
			return b, err
		}}
}

// inRedis holds in a Redis.
func inRedis(c redis.UniversalClient) *life {
	s := plain.ReserveRedis{Redis: c}
	key := func(name string, product int64) string { return fmt.Sprintf("%s:{%d}", name, product) }
	return &life{reserver: s, sweep: s.Sweep,
		reset: func(ctx context.Context, product, stock int64, rules ledger.Rules) error {
			for _, name := range []string{"reservations", "payments", "requests", "buyers", "due", "orders", "adjustments"} {
				c.Del(ctx, key(name, product))
			}
			return cmp.Or(c.Set(ctx, key("stock", product), stock, 0).Err(), c.HSet(ctx, key("rules", product), "per_buyer",
				rules.PerBuyer, "rehold", map[bool]int{true: 1}[rules.Late == ledger.LateRehold]).Err())
		},
		books: func(ctx context.Context, product int64) (b books, err error) {
			b.stock, err = c.Get(ctx, key("stock", product)).Int64()
			b.now, b.reservations = c.Time(ctx).Val().UnixMicro(), c.HVals(ctx, key("reservations", product)).Val()
			b.orders = c.LRange(ctx, key("orders", product), 0, -1).Val()
			for payment, text := range c.HGetAll(ctx, key("payments", product)).Val() {
				b.payments = append(b.payments, payment+" "+text)
			}
			for adjustment, text := range c.HGetAll(ctx, key("adjustments", product)).Val() {
				b.adjustments = append(b.adjustments, adjustment+" "+text)
			}
			for buyer, units := range c.HGetAll(ctx, key("buyers", product)).Val() {
				b.buyers = append(b.buyers, buyer+" "+units)
			}
			return b, err
		}}
}

// seam is where the table is played. Copies lack sales without a hold, a new run, parts, a choice of how long and how
// often, and what it takes to refuse a product that is sold in another way.
func (l *life) seam() reservationtest.Seam {
	return reservationtest.Seam{Service: l, Store: "p", Brief: 20 * time.Millisecond,
		Lacks: []string{"sell", "reset", "overwrite", "segments", "cancel-part", "0s", "2h", "restock op 1"}}
}

// Both ways to hold keep the rules of the modes, and in races too.
func TestReservations(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]func(t *testing.T) *life{"sql": inSQL,
		"redis": func(t *testing.T) *life { t.Helper(); return inRedis(client(t)) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seam, from := l(t).seam(), time.Now().UnixMicro() // the Redis is shared
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
	p := reservationtest.New(t, inRedis(c).seam(), 1)
	p.Begin(ledger.Rules{})
	p.Play(`hold a 1 = held 4; hold b 1 = held 3; hold d 1 = held 2; confirm d p = confirmed op; brief c 1 = held 1
		late c =`)
	testkit.Must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if said := p.Do("hold e 1"); !strings.Contains(said, "OOM") {
		t.Errorf("a hold = %s, want that memory is full", said)
	}
	p.Play(`cancel b = cancelled; confirm b r = cancelled refund; sweep = 1; confirm a q = confirmed oq;
		restock op = 1 true; confirm none s = unknown_reservation refund`)
	testkit.Must(t, errors.Join(c.ConfigSet(t.Context(), "maxmemory", "0").Err(),
		c.ZAdd(t.Context(), "due:{1}", redis.Z{Score: 1, Member: "1-ghost"}).Err()))
	p.Say("brief f 1 = held 3; late f =")
	if n, err := p.Sweep(t.Context(), 1); n != 2 || err == nil || !strings.Contains(err.Error(), "1-ghost") {
		t.Errorf("Sweep() = %d, %v, want 2 of which 1-ghost cannot be read", n, err)
	}
	p.Play("read f = expired; sweep = 0")
}
