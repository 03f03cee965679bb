package handler

import (
	"errors"
	"fmt"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/events"
	"lastitem/internal/handler/input"
	"lastitem/internal/stock"
)

// The refusals that never reach a mode. A field that is wrong is a *stock.InvalidError, like the ones that a mode
// makes.
var (
	errNotFound         = errors.New("handler: no such route")
	errMethodNotAllowed = errors.New("handler: method not allowed")
	errNoAdminToken     = errors.New("handler: no admin token configured")
	errUnauthorized     = errors.New("handler: wrong or missing bearer token")
	errTooManyTokens    = errors.New("handler: too many wrong bearer tokens")
	errExperiment       = errors.New("handler: an experiment with the lock without the admin token")
	errHost             = errors.New("handler: the shop is not served under this host name")
	errCrossOrigin      = errors.New("handler: sent by a page of another origin")
	errDraining         = errors.New("handler: draining")
	errNotReady         = errors.New("handler: not ready")
	errPartlySet        = errors.New("handler: some stores may have been set")
	errPartlyForbidden  = errors.New("handler: some stores are set, and others refuse")
)

// problems maps each error to its code; the first row that errors.Is finds wins. An unknown outcome stands above
// everything that says no, because an error that wraps both has lost an answer. A row's detail replaces the code's own
// text.
var problems = []struct {
	err    error
	code   api.Code
	detail string
}{
	// It is not known whether stock was deducted, or set.
	{err: errPartlyForbidden, code: api.OutcomeUnknown, detail: "some stores may have been set, and another refuses " +
		"until an operator changes that; the log says why"},
	{err: errPartlySet, code: api.OutcomeUnknown, detail: "some stores may have been set, and others not; the request " +
		"may be repeated, and sets all of them"},
	{err: stock.ErrUnknown, code: api.OutcomeUnknown},

	// No, and a repetition will not change that.
	{err: stock.ErrSoldOut, code: api.SoldOut},
	{err: stock.ErrReturnUnsupported, code: api.ReturnUnsupported},
	{err: stock.ErrAdjustUnsupported, code: api.AdjustUnsupported},
	{err: stock.ErrReconcile, code: api.ReconcileRefused},
	{err: stock.ErrSegmented, code: api.ProductSegmented},
	{err: stock.ErrOtherWay, code: api.LimitUnsupported},
	{err: stock.ErrReservationUnsupported, code: api.HoldUnsupported},
	{err: stock.ErrReservationEnded, code: api.ReservationExpired}, // endedCode tells the three apart
	{err: stock.ErrNoReservation, code: api.UnknownReservation},
	{err: stock.ErrNoOrder, code: api.UnknownOrder},
	{err: stock.ErrPaymentReused, code: api.KeyReused, detail: "this payment was for another reservation, and its " +
		"answer there stands"},
	{err: stock.ErrNoTicket, code: api.UnknownTicket},
	{err: stock.ErrUnknownProduct, code: api.UnknownProduct},
	{err: stock.ErrUnknownMode, code: api.UnknownMode},
	{err: stock.ErrInvalid, code: api.InvalidRequest},
	{err: stock.ErrKeyMissing, code: api.KeyMissing},
	{err: stock.ErrKeyReused, code: api.KeyReused},
	{err: errNotFound, code: api.NotFound},
	{err: errNoAdminToken, code: api.Unauthorized, detail: "no admin token is configured: set SHOP_ADMIN_TOKEN for the " +
		"service"},
	{err: errUnauthorized, code: api.Unauthorized},
	{err: errHost, code: api.Forbidden, detail: "the shop is not served under this host name; SHOP_HOSTS lists the names"},
	{err: errCrossOrigin, code: api.Forbidden},
	{err: errExperiment, code: api.Forbidden, detail: "lease_ms, depth and hold_ms are experiments with the lock: they " +
		"need Authorization: Bearer with the admin token"},
	{err: errMethodNotAllowed, code: api.MethodNotAllowed},
	{err: input.ErrBodyTooLarge, code: api.BodyTooLarge},
	{err: input.ErrMediaType, code: api.UnsupportedMediaType},

	// No, for now. A code stands before those that its error may wrap as a cause.
	{err: errTooManyTokens, code: api.RateLimited, detail: "too many wrong tokens; the right one is still accepted"},
	{err: stock.ErrCopy, code: api.StaleRead},
	{err: stock.ErrTooLate, code: api.BackendUnavailable, detail: "a backend did not answer within the request's time; " +
		"nothing was deducted"},
	{err: events.ErrTooManyWatchers, code: api.RateLimited, detail: "too many readers of /events"},
	{err: errTooManyReads, code: api.RateLimited, detail: "too many requests read rows at once"},
	{err: errTooManyAnswers, code: api.RateLimited, detail: "too many clients read large answers at once, and slowly"},
	{err: stock.ErrCrowded, code: api.RateLimited, detail: "too many readers wait for tickets; ask again without wait_ms"},
	{err: stock.ErrQueueFull, code: api.QueueFull},
	{err: stock.ErrLimit, code: api.LimitReached},
	{err: stock.ErrInFlight, code: api.InFlight},
	{err: stock.ErrModeUnavailable, code: api.ModeUnavailable},
	{err: stock.ErrLockBusy, code: api.LockBusy},
	{err: stock.ErrLockLost, code: api.LockLost},
	{err: stock.ErrContended, code: api.Contended},
	{err: errDraining, code: api.BackendUnavailable, detail: "this replica is draining"},
	{err: errNotReady, code: api.BackendUnavailable},
	{err: stock.ErrLockClosed, code: api.BackendUnavailable, detail: "this replica is shutting down"},
	{err: stock.ErrLockVersion, code: api.BackendUnavailable, detail: "a replica of another version, whose locks this " +
		"one does not understand, has the lock; nothing was deducted"},
	{err: stock.ErrForbidden, code: api.BackendUnavailable, detail: "a backend refuses this until an operator changes " +
		"that, and a repetition does not; the log says why; nothing was deducted"},
	{err: stock.ErrRefused, code: api.BackendUnavailable, detail: "a backend answered, and refuses for now; the log " +
		"says why; nothing was deducted"},
	{err: stock.ErrLockUnavailable, code: api.BackendUnavailable},
	{err: stock.ErrUnavailable, code: api.BackendUnavailable},
}

// problemOf says what a client may know of err: the code's facts, and numbers or fields where the error carries them,
// never the cause of a failure. It depends on nothing but its arguments, since some modes store what it makes.
func problemOf(err error, instance string) api.Problem {
	code, detail := api.Internal, ""
	for _, row := range problems {
		if errors.Is(err, row.err) {
			code, detail = row.code, row.detail
			break
		}
	}
	var ended *stock.ReservationEndedError
	if errors.As(err, &ended) && code == api.ReservationExpired {
		code = endedCode[ended.State]
	}
	if detail == "" {
		detail = explanations[code].En
	}
	p := api.NewProblem(code, detail, instance)
	switch code { // the errors with numbers or names in them
	case api.SoldOut:
		var e *stock.SoldOutError
		if errors.As(err, &e) {
			requested, available := e.Requested, e.Available
			p.ProductID, p.Requested, p.Available = e.ProductID, &requested, &available
			p.Detail = fmt.Sprintf("product %d: %d requested, %d available", e.ProductID, e.Requested, e.Available)
		}
	case api.ReservationExpired, api.ReservationCancelled, api.ReservationConfirmed:
		if p.State = string(ended.State); ended.Refund {
			p.Refund = api.RefundYes
		}
	case api.LimitReached:
		var e *ledger.ShortError
		if errors.As(err, &e) {
			p.ProductID, p.Requested, p.PerBuyer = e.ProductID, &e.Requested, e.Available
			p.Detail = fmt.Sprintf("product %d: %d requested, and a buyer may have %d", e.ProductID, e.Requested, e.Available)
		}
	case api.UnknownProduct, api.ProductSegmented, api.LimitUnsupported, api.HoldUnsupported, api.ReturnUnsupported,
		api.AdjustUnsupported:
		var e *ledger.ProductError
		if errors.As(err, &e) {
			if code == api.UnknownProduct && e.Store != "" {
				detail = fmt.Sprintf("%s does not have it; another store may, since a store that was added later is empty; "+
					"PUT /products/%d/stock creates the product in every store", e.Store, e.ProductID)
			}
			p.ProductID, p.Detail = e.ProductID, fmt.Sprintf("product %d: %s", e.ProductID, detail)
		}
	case api.ReconcileRefused:
		var e *stock.ReconcileError
		if errors.As(err, &e) {
			p.ProductID, p.Detail = e.ProductID, fmt.Sprintf("product %d: %s", e.ProductID, e.Why)
		}
	case api.ModeUnavailable:
		var e *stock.ModeError
		if errors.As(err, &e) {
			p.Detail = fmt.Sprintf("mode %s lacks a backend: %v", e.Mode, e.Lacks)
			if e.Store != "" {
				p.Detail = fmt.Sprintf("mode %s with store %s lacks a backend: %v", e.Mode, e.Store, e.Lacks)
			}
		}
	case api.BackendUnavailable:
		var e *stock.NotReadyError
		if errors.As(err, &e) {
			p.Detail = "nothing was sent: " + e.Why
		}
	case api.InvalidRequest:
		var e *stock.InvalidError
		if errors.As(err, &e) {
			p.Field, p.Detail = e.Field, e.Field+": "+e.Why
		}
	}
	return p
}

// endedCode is the code of each state in which a reservation has ended.
var endedCode = map[ledger.ReservationState]api.Code{
	ledger.Expired: api.ReservationExpired, ledger.Void: api.ReservationExpired,
	ledger.Cancelled: api.ReservationCancelled, ledger.Confirmed: api.ReservationConfirmed,
}
