package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// clockSlack is how much two clocks, of replicas or of a client, may differ, or jump, during a run.
const clockSlack = time.Second

// resolve finds the requests of unknown outcome that happened, from the rows: by key, otherwise by quantity and time.
// Among requests of the same quantity it takes those called first, which justifies every refusal that any other choice
// would justify.
//
// A row may have a key that no request carried: for example, a mode that executes requests from a log may store the
// order's id if the client sent no key. Such a row counts as one without a key. The rows show whether a mode stores the
// clients' keys at all: if no row has one, requests with a key are matched by quantity too. Each unknown request
// accounts for one row of its quantity that was written after its call; any further row is an order that nobody
// requested.
//
// If no row shows a key, a request whose key has an order already comes last. A row that is left for it can only be a
// second order for that key: a double charge.
func (j *judge) resolve() {
	byKey, loose, keyed := j.unclaimed()
	latest := j.latestCalls()
	for _, rows := range loose {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(latest(j.rows[a]), latest(j.rows[b])) })
	}
	match := func(op Op) (found bool) {
		// A row with this key and another quantity stays unclaimed, and is reported as an order that nobody requested.
		row, byItsKey := take(byKey, op.Key, func(i int) bool { return j.rows[i].Quantity == op.Quantity })
		found = byItsKey
		if !found && (op.Key == "" || !keyed) {
			row, found = take(loose, op.Quantity, func(i int) bool { return op.Call <= latest(j.rows[i]) })
		}
		if found {
			j.claims[row] = claim{made: true, op: -1, call: op.Call, sure: byItsKey}
		}
		return found
	}
	sold, nameless := soldKeys(j.ops), 0
	var again []Op
	for _, op := range unresolved(j.ops) {
		if op.Outcome == OK {
			nameless++
		}
		if !keyed && sold[op.Key] {
			again = append(again, op)
		} else if match(op) && op.Key != "" {
			sold[op.Key] = true
		}
	}
	for _, op := range again {
		if match(op) && !j.late && !j.in.Partial {
			j.r.Doubles++
			j.find('D')
		}
	}
	// An ok without an order id is not a lost order: its row, if there is one, was matched like that of an unknown
	// request.
	j.each(nameless, "", text.Of("%d ok [answer has|answers have] no order id"))
	j.blameRows()
}

// soldKeys returns the keys for which an order was acknowledged.
func soldKeys(ops []Op) map[string]bool {
	sold := map[string]bool{}
	for _, op := range ops {
		if op.Outcome == OK && op.OrderID != "" && op.Key != "" {
			sold[op.Key] = true
		}
	}
	return sold
}

// unclaimed returns the rows that no answer names: those with a request's key by key, the others by quantity.
// keyed says whether any row stores a request's key.
func (x records) unclaimed() (byKey map[string][]int, loose map[int64][]int, keyed bool) {
	sent := map[string]bool{}
	for _, op := range x.ops {
		sent[op.Key] = true
	}
	byKey, loose = map[string][]int{}, map[int64][]int{}
	for i, c := range x.claims {
		o := x.rows[i]
		ours := o.Key != "" && sent[o.Key]
		keyed = keyed || ours
		switch {
		case c.made || x.byID[o.OrderID] != i && o.OrderID != "":
		case ours:
			byKey[o.Key] = append(byKey[o.Key], i)
		default:
			loose[o.Quantity] = append(loose[o.Quantity], i)
		}
	}
	return byKey, loose, keyed
}

// latestCalls returns a function that bounds, for a row, when its request was called at the latest. The orders that a
// replica acknowledged relate the history's clock to the replica's: each was written before its answer returned. A row
// without a time, or of a replica that acknowledged no order, may belong to a request of any time.
func (x records) latestCalls() func(api.Order) int64 {
	type clock struct {
		base time.Time // the time of the first row, so that nanoseconds do not overflow
		lag  int64     // the largest created - return of its rows: the replica's clock is at least so far ahead
	}
	clocks := map[string]clock{}
	for i, c := range x.claims {
		o := x.rows[i]
		if !c.made || c.op < 0 || o.CreatedAt.IsZero() {
			continue
		}
		at, seen := clocks[o.Replica]
		if !seen {
			at = clock{o.CreatedAt, math.MinInt64}
		}
		at.lag = max(at.lag, int64(o.CreatedAt.Sub(at.base))-x.ops[c.op].Return)
		clocks[o.Replica] = at
	}
	return func(o api.Order) int64 {
		at, known := clocks[o.Replica]
		if !known || o.CreatedAt.IsZero() {
			return math.MaxInt64
		}
		return int64(o.CreatedAt.Sub(at.base)) - at.lag + int64(clockSlack)
	}
}

// unresolved returns the requests without a known row, in the order in which they may take one: first the ok answers
// without an order id, which must have a row, then the unknown ones; both by call time.
func unresolved(ops []Op) []Op {
	var open []Op
	for _, op := range ops {
		if op.Outcome == OK && op.OrderID == "" || !answered(op) && op.Outcome != Declined {
			open = append(open, op)
		}
	}
	slices.SortStableFunc(open, func(a, b Op) int {
		if (a.Outcome == OK) != (b.Outcome == OK) {
			if a.Outcome == OK {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Call, b.Call)
	})
	return open
}

// take removes and returns the first index under k that fits.
func take[K comparable](m map[K][]int, k K, fits func(int) bool) (int, bool) {
	for n, i := range m[k] {
		if !fits(i) {
			continue
		}
		if n == 0 {
			m[k] = m[k][1:] // the usual case, and the lists may be long
		} else {
			m[k] = slices.Delete(m[k], n, n+1)
		}
		return i, true
	}
	return 0, false
}
