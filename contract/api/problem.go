package api

import "net/http"

// ProblemType is the content type of every error body (RFC 9457).
const ProblemType = "application/problem+json"

// Headers of the contract.
const (
	HeaderReplica   = "X-Replica"
	HeaderRequestID = "X-Request-Id"
	HeaderKey       = "Idempotency-Key"
	HeaderReplayed  = "Idempotent-Replayed"
)

// Code is the stable, machine-readable name of an error.
type Code string

// The codes, in the order of the contract's table.
const (
	SoldOut              Code = "sold_out"
	ProductSegmented     Code = "product_segmented"
	LimitUnsupported     Code = "limit_unsupported"
	HoldUnsupported      Code = "hold_unsupported"
	ReturnUnsupported    Code = "return_unsupported"
	AdjustUnsupported    Code = "adjust_unsupported"
	ReconcileRefused     Code = "reconcile_refused"
	ReservationExpired   Code = "reservation_expired"
	ReservationCancelled Code = "reservation_cancelled"
	ReservationConfirmed Code = "reservation_confirmed"
	UnknownReservation   Code = "unknown_reservation"
	UnknownOrder         Code = "unknown_order"
	UnknownTicket        Code = "unknown_ticket"
	UnknownProduct       Code = "unknown_product"
	UnknownMode          Code = "unknown_mode"
	NotFound             Code = "not_found"
	InvalidRequest       Code = "invalid_request"
	KeyMissing           Code = "idempotency_key_missing"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	MethodNotAllowed     Code = "method_not_allowed"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	KeyReused            Code = "idempotency_key_reused"
	LimitReached         Code = "limit_reached"
	InFlight             Code = "idempotency_in_flight"
	QueueFull            Code = "queue_full"
	RateLimited          Code = "rate_limited"
	LockBusy             Code = "lock_busy"
	LockLost             Code = "lock_lost"
	Contended            Code = "contended"
	BackendUnavailable   Code = "backend_unavailable"
	StaleRead            Code = "stale_read"
	ModeUnavailable      Code = "mode_unavailable"
	OutcomeUnknown       Code = "outcome_unknown"
	Internal             Code = "internal"
)

// Happened answers the first question about any error: was the stock deducted?
type Happened string

// The answers.
const (
	No       Happened = "no"         // and a repetition will not change that
	NoForNow Happened = "no_for_now" // try again, after Retry-After
	Unknown  Happened = "unknown"    // repeat only with the same idempotency key
)

// Facts of a code: its status, title, and whether the deduction happened.
type Facts struct {
	Status   int
	Title    string
	Happened Happened
}

// Codes lists every code with its facts. The HTTP status alone is not enough: 409 and 503 have several codes each.
var Codes = map[Code]Facts{
	SoldOut:              {http.StatusConflict, "Sold out", No},
	ProductSegmented:     {http.StatusConflict, "Product is segmented", No},
	LimitUnsupported:     {http.StatusConflict, "The mode has no rule for the limit per buyer", No},
	HoldUnsupported:      {http.StatusConflict, "No holds here", No},
	ReturnUnsupported:    {http.StatusConflict, "No returns here", No},
	AdjustUnsupported:    {http.StatusConflict, "The stock cannot be adjusted", No},
	ReconcileRefused:     {http.StatusConflict, "The stock cannot be reconciled", No},
	ReservationExpired:   {http.StatusGone, "Reservation expired", No},
	ReservationCancelled: {http.StatusConflict, "Reservation cancelled", No},
	ReservationConfirmed: {http.StatusConflict, "Reservation confirmed", No},
	UnknownReservation:   {http.StatusNotFound, "Unknown reservation", No},
	UnknownOrder:         {http.StatusNotFound, "Unknown order", No},
	UnknownTicket:        {http.StatusNotFound, "Unknown ticket", No},
	UnknownProduct:       {http.StatusNotFound, "Unknown product", No},
	UnknownMode:          {http.StatusNotFound, "Unknown mode", No},
	NotFound:             {http.StatusNotFound, "Not found", No},
	InvalidRequest:       {http.StatusBadRequest, "Invalid request", No},
	KeyMissing:           {http.StatusBadRequest, "Idempotency-Key missing", No},
	Unauthorized:         {http.StatusUnauthorized, "Unauthorized", No},
	Forbidden:            {http.StatusForbidden, "Forbidden", No},
	MethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed", No},
	BodyTooLarge:         {http.StatusRequestEntityTooLarge, "Body too large", No},
	UnsupportedMediaType: {http.StatusUnsupportedMediaType, "Unsupported media type", No},
	KeyReused:            {http.StatusUnprocessableEntity, "Idempotency-Key reused with another payload", No},
	LimitReached:         {http.StatusConflict, "Limit per buyer reached", NoForNow},
	InFlight:             {http.StatusConflict, "First request with this key still in flight", NoForNow},
	QueueFull:            {http.StatusServiceUnavailable, "Too many tickets in flight", NoForNow},
	RateLimited:          {http.StatusTooManyRequests, "Rate limited", NoForNow},
	LockBusy:             {http.StatusServiceUnavailable, "Lock busy", NoForNow},
	LockLost:             {http.StatusServiceUnavailable, "Lock lost before the first write", NoForNow},
	Contended:            {http.StatusServiceUnavailable, "Contended", NoForNow},
	BackendUnavailable:   {http.StatusServiceUnavailable, "Backend unavailable", NoForNow},
	StaleRead:            {http.StatusServiceUnavailable, "Only a copy of the data answers", NoForNow},
	ModeUnavailable:      {http.StatusServiceUnavailable, "Mode unavailable", NoForNow},
	OutcomeUnknown:       {http.StatusGatewayTimeout, "Outcome unknown", Unknown},
	Internal:             {http.StatusInternalServerError, "Internal error", Unknown},
}

// Problem is the body of every error (RFC 9457), with the extensions of this contract.
type Problem struct {
	// Type is "/problems/" + code and resolves to a short text.
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Code     Code     `json:"code"`
	Happened Happened `json:"happened"`
	// Field names the offending input of an invalid_request.
	Field string `json:"field,omitempty"`
	// ProductID goes with sold_out, unknown_product, product_segmented and their like: of a cart, the product that refused
	// it. Requested and Available go with sold_out.
	ProductID int64  `json:"product_id,omitempty"`
	Requested *int64 `json:"requested,omitempty"`
	Available *int64 `json:"available,omitempty"`
	// State goes with the codes of a reservation that has ended, and Refund with every problem of a confirm: true, false
	// or "unknown". PerBuyer goes with limit_reached, and Requested too: the most that a buyer
	// may have.
	State    string `json:"state,omitempty"`
	Refund   Refund `json:"refund,omitempty"`
	PerBuyer int64  `json:"per_buyer,omitempty"`
	// RequestID is the X-Request-Id of the answer, and TraceParent the traceparent of the request. An answer that is
	// stored under an idempotency key has neither, since each repetition gets the same bytes.
	RequestID   string `json:"request_id,omitempty"`
	TraceParent string `json:"traceparent,omitempty"`
}

// NewProblem fills in what follows from the code.
func NewProblem(code Code, detail, instance string) Problem {
	f, ok := Codes[code]
	if !ok {
		code, f = Internal, Codes[Internal]
	}
	return Problem{
		Type: "/problems/" + string(code), Title: f.Title, Status: f.Status,
		Detail: detail, Instance: instance, Code: code, Happened: f.Happened,
	}
}
