package redisdb

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Confirm is like that of sqldb.
func (r *Reservations) Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error) {
	product, err := holdProductOf(id)
	if err != nil {
		return ledger.Ended{}, err
	}
	tail := quote([]byte(`,"replica":`), replica)
	tail = base64.StdEncoding.AppendEncode(append(tail, `,"key":"`...), payment)
	tail = append(tail, `","created_us":`...)
	list, err := r.claimed(ctx, confirmScript, holdClaim{family: "payments", field: string(payment),
		product: product, reused: store.ErrPaymentReused},
		id, escaped(replica), payment, order, quote([]byte(`{"id":`), order), tail)
	if errors.Is(err, errRefunded) {
		if _, err = r.Read(ctx, id, replica); err == nil {
			err = store.ErrPaymentReused
		}
	}
	if err != nil {
		return ledger.Ended{}, err
	}
	e := ledger.Ended{OrderID: textAt(list, 2)}
	if list[0] == "reused" {
		return e, store.ErrPaymentReused
	}
	e.Refund, e.Replay = e.OrderID == "", list[0] == "replay" && e.OrderID != order
	if list[0] == "replay" && textAt(list, 1) == "" { // the payment has outlived its reservation
		e.Reservation = ledger.Reservation{ID: id, State: ledger.Confirmed}
		if e.Refund {
			return e, store.ErrNoReservation
		}
		return e, nil
	}
	if e.Reservation, err = r.endedReservation(id, list, 3); err == nil && list[0] == "replay" && !e.Replay {
		r.Tell(e.Reservation, ledger.Held) // the first answer was lost
	}
	return e, err
}

// Cancel is like that of sqldb.
func (r *Reservations) Cancel(
	ctx context.Context, id, replica string, part ledger.Part,
) (e ledger.Ended, err error) {
	product, err := holdProductOf(id)
	if err == nil && part.ProductID > 0 && part.ProductID != product {
		_, err = r.Read(ctx, id, replica)
		err = cmp.Or(err, store.ErrNoLine)
	}
	if err != nil {
		return e, err
	}
	list, err := r.arrow(ctx, cancelScript, r.holdKeys(product), id, escaped(replica), part.Quantity, part.Request())
	switch {
	case err != nil:
		return e, err
	case list[0] == "reused":
		return e, idempotency.ErrKeyReused
	case list[0] == "many":
		return e, store.ErrManyParts
	case list[0] == "beyond":
		return e, beyond(product, part, list)
	}
	e.Replay = textAt(list, 3) == "replay"
	e.Reservation, err = r.endedReservation(id, list, 2)
	return e, err
}

// beyond refuses more units than are left.
func beyond(product int64, part ledger.Part, list []any) error {
	short := &ledger.ShortError{Err: store.ErrBeyond, ProductID: product, Requested: part.Quantity}
	return cmp.Or(integer(list, 1, &short.Available), error(short))
}

// Extend is like that of sqldb.
func (r *Reservations) Extend(
	ctx context.Context, id, replica string, hold time.Duration, key []byte,
) (e ledger.Ended, err error) {
	product, err := holdProductOf(id)
	if err != nil {
		return e, err
	}
	list, err := r.arrow(ctx, extendScript, r.holdKeys(product), id, escaped(replica), hold.Microseconds(),
		ledger.Digest(key))
	switch {
	case err != nil:
		return e, err
	case list[0] == "keyless":
		return e, idempotency.ErrKeyMissing
	case list[0] == "long":
		return e, tooLong(product, hold, list)
	}
	e.Reservation, err = r.endedReservation(id, list, 2)
	if e.Replay = textAt(list, 4) == "replay"; err == nil && e.Replay {
		err = integer(list, 3, &e.Reservation.ExpiresMicros)
	}
	return e, err
}

// Read is like that of sqldb; a held one of an earlier run is told as void.
func (r *Reservations) Read(ctx context.Context, id, replica string) (ledger.Reservation, error) {
	return r.end(ctx, readScript, id, escaped(replica))
}

func (r *Reservations) end(
	ctx context.Context, script *redis.Script, id string, args ...any,
) (ledger.Reservation, error) {
	product, err := holdProductOf(id)
	if err != nil {
		return ledger.Reservation{}, err
	}
	list, err := r.arrow(ctx, script, r.holdKeys(product), append([]any{id}, args...)...)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return r.endedReservation(id, list, 2)
}

// endedReservation reads the answer of a script; its state before is at was, if the script may have ended it.
func (r *Reservations) endedReservation(id string, list []any, was int) (ledger.Reservation, error) {
	if list[0] == "none" {
		return ledger.Reservation{}, store.ErrNoReservation
	}
	_, h, err := decodeReservation(id, textAt(list, 1))
	if before := textAt(list, was); err == nil && before != "" {
		r.Tell(h, ledger.ReservationState(before))
	}
	return h, err
}

// Return is like that of sqldb.
func (r *Reservations) Return(
	ctx context.Context, product int64, order string, restock bool, part ledger.Part,
) (quantity int64, restocked bool, err error) {
	back := map[bool]int{true: 1}[restock]
	for range maxMoves {
		at, text, o, err := r.findOrder(ctx, product, order)
		if err != nil {
			return 0, false, err
		}
		list, err := r.arrow(ctx, returnScript, r.holdKeys(product), order, at, text, o.Quantity, back, o.Buyer,
			part.Quantity, part.Request())
		if err != nil {
			return 0, false, err
		}
		switch units, put, ok := strings.Cut(textAt(list, 0), " "); {
		case units == "segmented":
			return 0, false, &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: product}
		case units == "beyond":
			return 0, false, beyond(product, part, list)
		case ok:
			quantity, err = strconv.ParseInt(units, 10, 64)
			if restocked = put == "1"; err == nil && part.Quantity > 0 &&
				(part.Quantity != quantity || restocked != restock) {
				err = idempotency.ErrKeyReused
			}
			return quantity, restocked, err
		}
	}
	return 0, false, setAgain(product)
}

// orderPages says which ids the pages of a product's list of orders have, so that a search leaves most of them out: the
// list only grows, and ids rise with the time.
type orderPages struct {
	mu    sync.Mutex
	first string // the list's first row: another one is another list
	pages [][2]string
}

// findOrder finds an order and its position in the list. Only the first search reads the whole list.
func (r *Reservations) findOrder(ctx context.Context, product int64, id string) (at int64, text string, o ledger.Order,
	err error) {
	kept, _ := r.pages.LoadOrStore(product, new(orderPages))
	p := kept.(*orderPages)
	p.mu.Lock()
	defer p.mu.Unlock()
	pipe := r.s.c.Pipeline()
	n, first := pipe.LLen(ctx, r.s.key("orders", product)), pipe.LIndex(ctx, r.s.key("orders", product), 0)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, "", o, readError(err, product)
	}
	if first.Val() != p.first {
		p.first, p.pages = first.Val(), nil
	}
	want := string(quote(nil, id))
	for from := int64(0); from < n.Val(); from += store.BatchRows {
		page := int(from / store.BatchRows)
		if page < len(p.pages) && (want < p.pages[page][0] || want > p.pages[page][1]) {
			continue
		}
		rows, err := r.s.rows(ctx, product, from, min(from+store.BatchRows, n.Val()))
		if err != nil {
			return 0, "", o, err
		}
		var ids []string
		for i, text := range rows {
			row, _, _ := strings.Cut(strings.TrimPrefix(text, `{"id":`), ",")
			if ids = append(ids, row); row == want {
				err := json.Unmarshal([]byte(text), &o)
				return from + int64(i), text, o, err
			}
		}
		if page == len(p.pages) && len(ids) == store.BatchRows {
			p.pages = append(p.pages, [2]string{strings.Clone(slices.Min(ids)), strings.Clone(slices.Max(ids))})
		}
	}
	return 0, "", o, store.ErrNoOrder
}
