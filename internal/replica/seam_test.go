package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/reservationtest"
	"lastitem/testkit/testenv"
)

// The life of a reservation over HTTP, on embedded servers. What SQL and Redis hold is paid by the same payments.
func TestLifeOverHTTP(t *testing.T) {
	t.Parallel()
	redis := testenv.Miniredis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.SQLite(t), Conns: 16})
	playLives(t, r, "", [][3]string{{"reserve-sql", "reserve-sql", "sql"}, {"reserve-redis", "redis-lua", "redis"}})
}

// The same on servers, with further modes that hold, and with modes that sell what another one holds.
func TestLifeOverHTTPOnServers(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := startReplica(t, Config{Redis: redis.URL, Prefix: redis.Prefix, SQL: testenv.MySQL(t), Conns: 16})
	playLives(t, r, "%d.", [][3]string{{"reserve-sql", "queue", "sql"}, {"reserve-sql", "idempotent", "sql"},
		{"reserve-unit", "reserve-unit", "sql"}, {"reserve-check", "reserve-check", "sql"},
		{"reserve-redis", "reserve-redis", "redis"}})
}

// playLives plays the table with the names of two modes and their store; key is the form of the Key of the number.
func playLives(t *testing.T, r *Replica, key string, all [][3]string) {
	waitReady(t, r)
	url := testkit.Serve(t, r).URL
	for i, modes := range all {
		t.Run(modes[0]+" "+modes[1], func(t *testing.T) {
			t.Parallel()
			seam := serve(t, url, modes[0], modes[1], modes[2]).seam()
			if key != "" {
				seam.Key = fmt.Sprintf(key, i)
			}
			reservationtest.Play(t, seam, int64(1000+100*i))
			if modes[0] != "reserve-check" { // it oversells
				reservationtest.Race(t, seam, int64(1099+100*i))
			}
		})
	}
}

// served is what a replica says about what some mode holds and another one sells.
type served struct {
	*target.Shop
	holds, sells string
	store        api.Store
}

func serve(t testing.TB, url, holds, sells, store string) served {
	t.Helper()
	s, err := target.NewShop(url, "t0ken")
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	return served{s, holds, sells, api.Store(store)}
}

func (s served) seam() reservationtest.Seam {
	absolute := s
	absolute.sells = map[api.Store]string{api.SQL: "unsafe-sql", api.Redis: "unsafe"}[s.store]
	seam := reservationtest.Seam{Changes: s, Store: string(s.store), Brief: 100 * time.Millisecond,
		Reset: s.reset, Reserve: s.reserve, Sell: s.sell, Overwrite: absolute.sell, Sweep: s.sweep, Book: s.book}
	if s.holds == "reserve-unit" || s.holds == "reserve-check" {
		seam.Lacks = []string{"overwrite"}
	}
	return seam
}

// ends are the codes that tell the state of a reservation, and words those of the table for the others, each with what
// it must say: whether it happened, and what becomes of a payment.
var (
	ends = map[string]api.Code{"confirmed": api.ReservationConfirmed, "cancelled": api.ReservationCancelled,
		"expired": api.ReservationExpired, "void": api.ReservationExpired}
	words = map[string]string{
		"unknown_reservation no ": "no reservation", "unknown_reservation no true": "no reservation",
		"unknown_order no ": "no order", "idempotency_key_reused no ": "key reused",
		"idempotency_key_reused no false": "payment reused", "hold_unsupported no ": "unsupported",
		"return_unsupported no ": "unsupported", "sold_out no_for_now ": "short", "sold_out no ": "short",
		"limit_reached no_for_now ": "limit",
	}
)

// ask sends a request. An answer that tells no state is an error in the words of the table.
func (s served) ask(ctx context.Context, kind judge.ReservationKind, c target.Call, body any) (target.Answer, error) {
	r, err := c.Send(ctx, s.Client, s.URL)
	said := target.Read(kind, r)
	if err != nil || said.Outcome == judge.OK || said.State != "" && said.Code == ends[said.State] {
		return said, errors.Join(err, json.Unmarshal(r.Body, body))
	}
	var p api.Problem
	err = json.Unmarshal(r.Body, &p)
	word := fmt.Sprint(p.Code, " ", p.Happened, " ", p.Refund)
	switch known := words[word]; {
	case known == "short" && p.Available != nil:
		word = fmt.Sprint("short ", *p.Available)
	case known == "short":
		word = "short ?"
	case known == "limit":
		word = fmt.Sprint("limit ", p.PerBuyer)
	case known != "" && r.Status == api.Codes[p.Code].Status:
		word = known
	}
	return said, errors.Join(err, errors.New(word))
}

func (s served) change(ctx context.Context, a target.Ask) (ledger.Ended, error) {
	said, err := s.ask(ctx, a.Kind, s.Call(a), new(any))
	e := ledger.Ended{Reservation: reservation(said), Refund: said.Refund == api.RefundYes, Replay: said.Replayed}
	if a.Kind == judge.Confirm {
		e.OrderID = said.OrderID
	}
	return e, err
}

func reservation(said target.Answer) ledger.Reservation {
	return ledger.Reservation{ID: said.ReservationID, State: ledger.ReservationState(said.State),
		ExpiresMicros: said.ExpiresAt.UnixMicro()}
}

func (s served) Confirm(ctx context.Context, id, _, _ string, payment []byte) (ledger.Ended, error) {
	return s.change(ctx, target.Ask{Kind: judge.Confirm, Reservation: id, Key: string(payment)})
}

func (s served) Cancel(ctx context.Context, id, _ string) (ledger.Ended, error) {
	return s.change(ctx, target.Ask{Kind: judge.Cancel, Reservation: id})
}

func (s served) Extend(ctx context.Context, id, _ string, hold time.Duration) (ledger.Ended, error) {
	return s.change(ctx, target.Ask{Kind: judge.Extend, Reservation: id, For: hold})
}

func (s served) ReadReservation(ctx context.Context, id, _ string) (ledger.Reservation, error) {
	said, err := s.ask(ctx, judge.Cancel, target.Call{Method: http.MethodGet, Path: "/reservations/" + id}, new(any))
	return reservation(said), err
}

func (s served) Return(ctx context.Context, product int64, order string, restock bool) (int64, bool, error) {
	var back api.Returned
	_, err := s.ask(ctx, judge.Return, s.Call(target.Ask{Kind: judge.Return, Product: product, Order: order,
		Restock: restock}), &back)
	return back.Quantity, back.Restock, err
}

func (s served) reset(ctx context.Context, product, stock int64, r ledger.Rules) error {
	return s.SetStock(ctx, product, api.SetStock{Stock: stock, Segments: r.Segments, PerBuyer: r.PerBuyer, Late: r.Late,
		Units: r.Segments == 0 && s.holds == "reserve-unit"})
}

func (s served) reserve(ctx context.Context, r ledger.Reservation, hold time.Duration) (ledger.Reservation, *int64, bool,
	error) {
	said, err := s.ask(ctx, judge.Reserve, s.Call(target.Ask{Kind: judge.Reserve, Mode: s.holds, For: hold,
		Product: r.Items[0].ProductID, Quantity: r.Items[0].Quantity, Buyer: r.Buyer, Key: string(r.Key),
		Wait: 20 * time.Second}), new(any))
	return reservation(said), said.Remaining, said.Replayed, err
}

func (s served) sell(ctx context.Context, o ledger.Order) (ledger.Order, error) {
	a := target.Ask{Mode: s.sells, Store: s.store, Product: o.ProductID, Quantity: o.Quantity, Buyer: o.Buyer,
		Key: string(o.Key), Wait: 20 * time.Second}
	said, err := s.ask(ctx, "", s.Call(a), new(any))
	o.ID, o.Remaining = said.OrderID, said.Remaining
	switch {
	case err != nil || strings.HasPrefix(s.sells, "unsafe"): // which keeps no keys
	case s.sells == "buyer-check": // nor does this, and it counts orders
		o.Buyer = ""
	default:
		if again, err := s.ask(ctx, "", s.Call(a), new(any)); err != nil || again.OrderID != o.ID {
			return o, fmt.Errorf("its key sells again: %s, %w", again.OrderID, err)
		}
	}
	return o, err
}

// sweep reads what is overdue, which ends it: the replica sweeps when it likes.
func (s served) sweep(ctx context.Context, product int64) (n int, err error) {
	book, err := s.ReservationsNow(ctx, product, s.store)
	for i := 0; err == nil && i < len(book.Rows); i++ {
		if row := book.Rows[i]; row.State == target.StateHeld && book.AsOfMicros >= row.ExpiresMicros {
			n++
			_, err = s.ReadReservation(ctx, row.ReservationID, "")
		}
	}
	return n, err
}

// book reads the reservations, and asks for the audit as well: it is of the ledger, which has their orders.
func (s served) book(ctx context.Context, product int64) (*api.Reservations, error) {
	book, err := s.ReservationsNow(ctx, product, s.store)
	if err != nil || book.Overdue > 0 {
		return book, err
	}
	audit, err := target.Call{Method: http.MethodGet, Path: fmt.Sprintf("/products/%d/audit", product)}.Fetch(ctx,
		s.Client, s.URL)
	if strings.Contains(string(audit), "BROKEN") {
		err = fmt.Errorf("the audit: %s", audit)
	}
	return book, err
}
