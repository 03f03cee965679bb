package judge

import (
	"cmp"
	"slices"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// How much evidence is kept: units, and orders of each. A shop without any lock may sell one unit thousands of times,
// and the report has to stay readable, and small enough to be kept for every run.
const (
	maxUnits  = 20
	maxOrders = 16
)

// span is a run of units: those of one order, or, with n, those that n orders carry.
type span struct {
	first, last int64
	n           int
}

// inspectUnits lays out the units that the orders say they carry. In an exact run no two orders share one. This is
// where evidence comes from, and it sees what the sums cannot: a lost update and a leak of the same size cancel out
// there, and still leave a unit that two orders carry.
//
// Orders that report no remaining (nobody knows it in a segmented product) carry unknown units and are left out.
func (j *judge) inspectUnits() {
	s := j.r.Initial
	spans := make([]span, 0, len(j.rows))
	for _, o := range j.rows {
		if sp, told := j.units.see(o, &j.r); told {
			spans = append(spans, sp)
		}
	}
	j.units.chained = len(spans) == len(j.rows)
	layers := overlay(spans, s)
	j.units.share(layers)
	j.collect(layers)
	j.units.blame(&j.findings)
}

// unitCounts are units that belong to several orders, and orders with units that never existed, or that left less
// than there is now: the count rose, which a deduction never causes. The sums do not show that if an order is missing
// too.
type unitCounts struct {
	shared                 int64
	negative, above, below int
	chained                bool // every order reports a remaining count
	released               bool // units came back: then the same count may be left twice
}

// see returns the units of an order, if it tells them.
func (n *unitCounts) see(o api.Order, r *Report) (sp span, told bool) {
	if o.Remaining == nil || o.Quantity <= 0 || n.released {
		return span{}, false
	}
	sp = unitsOf(o, r.Initial)
	if sp.last > r.Initial {
		n.negative++
	}
	if sp.first < 1 {
		n.above++
	}
	if *o.Remaining < r.Final && !r.Unseen.After {
		n.below++
	}
	return sp, true
}

// share counts the units of several orders.
func (n *unitCounts) share(layers []span) {
	for _, l := range layers {
		if l.n > 1 {
			n.shared = add(n.shared, l.last-l.first+1)
		}
	}
}

// ordered says that the order of the sales in time can be read off what they left: every row tells it, and no two
// share a unit.
func (n *unitCounts) ordered() bool { return !n.released && n.chained && n.shared == 0 }

func (n *unitCounts) blame(f *findings) {
	// After a failover that rolled the stock back (A), units are sold again, so A implies all but the second.
	if n.shared > 0 {
		f.violate("OA", text.Of("%d [unit is|units are] in more than one order"), n.shared)
	}
	f.each(n.negative, "O", text.Of("%d [order has|orders have] a negative remaining count"))
	f.each(n.above, "OA", text.Of("%d [order says that it|orders say that they] left more than [it|they] can have found"))
	f.each(n.below, "OA", text.Of("%d [order|orders] left less than the %d in stock now, and a deduction never raises "+
		"the stock"), f.r.Final)
}

// unitsOf returns the units that an order carries out of s: r left and q taken are s-r-q+1 to s-r.
func unitsOf(o api.Order, s int64) span {
	last := s - *o.Remaining
	return span{first: last - o.Quantity + 1, last: last, n: 1}
}

// overlay returns the runs of units that deserve a look: carried by several orders, or beyond the s units there were.
// It sweeps over the ends of the spans, so a run ends wherever the set of its orders changes:
//
//	order a   1 2 3
//	order b       3 4
//	order c       3
//	runs          3 (n = 3)
func overlay(spans []span, s int64) []span {
	type end struct {
		at    int64 // the first unit to which the change applies
		delta int
	}
	ends := make([]end, 0, 2*len(spans)+1)
	for _, sp := range spans {
		ends = append(ends, end{sp.first, 1}, end{sp.last + 1, -1})
	}
	ends = append(ends, end{s + 1, 0}) // no run crosses the end of the stock
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	var found []span
	n := 0
	for i, e := range ends {
		n += e.delta
		if i+1 == len(ends) || ends[i+1].at == e.at {
			continue // n is right only after the last change at this unit
		}
		if n > 1 || n == 1 && e.at > s {
			found = append(found, span{e.at, ends[i+1].at - 1, n})
		}
	}
	return found
}

// collect keeps the first unit of the worst runs, with their orders by time. One unit per run is enough: the others of
// the run tell of the same orders.
func (j *judge) collect(layers []span) {
	slices.SortStableFunc(layers, func(a, b span) int { return cmp.Compare(b.n, a.n) })
	for _, l := range layers[:min(len(layers), maxUnits)] {
		e := Evidence{Unit: l.first, Of: j.r.Initial, Times: l.n}
		for _, o := range j.rows {
			if o.Remaining == nil || o.Quantity <= 0 {
				continue
			}
			if sp := unitsOf(o, j.r.Initial); sp.first <= l.first && l.first <= sp.last {
				e.Orders = append(e.Orders, o)
			}
		}
		slices.SortStableFunc(e.Orders, func(a, b api.Order) int { return a.CreatedAt.Compare(b.CreatedAt) })
		e.Orders = slices.Clip(e.Orders[:min(len(e.Orders), maxOrders)])
		j.r.Evidence = append(j.r.Evidence, e)
	}
}
