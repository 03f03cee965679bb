// Package store is the ground of the stores that keep the count and the orders, each in a package of its own: redisdb,
// sqldb and etcddb. Here are their errors, and what two or three of them share.
//
// A store does not decide how stock is deducted: it reads, writes absolutely, writes conditionally and appends orders,
// and the modes of package stock combine these, correctly or not. But it reports whether a command happened: an error
// of a write is [ErrUnavailable] if nothing was changed, and [ErrUnknown] if that is not known.
package store

import (
	"errors"
	"fmt"
)

// The errors of a store. Each of its packages tells the errors of its driver apart.
var (
	ErrUnknownProduct = errors.New("store: unknown product")      // always in a *ledger.ProductError
	ErrSegmented      = errors.New("store: product is segmented") // always in a *ledger.ProductError
	// ErrUnavailable: the store did not answer, or refused, and nothing was changed.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrRefused: the server is reachable but refuses the command, because Redis's memory is full or the database is
	// read-only.
	ErrRefused = errors.New("store: refused")
	// ErrForbidden: the server refuses the command, and will until an operator changes that: rights, a missing table, a
	// setting.
	ErrForbidden = fmt.Errorf("%w until an operator changes that", ErrRefused)
	// ErrCopy: the server that answers may be a copy that lacks the last commits. Nothing was read.
	ErrCopy = fmt.Errorf("%w: the server may be a copy that lags behind", ErrUnavailable)
	// ErrConflict: the database ended the transaction in favour of another one (deadlock, lock wait, snapshot). Nothing
	// was changed.
	ErrConflict = errors.New("store: transaction conflict")
	// ErrRowBusy: another transaction held the row for the caller's whole wait. Nothing was changed.
	ErrRowBusy = errors.New("store: row is locked")
	// ErrOrderExists: an order has been inserted before, by an earlier delivery of its request. Nothing was changed.
	ErrOrderExists = errors.New("store: order exists")
	// ErrPosition: a [ledger.Position] that this store has never returned.
	ErrPosition = errors.New("store: not a position of this store")
	// ErrUnknown: the write was sent and its answer lost. It may have happened.
	ErrUnknown = errors.New("store: outcome unknown")
	// ErrCrossSlot says that the keys are in different slots of a Redis Cluster, where no script reaches them all. Nothing
	// was changed.
	ErrCrossSlot = errors.New("store: products are in different slots of the Redis Cluster")
	// ErrQueueFull: too many tickets of the product are in flight. Nothing was changed.
	ErrQueueFull = errors.New("store: too many tickets are in flight")
	// ErrNoTicket: there is no such ticket in the product's present run.
	ErrNoTicket = errors.New("store: no such ticket")
	// ErrNoOrder says that the product has no such order in its present run.
	ErrNoOrder = errors.New("store: no such order")
)

// Answers about reservations that are no failures.
var (
	// ErrNoReservation: there is no such reservation.
	ErrNoReservation = errors.New("store: no such reservation")
	// ErrShort: there is too little stock; nothing is held. See [ledger.ShortError].
	ErrShort = errors.New("store: too little stock")
	// ErrLimit: the buyer would have more than he may; nothing is held.
	ErrLimit = errors.New("store: the buyer's limit is reached")
	// ErrPaymentReused: the payment was for another reservation, and what it was answered there stands.
	ErrPaymentReused = errors.New("store: the payment belongs to another reservation")
	// ErrOtherWay: the product has a limit per buyer, a row per unit or a computed stock, and the mode cannot do that.
	ErrOtherWay = errors.New("store: the product is sold in another way")
	// ErrReservationUnsupported: the product is sold in a way that a release would break.
	ErrReservationUnsupported = errors.New("store: the product takes no holds")
	// ErrAdjustUnsupported: an adjustment would be overwritten, or reaches what no transaction does.
	ErrAdjustUnsupported = errors.New("store: the stock cannot be adjusted")
	// ErrTooLong: the product allows no hold and no extension of that many milliseconds. See [ledger.ShortError].
	ErrTooLong = errors.New("store: longer than the product allows")
	// ErrBeyond: fewer units are left of the reservation or the order. See [ledger.ShortError].
	ErrBeyond = errors.New("store: more units than are left")
	// ErrNoLine: a part must name one of the products of the reservation.
	ErrNoLine = errors.New("store: no such line")
	// ErrManyParts: the reservation has [ledger.MostChanges]; the rest can be cancelled as a whole.
	ErrManyParts = errors.New("store: too many parts")
)

// CountLost is the error of a product whose count or initial count was deleted or evicted while the other, or its
// orders, are still there: an audit must not take it for a product that the store never had.
func CountLost(store string, product int64) error {
	return fmt.Errorf("%w: %s: the counts or orders of product %d are there only in part", ErrUnavailable, store, product)
}
