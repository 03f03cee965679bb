package judge

import (
	"slices"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Judge says what the history and the ledger of one run prove, whatever the mode claims.
//
// From the ledger alone:
//
//   - conservation: initial = stock now + units ordered; too much is O, too little is L, where a stock below zero
//     counts as zero;
//   - initial is the sum of the setting and the adjustments that the ledger lists;
//   - no stock or segment is below zero;
//   - order ids present and unique, quantities positive; two orders for one idempotency key while it is kept are D;
//   - stored first answers and orders agree, both ways, while answers are kept;
//   - no unit is carried by two orders, none lies outside the stock that there was, and no order left less than there
//     is now.
//
// With a history:
//
//   - every ok has its row, of the same product, quantity and key, else it is A; no order is acknowledged to two
//     requests;
//   - a replay repeats the first answer for its key, and is no second sale; nobody is refused whose key has a sale as
//     its stored answer;
//   - every row belongs to a request that was not answered "nothing happened"; each request of unknown outcome accounts
//     for one row with its key, or with its quantity and written after its call;
//   - no more was acknowledged than there was, and every sold_out was justified: together, and with unknown outcomes
//     resolved, this is linearizability of a counter that only falls; where the stock was adjusted, units that were
//     added count as free from the answer on, and units that were taken until the call;
//   - every adjustment that was answered is there, else A;
//   - an order that was answered as cancelled is gone, and one that was answered as shipped is there, else A;
//   - no buyer was sold more than the limit (B), and every limit_reached was justified as a sold_out is;
//   - what was left falls in the order of time;
//   - X: from some moment on everybody was turned away as busy and nobody finished, although there was stock.
//
// With tickets: see [Tickets].
//
// Then it asks whether the data could have shown a failure: something was sold, requests overlapped, more than one of
// several replicas took part, the stock ran out where the plan meant it to, and nobody stopped the run; else the
// verdict is VACUOUS.
//
// BROKEN outranks missing data, because every rule looks only at data that is there; orders of another product or mode
// in the ledger, and a stock that somebody else set during the run, are the exceptions, for then nobody knows whose
// fault it was. It takes O(n log n) in orders and answers.
func Judge(in Input) Report {
	j := judge{in: in, findings: findings{r: Report{Mode: in.Mode, Store: in.Store, Lang: in.Lang}}}
	if j.open() {
		j.openTickets()
		j.count()
		j.conserve()
		j.hearCancels()
		j.look()
		j.inspectRows()
		j.inspectKeys()
		j.inspectUnits()
		j.matchTickets()
		j.hear()
		j.hearTold()
	}
	return j.close()
}

// OfLedger judges every store of a product that has a stock or could not be read, from the ledger alone. It skips
// the checks that need the clients' answers, and Report.Unchecked lists them. A ledger that is nil, or knows no store,
// gives one INCONCLUSIVE report. lang is the language of the sentences.
func OfLedger(l *api.Ledger, lang string) []Report {
	if l == nil {
		return []Report{Judge(Input{Lang: lang})}
	}
	var all []Report
	for _, s := range api.Stores {
		_, before := l.Initial[s]
		_, now := l.Stock[s]
		_, down := l.Unavailable[s]
		if before || now || down {
			all = append(all, Judge(Input{Store: s, Ledger: l, Lang: lang}))
		}
	}
	if all == nil {
		return []Report{Judge(Input{Ledger: l, Lang: lang})}
	}
	return all
}

// Overall is the verdict from the reports on the stores of a product, or on the products of a run: the worst, except
// that one from which nothing was sold says nothing about the others.
func Overall(reports []Report) Verdict {
	for _, v := range []Verdict{Broken, Inconclusive, Exact} {
		for _, r := range reports {
			if r.Verdict == v {
				return v
			}
		}
	}
	return Vacuous
}

// judge is one judgement in progress.
type judge struct {
	in Input
	findings
	records

	orderOf map[string]string // idempotency key to the first order id seen for it
	kept    retention
	again   map[int]bool // rows that use a key again after its retention
	late    bool         // the history may do so
	stored  keyRows
	units   unitCounts

	course   course // of the initial stock
	returned bool   // units may have come back
}

// hearCancels counts orders that were cancelled and are gone as sold, and their units as added by the cancels.
func (j *judge) hearCancels() {
	gone, back := j.cancels(j.ops, j.in.Cancels, j.byID)
	for _, op := range gone {
		j.byID[op.OrderID] = len(j.rows)
		j.rows = append(j.rows, api.Order{OrderID: op.OrderID, ProductID: j.r.ProductID, Quantity: op.Quantity,
			Mode: j.in.Mode, Store: j.in.Store})
	}
	j.course.shifts = append(j.course.shifts, back...)
	j.units.released = j.units.released || len(gone) > 0
}

// records are what the two sides have: the order rows of the judged store, and the requests for its product.
type records struct {
	rows   []api.Order
	byID   map[string]int // order id to its first row
	ops    []Op
	given  []change // units that were won, and given back since the schedule wanted that
	claims []claim  // by row: the answer that accounts for it
}

// open takes in the ledger and reports whether there is anything to judge.
func (j *judge) open() bool {
	l := j.in.Ledger
	if l == nil {
		return j.lack(text.Of("the ledger could not be read"))
	}
	j.r.ProductID, j.kept = l.ProductID, retentionOf(l)
	if j.in.Store == "" {
		return j.lack(text.Of("no store was named, so there is no stock to judge"))
	}
	if why, down := l.Unavailable[j.in.Store]; down {
		if why == string(api.StaleRead) {
			return j.lack(text.Of("%s answered from a server that may be a replica and lack the last sales: let SHOP_SQL lead "+
				"to the primary, or set wsrep_sync_wait=1 on every node of Galera, and audit again"), j.in.Store)
		}
		return j.lack(text.Of("store %s could not be read: %s"), j.in.Store, why)
	}
	j.lackUnseen(j.in.Unseen)
	initial, known := l.Initial[j.in.Store]
	if (!known || initial < 0) && !j.in.Unseen.Before {
		return j.lack(text.Of("the ledger does not say how much stock %s held at the start"), j.in.Store)
	}
	now, known := l.Stock[j.in.Store]
	if !known && !j.in.Unseen.After {
		return j.lack(text.Of("the ledger does not say how much stock %s holds now"), j.in.Store)
	}
	j.r.Initial, j.r.Final = initial, now
	j.course = j.adjustments(initial, l.Adjustments[j.in.Store], j.in.Adjusts)
	j.returned = l.Released[j.in.Store] || j.in.Unseen.Before
	if j.units.released = j.returned || len(j.course.shifts) > 0 || !j.course.whole; l.Released[j.in.Store] {
		j.skip(text.Of("units may have come back, from reservations or returned orders, so what was left of the stock says " +
			"nothing about the order of the sales, nor about refusals"))
	}
	if j.in.Stock != nil && j.course.whole && *j.in.Stock != j.course.set {
		j.tainted = true
		j.lack(sayStockSet, j.course.set, *j.in.Stock)
	}
	j.openRows()
	j.openHistory()
	return true
}

// openRows keeps the order rows of the judged store, and notices rows that have no business there. A run starts by
// setting the stock, which clears the orders; a row of another mode is a straggler from the run before, and may have
// taken units from this one.
func (j *judge) openRows() {
	l := j.in.Ledger
	j.rows = make([]api.Order, 0, len(l.Orders))
	strangers, others := 0, 0
	for _, o := range l.Orders {
		switch {
		case o.ProductID != l.ProductID:
			strangers++
		case o.Store == j.in.Store:
			j.rows = append(j.rows, requested(o))
			if j.in.Mode != "" && o.Mode != j.in.Mode {
				others++
			}
		}
	}
	if strangers > 0 {
		j.tainted = true
		j.lack(sayOtherProduct, strangers, l.ProductID)
	}
	if others > 0 {
		j.tainted = true
		j.lack(text.Of("%d order [row was|rows were] written by another mode than %s, so the run was not its own"), others,
			j.in.Mode)
	}
	// The first row of an id stands for it; inspectRows reports a second one.
	j.byID = make(map[string]int, len(j.rows))
	j.r.Replicas = map[string]int{}
	for i, o := range j.rows {
		if _, seen := j.byID[o.OrderID]; !seen {
			j.byID[o.OrderID] = i
		}
		if o.Replica != "" {
			j.r.Replicas[o.Replica]++
		}
	}
}

// openHistory keeps the requests for the judged product. A missing history is fine if a running shop is audited,
// but lost data if a run is judged. An empty one is always lost data.
func (j *judge) openHistory() {
	h := j.in.History
	if h == nil {
		if j.in.Replicas > 0 || j.in.WantSoldOut {
			j.lack(text.Of("a run was to be judged, but its history is not there"))
		}
		j.skip(text.Of("without a history: whether acknowledged orders are all there, refusals were justified, and orders " +
			"were asked for"))
		return
	}
	j.ops = h
	if strange := func(op Op) bool { return !j.ours(op) }; slices.ContainsFunc(h, strange) {
		j.ops = slices.DeleteFunc(slices.Clone(h), strange)
		j.lack(text.Of("%d [request of the history is|requests of the history are] for another product"), len(h)-len(j.ops))
	}
	if len(j.ops) == 0 {
		j.lack(sayEmptyHistory)
	}
	j.late = j.kept.over(j.ops)
}

// ours tells whether a request was for the judged product. One that was answered with an order of this product after
// all counts too: its row will not match.
func (j *judge) ours(op Op) bool {
	if op.ProductID == 0 || op.ProductID == j.r.ProductID {
		return true
	}
	_, here := j.byID[op.OrderID]
	return here && op.Outcome == OK
}

// close asks whether the data could have shown a failure, and draws the verdict.
func (j *judge) close() Report {
	j.weigh()
	return j.draw()
}
