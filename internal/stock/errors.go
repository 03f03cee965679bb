package stock

import (
	"errors"
	"fmt"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/store"
)

// The sentinels of a deduction, grouped by whether it happened.
var (
	// No, and a repetition will not change that.
	ErrSoldOut = errors.New("stock: sold out") // always as a *SoldOutError
	// the product is segmented and the mode is not; always in a *ledger.ProductError
	ErrSegmented      = store.ErrSegmented
	ErrUnknownProduct = store.ErrUnknownProduct // always in a *ledger.ProductError
	ErrUnknownMode    = errors.New("stock: unknown mode")
	ErrInvalid        = errors.New("stock: invalid request") // always as a *InvalidError
	ErrKeyMissing     = idempotency.ErrKeyMissing
	ErrKeyReused      = idempotency.ErrKeyReused
	// of reservations; see package store
	ErrNoReservation          = store.ErrNoReservation
	ErrNoOrder                = store.ErrNoOrder
	ErrNoTicket               = store.ErrNoTicket
	ErrPaymentReused          = store.ErrPaymentReused
	ErrReservationUnsupported = store.ErrReservationUnsupported
	// the same for a return: its units would be overwritten, or there is no counter for them
	ErrReturnUnsupported = errors.New("stock: the product takes no returns")
	ErrAdjustUnsupported = store.ErrAdjustUnsupported // always in a *ledger.ProductError
	ErrOtherWay          = store.ErrOtherWay
	ErrReconcile         = errors.New("stock: cannot be reconciled")      // always as a *ReconcileError
	ErrReservationEnded  = errors.New("stock: the reservation has ended") // always as a *ReservationEndedError

	// No, for now: nothing happened, and trying again may succeed.
	// the request ended at its deadline; joined with ErrUnknown, it may have happened
	ErrLimit           = store.ErrLimit
	ErrQueueFull       = store.ErrQueueFull
	ErrCrowded         = errors.New("stock: too many readers wait for tickets")
	ErrTooLate         = errors.New("stock: no answer in time")
	ErrInFlight        = idempotency.ErrInFlight
	ErrLockBusy        = lock.ErrBusy
	ErrLockLost        = lock.ErrLost // only before the first write
	ErrLockUnavailable = lock.ErrUnavailable
	// together with ErrLockUnavailable: a replica with another version of the lock engine
	ErrLockVersion = handoff.ErrVersion
	ErrLockClosed  = handoff.ErrClosed              // the process is shutting down
	ErrContended   = errors.New("stock: contended") // lost a race that the store decided
	ErrUnavailable = store.ErrUnavailable
	ErrCopy        = store.ErrCopy // together with ErrUnavailable
	// together with ErrUnavailable or ErrLockUnavailable: a server has answered, and refuses
	ErrRefused         = store.ErrRefused
	ErrForbidden       = store.ErrForbidden // the same, and it will go on refusing until an operator changes that
	ErrModeUnavailable = errors.New("stock: mode unavailable")

	// errOvertaken is returned by a write that asks whether the row has changed since it was read. Nothing happened, and
	// package shop tries again while the request may wait; then it is ErrContended.
	errOvertaken = fmt.Errorf("%w: somebody has written since the read", store.ErrConflict)

	// Unknown: it was sent, and no answer came.
	ErrUnknown = store.ErrUnknown
	// ErrOtherRun refuses a request from a log that was made before the stock was set, or so long ago that its key may
	// have been purged. Nobody can tell any more whether it was executed then, so it is not executed now.
	ErrOtherRun = fmt.Errorf("%w: the stock was set meanwhile, or the request is older than keys are kept", ErrUnknown)
)

// ModeError is [ErrModeUnavailable] with the missing backend, and advice on how to get it.
type ModeError struct {
	Mode  string
	Store Store // the store of the request; "" = a backend that the mode always needs is missing
	Lacks error // "no etcd configured: set SHOP_ETCD"; contains no secrets
}

// Error names the mode and the missing backend.
func (e *ModeError) Error() string {
	if e.Store != "" {
		return fmt.Sprintf("%v: %s with store %s: %v", ErrModeUnavailable, e.Mode, e.Store, e.Lacks)
	}
	return fmt.Sprintf("%v: %s: %v", ErrModeUnavailable, e.Mode, e.Lacks)
}

// Is makes errors.Is(err, ErrModeUnavailable) hold.
func (e *ModeError) Is(target error) bool { return target == ErrModeUnavailable }

// NotReadyError is [ErrUnavailable] for a request that was not sent, because a backend or the mode itself is known not
// to be ready.
type NotReadyError struct {
	Why string // "kafka: 3 of 12 partitions of lastitem-requests: its consumer does not answer"
	Err error  // the backend's last error; nil = none is known
}

// Error says why.
func (e *NotReadyError) Error() string { return fmt.Sprintf("%v: %s", ErrUnavailable, e.Why) }

// Unwrap makes errors.Is(err, ErrUnavailable) hold, and returns the backend's last error too.
func (e *NotReadyError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnavailable}
	}
	return []error{ErrUnavailable, e.Err}
}

// SoldOutError is [ErrSoldOut] with its numbers.
type SoldOutError struct {
	ProductID int64
	Requested int64
	Available int64
}

// Error gives the quantity requested and the stock left.
func (e *SoldOutError) Error() string {
	return fmt.Sprintf("stock: sold out: product %d has %d left, %d requested", e.ProductID, e.Available, e.Requested)
}

// Is makes errors.Is(err, ErrSoldOut) hold.
func (e *SoldOutError) Is(target error) bool { return target == ErrSoldOut }

// ReservationEndedError is [ErrReservationEnded] with the state that the reservation is in.
type ReservationEndedError struct {
	State  ledger.ReservationState
	Paid   bool // a payment came with the request
	Refund bool // and it must go back
}

// Error says what the reservation is.
func (e *ReservationEndedError) Error() string { return "stock: the reservation is " + string(e.State) }

// Is makes errors.Is(err, ErrReservationEnded) hold.
func (e *ReservationEndedError) Is(target error) bool { return target == ErrReservationEnded }

// ReconcileError is [ErrReconcile] with the reason.
type ReconcileError struct {
	ProductID int64
	Why       string
}

// Error names the product and says why.
func (e *ReconcileError) Error() string {
	return fmt.Sprintf("%v: product %d: %s", ErrReconcile, e.ProductID, e.Why)
}

// Is makes errors.Is(err, ErrReconcile) hold.
func (e *ReconcileError) Is(target error) bool { return target == ErrReconcile }

// InvalidError is [ErrInvalid] with the field that is wrong and why.
type InvalidError struct {
	Field string
	Why   string
}

// Error names the field.
func (e *InvalidError) Error() string { return "stock: invalid " + e.Field + ": " + e.Why }

// Is makes errors.Is(err, ErrInvalid) hold.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func soldOut(item Item, available int64) error {
	return &SoldOutError{ProductID: item.ProductID, Requested: item.Quantity, Available: available}
}
