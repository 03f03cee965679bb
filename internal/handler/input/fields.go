package input

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/stock"
)

// MaxWaitMS is the longest wait_ms. The other limits of a deduction are in package stock, see [stock.Request.Check].
const MaxWaitMS = 30_000

// Limits of the other fields.
const (
	maxStock    = 1_000_000_000
	maxSegments = 1000
	maxQuantity = 1_000_000_000 // of a part: lines of one product are added up
	maxLimit    = 1000
	MaxCursor   = 4096 // bytes
	maxReason   = 200  // bytes
	minHoldMS   = int64(ledger.MinHold / time.Millisecond)
	maxHoldMS   = int64(ledger.LongestHold / time.Millisecond)
)

// Values of fields that are not given.
const (
	defaultProduct = 101
	defaultWaitMS  = 3000
	DefaultLimit   = 1000
)

// This file is the table of all fields that clients may send: name, limits, and where the value goes.

// Deduction is the input of a deduction or of a hold, with its defaults set before it is read.
type Deduction struct {
	Product, Quantity int64
	Items             []stock.Item // always set in the end; with more than product and quantity only for a cart
	Store             stock.Store
	Buyer             string
	WaitMS, HoldMS    int64
	Hold              stock.Hold
	Key               []byte
	Cart              bool // the products were given as items
	Experiment        bool // one of the fields of hold was given
}

// wanted are the fields that a deduction and a hold share.
var wanted = Fields[Deduction]{
	{"product_id", between(1, maxProduct, func(d *Deduction, n int64) { d.Product = n })},
	{"quantity", anyWhole(func(d *Deduction, n int64) { d.Quantity = n })},
	{"items", func(d *Deduction, name string, v value) (err error) {
		d.Items, err = v.cart(name)
		return err
	}},
	{"buyer", func(d *Deduction, name string, v value) (err error) {
		if d.Buyer, err = v.word(name); err == nil && (d.Buyer == "" || len(d.Buyer) > stock.MaxBuyer) {
			err = Invalid(name, fmt.Sprintf("must be 1 to %d bytes", stock.MaxBuyer))
		}
		return err
	}},
	{"wait_ms", between(0, MaxWaitMS, func(d *Deduction, n int64) { d.WaitMS = n })},
}

// Wait is the query of GET /tickets/{id}.
type Wait struct{ WaitMS int64 }

// WaitFields are its fields; nothing is waited for unless it is asked.
var WaitFields = Fields[Wait]{{"wait_ms", between(0, MaxWaitMS, func(w *Wait, n int64) { w.WaitMS = n })}}

// DeductionFields are the fields of a deduction. Package shop checks what depends on the mode, such as the store, a
// lease time that is too short, and what the mode cannot do.
var DeductionFields = slices.Concat(wanted[:3], Fields[Deduction]{
	{"store", func(d *Deduction, name string, v value) error {
		text, err := v.word(name)
		if d.Store = stock.Store(text); err == nil && !slices.Contains(api.Stores, api.Store(text)) {
			err = Invalid(name, "must be redis, sql or etcd")
		}
		return err
	}},
}, wanted[3:], Fields[Deduction]{
	{string(stock.LeaseField), between(0, stock.MaxLease.Milliseconds(), func(d *Deduction, n int64) {
		d.Hold.Lease, d.Experiment = time.Duration(n)*time.Millisecond, true
	})},
	{string(stock.DepthField), between(0, stock.MaxDepth, func(d *Deduction, n int64) {
		d.Hold.Depth, d.Experiment = int(n), true
	})},
	{string(stock.WorkField), between(0, stock.MaxWork.Milliseconds(), func(d *Deduction, n int64) {
		d.Hold.Work, d.Experiment = time.Duration(n)*time.Millisecond, true
	})},
})

// ReservationFields are the fields of a request to hold units.
var ReservationFields = slices.Concat(wanted[:4], Fields[Deduction]{
	{"hold_ms", between(minHoldMS, maxHoldMS, func(d *Deduction, n int64) { d.HoldMS = n })},
}, wanted[4:])

// ExtensionFields are the fields of an extension.
var ExtensionFields = Fields[int64]{
	{"hold_ms", between(minHoldMS, maxHoldMS, func(ms *int64, n int64) { *ms = n })},
}

// Return is the input of a return.
type Return struct {
	Restock bool
	Part    ledger.Part
}

// ReturnFields are the fields of a return. There is no default: whether units can be sold again is for the sender to
// say.
var ReturnFields = Fields[Return]{
	{"restock", func(r *Return, name string, v value) (err error) {
		r.Restock, err = v.yes(name)
		return err
	}},
	{"quantity", between(1, maxQuantity, func(r *Return, n int64) { r.Part.Quantity = n })},
}

// CancelFields are the fields of a cancel that leaves something.
var CancelFields = Fields[ledger.Part]{
	{"product_id", between(1, maxProduct, func(p *ledger.Part, n int64) { p.ProductID = n })},
	{"quantity", between(1, maxQuantity, func(p *ledger.Part, n int64) { p.Quantity = n })},
}

// HeldRows is the input of GET /products/{id}/reservations.
type HeldRows struct {
	Store  stock.Store
	Cursor string
}

// HeldRowsFields are the fields of HeldRows.
var HeldRowsFields = Fields[HeldRows]{
	{"store", func(r *HeldRows, name string, v value) error {
		text, err := v.word(name)
		if r.Store = stock.Store(text); err == nil && text != string(stock.SQL) && text != string(stock.Redis) {
			err = Invalid(name, "must be sql or redis")
		}
		return err
	}},
	{"cursor", filled(func(r *HeldRows, text string) { r.Cursor = text })},
}

// StockLevel is the input of PUT .../stock. There is no default for the stock: a body that was lost on the way must not
// sell the shop empty.
type StockLevel struct {
	Units int64
	Rules ledger.Rules
}

// StockLevelFields are the fields of StockLevel.
var StockLevelFields = Fields[StockLevel]{
	{"per_buyer", between(1, maxStock, func(s *StockLevel, n int64) { s.Rules.PerBuyer = n })},
	{"late", func(s *StockLevel, name string, v value) (err error) {
		if s.Rules.Late, err = v.word(name); err == nil && s.Rules.Late != ledger.LateRefund &&
			s.Rules.Late != ledger.LateRehold {
			err = Invalid(name, "must be refund or rehold")
		}
		return err
	}},
	{"units", func(s *StockLevel, name string, v value) (err error) {
		s.Rules.Units, err = v.yes(name)
		return err
	}},
	{"max_hold_ms", between(minHoldMS, maxHoldMS, func(s *StockLevel, n int64) {
		s.Rules.MaxHold = time.Duration(n) * time.Millisecond
	})},
	{"extends", between(1, ledger.MostExtends, func(s *StockLevel, n int64) { s.Rules.Extends = int(n) })},
	{"stock", between(0, maxStock, func(s *StockLevel, n int64) { s.Units = n })},
	{"segments", between(0, maxSegments, func(s *StockLevel, n int64) { s.Rules.Segments = int(n) })},
}

// AdjustFields are the fields of an adjustment. There is no default for delta.
var AdjustFields = Fields[api.Adjust]{
	{"delta", func(a *api.Adjust, name string, v value) (err error) {
		if a.Delta, err = v.integer(name, -maxStock, maxStock); err == nil && a.Delta == 0 {
			err = Invalid(name, "must not be 0")
		}
		return err
	}},
	{"reason", func(a *api.Adjust, name string, v value) (err error) {
		if a.Reason, err = v.word(name); err == nil && len(a.Reason) > maxReason {
			err = Invalid(name, fmt.Sprintf("is longer than %d bytes", maxReason))
		}
		return err
	}},
	{"store", func(a *api.Adjust, name string, v value) error {
		text, err := v.word(name)
		if a.Store = api.Store(text); err == nil && !slices.Contains(api.Stores, a.Store) {
			err = Invalid(name, "must be redis, sql or etcd")
		}
		return err
	}},
}

// AfterFields are the fields of GET /products/{id}/tickets: the next of the page before, "" = the first page.
var AfterFields = Fields[string]{{"after", filled(func(after *string, text string) { *after = text })}}

// RepairFields are the fields of a reconciliation; it only looks unless it is told to repair.
var RepairFields = Fields[bool]{{"repair", func(repair *bool, name string, v value) (err error) {
	*repair, err = v.yes(name)
	return err
}}}

// Rows is the input of GET /products/{id}/orders and /ledger: it selects a page.
type Rows struct {
	Limit  int64
	Cursor string
}

// RowsFields are the fields of rows. The content of a cursor is checked when it is decoded.
var RowsFields = Fields[Rows]{
	{"limit", between(1, maxLimit, func(p *Rows, n int64) { p.Limit = n })},
	{"cursor", filled(func(p *Rows, text string) { p.Cursor = text })},
}

// Look is the input of GET /products/{id}: by which mode to read, "" = by none, without a lock.
type Look struct {
	Mode   string
	WaitMS int64
}

// LookFields are the fields of a look. Package shop checks whether there is such a mode, and whether it has a lock for
// readers.
var LookFields = Fields[Look]{
	{"mode", filled(func(l *Look, text string) { l.Mode = text })},
	{"wait_ms", between(0, MaxWaitMS, func(l *Look, n int64) { l.WaitMS = n })},
}

// InquiryFields are the fields of GET /products/{id}/audit: the language of its sentences, "" = English.
var InquiryFields = Fields[string]{{"lang", func(lang *string, name string, v value) (err error) {
	if *lang, err = v.word(name); err == nil && *lang != "en" && *lang != "zh" {
		err = Invalid(name, "must be en or zh")
	}
	return err
}}}

// excludable are the backends that /readyz checks.
var excludable = []string{"redis", "sql"}

// ReadinessFields are the fields of /readyz: the backends to ignore, comma-separated.
var ReadinessFields = Fields[[]string]{{"exclude", func(exclude *[]string, name string, v value) error {
	word, err := v.word(name)
	if err != nil {
		return err
	}
	*exclude = strings.Split(word, ",")
	if slices.ContainsFunc(*exclude, func(name string) bool { return !slices.Contains(excludable, name) }) {
		err = Invalid(name, "must be "+strings.Join(excludable, " or ")+", or both with a comma")
	}
	return err
}}}

// NoFields are those of a path that has none.
var NoFields Fields[struct{}]
