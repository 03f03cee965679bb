package plain

import "errors"

// These are answers too. After ErrNoReservation and ErrLimit nothing was taken.
var (
	ErrNoReservation = errors.New("no such reservation")
	ErrLimit         = errors.New("the buyer has as many as he may")
	ErrNoOrder       = errors.New("no such order")
)

// Reservation is units of one product that are held for a buyer:
//
//	held ── a payment, before the deadline ─> confirmed: an order with the same id
//	     ── a cancel ─> cancelled       ── the deadline ─> expired ── a late payment, if Rehold ─> confirmed
//
// Times are microseconds since 1970 by the clock of the store, never of a process.
type Reservation struct {
	ID             string `json:"id"`
	Request        string `json:"request"` // the key of the request that made it; "" = none
	Product        int64  `json:"product,string"`
	Quantity       int64  `json:"quantity,string"`
	Buyer          string `json:"buyer"` // "" = unknown, and not limited
	State          string `json:"state"`
	ExpiresMicros  int64  `json:"expires,string"`
	ExtendedMicros int64  `json:"extended,string"` // when the one extension was granted; 0 = not yet
	Rehold         bool   `json:"rehold"`          // a late payment gets the units, if they are still free
	Returned       string `json:"returned"`        // "stock" = put back, "gone" = written off, "" = not returned
}

// valid says why nothing can be held.
func (r Reservation) valid() error {
	if r.Quantity < 1 {
		return ErrQuantity
	}
	if len(r.Request) > 64 || len(r.Buyer) > 64 {
		return ErrKey
	}
	return nil
}

// repeats says that a key made the reservation for another purchase, if it did.
func (r Reservation) repeats(asked Reservation) error {
	if r.Product != asked.Product || r.Quantity != asked.Quantity || r.Buyer != asked.Buyer {
		return ErrOtherSale
	}
	return nil
}

// adjustable says why the stock cannot be adjusted.
func adjustable(key string, delta int64) error {
	if delta == 0 {
		return ErrQuantity
	}
	if key == "" || len(key) > 64 {
		return ErrKey
	}
	return nil
}

// returned is how a return is written down.
func returned(restock bool) string {
	if restock {
		return "stock"
	}
	return "gone"
}
