package redisdb

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// Reserve holds the units of h for the given time, see [ledger.HoldFor], and returns it with its run, times and rules,
// and the stock that it left. Its id is "redis-<product>-<uuid>". If its key has made a reservation with the same
// fingerprint, that one is returned as it was then, earlier is set, and nothing was done; one with another fingerprint
// is [idempotency.ErrKeyReused]. More than one product is [store.ErrCrossSlot].
func (r *Reservations) Reserve(ctx context.Context, h ledger.Reservation, hold time.Duration) (made ledger.Reservation,
	remaining int64,
	earlier bool, err error) {
	if len(h.Items) != 1 {
		return h, 0, false, fmt.Errorf("%w: a reservation in Redis holds one product", store.ErrCrossSlot)
	}
	item := h.Items[0]
	if product, err := holdProductOf(h.ID); err != nil || product != item.ProductID {
		return h, 0, false, fmt.Errorf("%w: %q is no id of product %d", store.ErrUnavailable, h.ID, item.ProductID)
	}
	if err := r.holding.announce(ctx, item.ProductID); err != nil {
		return h, 0, false, err
	}
	key := base64.StdEncoding.EncodeToString(h.Key)
	args := []any{h.ID, fixed(h, key), hold.Microseconds(), escaped(h.Replica), key, item.Quantity, h.Buyer}
	var list []any
	if key == "" {
		list, err = r.arrow(ctx, makeScript, r.holdKeys(item.ProductID), args...)
	} else {
		list, err = r.claimed(ctx, makeScript, holdClaim{family: "hold-keys", field: key,
			product: item.ProductID, reused: idempotency.ErrKeyReused}, args...)
	}
	if err != nil {
		return h, 0, false, err
	}
	if list[0] == "long" {
		return h, 0, false, tooLong(item.ProductID, hold, list)
	}
	return madeReservation(h, list)
}

func madeReservation(h ledger.Reservation, list []any) (made ledger.Reservation, left int64, earlier bool, err error) {
	item := h.Items[0]
	switch list[0] {
	case "made":
		err := errors.Join(integer(list, 1, &h.CreatedMicros), integer(list, 2, &h.ExpiresMicros),
			integer(list, 3, &item.Run), integer(list, 5, &left))
		h.State, h.Late, h.ChangedMicros, h.Items = ledger.Held, textAt(list, 4), h.CreatedMicros,
			[]ledger.ReservationItem{item}
		return h, left, false, err
	case "held", "earlier":
		k, made, err := decodeReservation(textAt(list, 1), textAt(list, 2))
		if err == nil && !bytes.Equal(made.Fingerprint, h.Fingerprint) {
			err = idempotency.ErrKeyReused
		}
		if err != nil {
			return made, 0, false, err
		}
		first, err := reservationEvents(made.ID, k.Events)
		if err != nil {
			return made, 0, false, err
		}
		made.State, made.ExpiresMicros, made.ExtendedMicros = ledger.Held, first[0].DeadlineMicros, 0
		made.ChangedMicros, made.Items[0].OrderID = made.CreatedMicros, ""
		for _, e := range first {
			if e.Now == ledger.Held { // a part that was cancelled since
				made.Items[0].Quantity += e.Quantity
			}
		}
		return made, k.Left, list[0] == "earlier", nil
	case "unknown":
		return h, 0, false, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: item.ProductID}
	case "segmented":
		return h, 0, false, &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	}
	refused := &ledger.ShortError{Err: store.ErrShort, ProductID: item.ProductID, Requested: item.Quantity}
	refused.Available, _ = strconv.ParseInt(textAt(list, 1), 10, 64)
	if list[0] == "limit" {
		refused.Err = store.ErrLimit
	}
	return h, 0, false, refused
}

// tooLong refuses a hold or an extension, in milliseconds.
func tooLong(product int64, hold time.Duration, list []any) error {
	var longest int64
	err := integer(list, 1, &longest)
	return errors.Join(err, &ledger.ShortError{Err: store.ErrTooLong, ProductID: product, Requested: hold.Milliseconds(),
		Available: longest / 1000})
}
