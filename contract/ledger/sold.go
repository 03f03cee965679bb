package ledger

import (
	"cmp"
	"time"
)

// Sold says how a product is sold in one store. Setting the stock decides, or leaves it to the first [Act] that
// excludes others: units that are held may come back to the count, and a count that was computed before would
// overwrite them.
type Sold string

// The ways in which a product is sold.
const (
	Undecided  Sold = ""          // from a counter, by acts that exclude no others
	Absolutely Sold = "absolute"  // from a counter, by modes that write the count that they have computed
	Relatively Sold = "holds"     // from a counter to which units come back: it is only added to
	PerBuyer   Sold = "limited"   // likewise, within a limit per buyer
	Computed   Sold = "counted"   // the stock is what reservations and orders have left: there is no counter
	InUnits    Sold = "units"     // the stock is the free rows of units: there is no counter
	InSegments Sold = "segmented" // from several counters
)

// Act is a way of writing a product's stock.
type Act string

// The acts of modes. Absolute ones write a count that was computed from an earlier read, relative ones add to the
// count that there is.
const (
	Overwrite       Act = "overwrite"        // absolute, whatever was written since
	Swap            Act = "swap"             // absolute, unless anybody has written since
	SwapInTime      Act = "swap in time"     // absolute, unless the row's time is another; it has whole seconds
	Take            Act = "take"             // relative
	TakeLogged      Act = "take, by a log"   // relative; a refused record comes again, and would find units that came back
	Sell            Act = "sell to a buyer"  // relative, within his limit
	Reserve         Act = "reserve"          // relative: holds units, which may come back
	ReserveComputed Act = "reserve computed" // inserts a reservation: the stock follows from it
	ReserveUnits    Act = "reserve units"    // writes the reservation on rows of units
	Return          Act = "return"           // relative: the units of an order come back
	Adjust          Act = "adjust"           // relative: units are added from outside, or free ones are taken
	AdjustUnmarked  Act = "adjust unmarked"  // likewise, where a swap sees that, and nothing is marked
)

// after has how a product is sold after an act, by how it was sold before; an act that is not there is refused.
var after = map[Act]map[Sold]Sold{
	Overwrite:  {Undecided: Absolutely, Absolutely: Absolutely},
	Swap:       {Undecided: Undecided, Absolutely: Absolutely, Relatively: Relatively},
	SwapInTime: {Undecided: Undecided, Absolutely: Absolutely},
	Take:       {Undecided: Undecided, Absolutely: Absolutely, Relatively: Relatively},
	TakeLogged: {Undecided: Absolutely, Absolutely: Absolutely},
	Sell:       {Undecided: Undecided, Absolutely: Absolutely, Relatively: Relatively, PerBuyer: PerBuyer},
	Reserve:    {Undecided: Relatively, Relatively: Relatively, PerBuyer: PerBuyer},
	// A limit leaves it open from what the units are taken, until one was, and so does an adjustment.
	ReserveComputed: {Undecided: Computed, Relatively: Computed, PerBuyer: Computed, Computed: Computed},
	ReserveUnits:    {InUnits: InUnits},
	Return: {Undecided: Relatively, Relatively: Relatively, PerBuyer: PerBuyer, Computed: Computed,
		InUnits: InUnits},
	Adjust: {Undecided: Relatively, Relatively: Relatively, PerBuyer: PerBuyer, Computed: Computed, InUnits: InUnits,
		InSegments: InSegments},
	AdjustUnmarked: {Undecided: Undecided, Relatively: Relatively, PerBuyer: PerBuyer, InSegments: InSegments},
}

// After says how a product is sold after an act; ok is false if the act must not be.
func (s Sold) After(a Act) (next Sold, ok bool) {
	next, ok = after[a][s]
	return next, ok
}

// Rules say how a stock is set.
type Rules struct {
	Segments int    // in how many segments Redis has the count; 0 = one counter
	PerBuyer int64  // the most units of a buyer; 0 = no limit
	Late     string // LateRefund or LateRehold; "" = refund
	Units    bool   // SQL has a row per unit
	// MaxHold is the longest hold, and the longest extension from its request on; 0 = [DefaultMaxHold]. Extends is how
	// often a reservation may be extended; 0 = once.
	MaxHold time.Duration
	Extends int
	// Book names the run that has begun in SQL, where the orders of tickets are written; "" = there is no SQL.
	Book string
}

// The limits of a hold, and of how often it may be extended.
const (
	MinHold        = 100 * time.Millisecond
	DefaultHold    = 15 * time.Minute // if nothing is said, or the product's MaxHold where that is less
	DefaultMaxHold = time.Hour
	LongestHold    = 7 * 24 * time.Hour
	MostExtends    = 100
)

// Longest returns the longest hold in microseconds, and how often a reservation may be extended.
func (r Rules) Longest() (micros int64, extends int) {
	return cmp.Or(r.MaxHold, DefaultMaxHold).Microseconds(), max(r.Extends, 1)
}

// HoldFor is for how many microseconds units are held: as asked, or by default if that is 0; ok is false if that is
// longer than the longest.
func HoldFor(asked time.Duration, longest int64) (micros int64, ok bool) {
	if asked == 0 {
		return min(DefaultHold.Microseconds(), longest), true
	}
	return asked.Microseconds(), asked.Microseconds() <= longest
}

// Sold says how the product is sold from then on, in a store that can do all of it.
func (r Rules) Sold() Sold {
	switch {
	case r.Units:
		return InUnits
	case r.PerBuyer > 0:
		return PerBuyer
	case r.Segments > 0:
		return InSegments
	}
	return Undecided
}
