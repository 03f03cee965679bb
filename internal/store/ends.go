package store

import (
	"sync/atomic"

	"lastitem/contract/ledger"
)

// Ends tells of the reservations that this process ends. The zero value is ready, and nobody listens.
type Ends struct {
	f atomic.Pointer[func(ledger.Reservation)]
}

// OnEnd has f told of each reservation that this process has ended, by a request or a sweep: its mode, its state and
// its items. f must not block.
func (e *Ends) OnEnd(f func(ledger.Reservation)) { e.f.Store(&f) }

// Tell tells of a reservation that was in another state before.
func (e *Ends) Tell(h ledger.Reservation, was ledger.ReservationState) {
	if f := e.f.Load(); f != nil && h.State != was && h.State != ledger.Held {
		(*f)(h)
	}
}
