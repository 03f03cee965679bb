package target

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
)

// Ask is one request to lastitem: a deduction, or what Kind asks for. Fields that a kind does not need are left out.
type Ask struct {
	Kind     judge.ReservationKind // "" = a deduction
	Mode     string
	Store    api.Store // "" = the mode's own
	Product  int64
	Second   int64 // the other product of a cart that is reserved, of the same quantity; 0 = none
	Quantity int64 // 0 = one
	Buyer    string
	Key      string        // the idempotency key, of a confirm the payment's id; "" = none
	Wait     time.Duration // for a lock; negative = as long as the service does by itself
	// For is for how long units are reserved; of a deduction, how long its lock is held, as an experiment.
	For   time.Duration
	Depth int // of a deduction, as an experiment: how often its lock is taken

	Visit *Visit // the buyer of somebody's service whose purchase takes several steps

	Reservation string // the id of the one that is confirmed, cancelled or extended
	Order       string // the id of the one that is returned
	Reason      string // of an adjustment, whose Quantity is what is added or, below zero, taken
	Restock     bool   // its units go back to the stock
	Part        int64  // how many units are cancelled or returned, told by Key; 0 = all
	Line        int64  // the product of a cart whose units are cancelled; 0 = all, or the only one
}

// wanted is the body of a deduction and of a reserve.
type wanted struct {
	ProductID int64      `json:"product_id,omitzero"`
	Quantity  int64      `json:"quantity,omitzero"`
	Items     []api.Line `json:"items,omitempty"`
	WaitMS    *int64     `json:"wait_ms,omitempty"`
	Store     api.Store  `json:"store,omitempty"`
	Buyer     string     `json:"buyer,omitempty"`
	HoldMS    int64      `json:"hold_ms,omitzero"`
	Depth     int        `json:"depth,omitzero"`
}

// part is the body of a return, and of a cancel that leaves something.
type part struct {
	Restock   *bool `json:"restock,omitempty"`
	ProductID int64 `json:"product_id,omitzero"`
	Quantity  int64 `json:"quantity,omitzero"`
}

// Call is the request as the contract has it. A return and an adjustment need the admin token too: see [Shop.Call].
func (a Ask) Call() Call {
	c := Call{Method: http.MethodPost, ContentType: jsonType}
	hold := a.For.Milliseconds()
	if a.Part > 0 || a.Kind != judge.Cancel && a.Kind != judge.Return {
		c.Key = a.Key
	}
	switch a.Kind {
	case "", judge.Reserve:
		in := wanted{ProductID: a.Product, Quantity: a.Quantity, Store: a.Store, Buyer: a.Buyer, HoldMS: hold, Depth: a.Depth}
		if wait := a.Wait.Milliseconds(); a.Wait >= 0 {
			in.WaitMS = &wait
		}
		c.Path = "/deduct_stock/" + url.PathEscape(a.Mode)
		if a.Kind == judge.Reserve {
			c.Path, in.Store = "/reserve_stock/"+url.PathEscape(a.Mode), ""
		}
		if a.Second != 0 {
			in.Items = []api.Line{{ProductID: a.Product, Quantity: a.Quantity}, {ProductID: a.Second, Quantity: a.Quantity}}
			in.ProductID, in.Quantity = 0, 0
		}
		c.Body = encoded(in)
	case judge.Adjust:
		c.Path = productPath(a.Product, "/adjust")
		c.Body = encoded(api.Adjust{Delta: a.Quantity, Reason: a.Reason, Store: a.Store})
	case judge.Return:
		c.Path = productPath(a.Product, "/orders/"+url.PathEscape(a.Order)+"/return")
		c.Body = encoded(part{Restock: &a.Restock, Quantity: a.Part})
	default:
		c.Path = "/reservations/" + url.PathEscape(a.Reservation) + "/" + string(a.Kind)
		if c.ContentType = ""; a.Kind == judge.Extend {
			c.ContentType, c.Body = jsonType, encoded(map[string]int64{"hold_ms": hold})
		} else if a.Part > 0 || a.Line > 0 {
			c.ContentType, c.Body = jsonType, encoded(part{ProductID: a.Line, Quantity: a.Part})
		}
	}
	return c
}

// InQuery is the call with the fields of its body in its address, where a deduction may have them too.
func (c Call) InQuery() Call {
	var fields map[string]json.RawMessage
	if json.Unmarshal(c.Body, &fields) != nil {
		return c
	}
	query := url.Values{}
	for name, v := range fields {
		query.Set(name, scalar(v))
	}
	c.Path, c.Body, c.ContentType = c.Path+"?"+query.Encode(), nil, ""
	return c
}

// productPath is the address of something of a product.
func productPath(product int64, of string) string {
	return "/products/" + strconv.FormatInt(product, 10) + of
}

// Op is the request with its answer, for the judge, without its times and its client.
func (a Ask) Op(said Answer) judge.Op {
	op := judge.Op{Outcome: said.Outcome, Code: said.Code, ProductID: a.Product, Quantity: max(a.Quantity, 1),
		OrderID: said.OrderID, Key: a.Key, Buyer: a.Buyer, Remaining: said.Remaining, Replica: said.Replica,
		Replayed: said.Replayed}
	if a.Kind == judge.Adjust {
		op.Quantity = a.Quantity
	}
	return op
}

// ReservationOp is a request about a reservation with its answer, for the judge, without its times.
func (a Ask) ReservationOp(said Answer) judge.ReservationOp {
	op := judge.ReservationOp{Kind: a.Kind, Outcome: said.Outcome, ReservationID: a.Reservation, Buyer: a.Buyer,
		Quantity: max(a.Quantity, 1), OrderID: said.OrderID, Refund: said.Refund == api.RefundYes,
		Expired: said.State == StateExpired, Restock: said.Restock, Replayed: said.Replayed,
		Limit: said.Code == api.LimitReached}
	if op.Limit { // the judge asks of both refusals of a reserve whether they were justified
		op.Outcome = judge.Refused
	}
	switch a.Kind {
	case judge.Reserve:
		op.ReservationID, op.Key = said.ReservationID, a.Key
	case judge.Confirm:
		op.PaymentID = a.Key
	case judge.Extend:
		op.Key, op.Expires = a.Key, said.ExpiresAt.UnixMicro()
	case judge.Return, judge.Cancel, judge.Ship:
		op.OrderID = a.Order
	case judge.Adjust:
		op.Key, op.Quantity = a.Key, a.Quantity
	}
	if op.Part, op.Line = a.Part, a.Line > 0; a.Part > 0 {
		op.Key = a.Key
	}
	return op
}
