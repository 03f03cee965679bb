package redisdb

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lastitem/contract/ledger"
	"lastitem/internal/store"
)

// keptReservation is a reservation as Redis has it.
type keptReservation struct {
	State    ledger.ReservationState `json:"state"`
	Expires  int64                   `json:"expires_us,string"`
	Extended int64                   `json:"extended_us,string"`
	Changed  int64                   `json:"changed_us,string"`
	OrderID  string                  `json:"order_id"`
	Events   string                  `json:"events"` // a line each: was, now, deadline, time, replica, tab, what else
	Late     string                  `json:"late"`
	Run      int64                   `json:"run,string"`
	Left     int64                   `json:"left,string"` // in stock, after the hold
	Created  int64                   `json:"created_us,string"`
	fixedReservation
}

// fixedReservation is the part of it that the process makes which holds.
type fixedReservation struct {
	Quantity    int64            `json:"quantity,string"`
	Key         []byte           `json:"key"`
	Fingerprint []byte           `json:"fingerprint,omitempty"`
	Replica     string           `json:"replica"`
	Order       reservationOrder `json:"order"`
}

// reservationOrder is what an order has from its reservation. The buyer comes last; see hold.lua.
type reservationOrder struct {
	ProductID     int64  `json:"product_id"`
	Quantity      int64  `json:"quantity"`
	Mode          string `json:"mode"`
	ReservationID string `json:"reservation_id"`
	Buyer         string `json:"buyer,omitempty"`
}

func decodeReservation(id, text string) (k keptReservation, h ledger.Reservation, err error) {
	product, err := holdProductOf(id)
	if err == nil {
		err = json.Unmarshal([]byte(text), &k)
	}
	if err != nil {
		return k, h, fmt.Errorf("%w: redis: reservation %s: %w", store.ErrUnavailable, id, err)
	}
	return k, ledger.Reservation{
		ID: id, Key: k.Key, Fingerprint: k.Fingerprint, Mode: k.Order.Mode, Replica: k.Replica, Buyer: k.Order.Buyer,
		State: k.State, Late: k.Late, ExpiresMicros: k.Expires, ExtendedMicros: k.Extended, CreatedMicros: k.Created,
		ChangedMicros: k.Changed,
		Items:         []ledger.ReservationItem{{ProductID: product, Quantity: k.Quantity, Run: k.Run, OrderID: k.OrderID}},
	}, nil
}

// holdProductOf returns the product of a reservation, which its id names: redis-101-<uuid>.
func holdProductOf(id string) (int64, error) {
	rest, ok := strings.CutPrefix(id, "redis-")
	digits, _, more := strings.Cut(rest, "-")
	product, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !more || err != nil {
		return 0, store.ErrNoReservation
	}
	return product, nil
}

// reservationEvents parses what hold.lua notes.
func reservationEvents(id, text string) ([]ledger.ReservationEvent, error) {
	var events []ledger.ReservationEvent
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(parts) < 5 {
			return nil, fmt.Errorf("%w: redis: reservation %s: event %q", store.ErrUnavailable, id, line)
		}
		deadline, err1 := strconv.ParseInt(parts[2], 10, 64)
		at, err2 := strconv.ParseInt(parts[3], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%w: redis: reservation %s: event %q", store.ErrUnavailable, id, line)
		}
		e := ledger.ReservationEvent{ReservationID: id, Was: ledger.ReservationState(parts[0]),
			Now:            ledger.ReservationState(parts[1]),
			DeadlineMicros: deadline, AtMicros: at}
		tab := strings.LastIndexByte(parts[4], '\t')
		if tab < 0 {
			return nil, fmt.Errorf("%w: redis: reservation %s: event %q", store.ErrUnavailable, id, line)
		}
		e.Replica = parts[4][:tab]
		units, request, _ := strings.Cut(parts[4][tab+1:], " ")
		e.Request = request
		e.Quantity, _ = strconv.ParseInt(units, 10, 64)
		if e.Now == ledger.Expired {
			e.CommittedMicros = at // nothing comes between a script's TIME and its writes
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: redis: reservation %s has no events", store.ErrUnavailable, id)
	}
	return events, nil
}

// fixed renders a fixedReservation, as the end of a keptReservation.
func fixed(h ledger.Reservation, key string) []byte {
	item := h.Items[0]
	b := strconv.AppendInt([]byte(`,"quantity":"`), item.Quantity, 10)
	b = append(append(append(b, `","key":"`...), key...), `","fingerprint":"`...)
	b = append(base64.StdEncoding.AppendEncode(b, h.Fingerprint), `","replica":`...)
	b = append(quote(b, h.Replica), `,"order":{"product_id":`...)
	b = strconv.AppendInt(b, item.ProductID, 10)
	b = strconv.AppendInt(append(b, `,"quantity":`...), item.Quantity, 10)
	b = quote(append(b, `,"mode":`...), h.Mode)
	b = quote(append(b, `,"reservation_id":`...), h.ID)
	if h.Buyer != "" {
		b = quote(append(b, `,"buyer":`...), h.Buyer)
	}
	return append(b, "}}"...)
}

// escaped renders a name as the inside of a JSON string without a quotation mark.
func escaped(name string) string {
	b := quote(nil, name)
	return strings.ReplaceAll(string(b[1:len(b)-1]), `\"`, `\u0022`)
}
