package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lastitem/internal/api"
)

// Most of this file is about the data, not about the shop: a test that cannot fail is no test. Only X, which says that
// nobody gets anywhere, makes a report BROKEN.

// minStuck is how many requests in a row must have found the product busy, with nobody finishing, to call it stuck.
const minStuck = 3

// busy tells whether the request was turned away by a rival: it waited its time and could not finish.
func busy(op Op) bool {
	return op.Outcome == Declined && (op.Code == api.LockBusy || op.Code == api.Contended || op.Code == api.InFlight)
}

// stuck tells whether, from some moment on, nobody could finish within the wait although stock remained, and how many
// were turned away since. Only requests called after the last sale or refusal count: one that was already
// waiting then may have been overtaken. An answer that is neither busy nor unknown shows another trouble than a lock.
func stuck(ops []Op, final int64) (turned int, is bool) {
	last := int64(always)
	for _, op := range ops {
		if answered(op) {
			last = max(last, op.Return)
		}
	}
	for _, op := range ops {
		switch {
		case op.Call <= last: // it may have waited behind the one who finished
		case busy(op):
			if op.Quantity <= final {
				turned++
			}
		case op.Outcome == Declined: // a backend is down, say: not the lock's doing
			return 0, false
		}
	}
	return turned, turned >= minStuck
}

// hearStuck looks for X. In an interrupted run the one who would have finished may have been cut off, so there it does not.
func (j *judge) hearStuck() {
	if n, is := stuck(j.ops, j.r.Final); is && !j.in.Partial {
		j.find('X')
		j.violate("X", sayStuck, n, j.r.Final)
	}
}

// weigh asks whether the data could have shown a failure at all.
func (j *judge) weigh() {
	if j.rows == nil {
		return // the ledger could not be opened
	}
	j.weighSales()
	j.weighSpread()
	if j.in.History == nil || len(j.ops) == 0 {
		return
	}
	if j.in.Sequential {
		return
	}
	switch apart := j.in.Replicas > 1 && replicas(j.ops) > 1; {
	case !overlapping(j.ops, false):
		j.idle(sayNoOverlap)
	case apart && !overlapping(j.ops, true):
		j.idle(sayNoOverlapApart)
	}
}

// weighSales asks whether enough was sold. An off-by-one at the last unit shows only when somebody asks for one more, so
// a plan that meant to sell out must have been told that it did; a smaller stock at the end is not enough.
func (j *judge) weighSales() {
	r := &j.r
	switch {
	case len(j.rows) == 0 && r.Purged.Orders == 0 && r.Answers[OK] == 0:
		j.idle(sayNothingSold, j.turnedAway())
	case !j.in.WantSoldOut || j.in.History != nil && r.Answers[Refused] > 0:
	case r.Final > 0:
		j.idle(sayStockLeft, r.Final, r.Initial, j.turnedAway())
	case j.in.History != nil:
		j.idle(sayNobodyRefused, j.turnedAway())
	}
}

// weighSpread asks whether more than one of several replicas took part: a mutex per process is exact as long as one
// process does it all. An answer from a replica that could not serve the mode is no part. Orders and answers may name a
// replica differently (its own name, its address at the balancer), so the two are counted apart and the larger count holds.
func (j *judge) weighSpread() {
	if j.in.Replicas <= 1 {
		return
	}
	served := map[string]bool{}
	for _, op := range j.ops {
		if op.Replica != "" && (answered(op) || busy(op)) {
			served[op.Replica] = true
		}
	}
	switch n := max(len(served), len(j.r.Replicas)); {
	case n == 0 && (len(j.rows) > 0 || len(j.ops) > 0):
		j.lack(sayNoReplicas, j.in.Replicas)
	case n == 1: // where the answers name nobody, the orders do
		for name := range j.r.Replicas {
			served[name] = true
		}
		j.idle(sayOneReplica, slices.Sorted(maps.Keys(served))[0], j.in.Replicas)
	}
}

// replicas counts the names in the answers.
func replicas(ops []Op) int {
	names := map[string]bool{}
	for _, op := range ops {
		if op.Replica != "" {
			names[op.Replica] = true
		}
	}
	return len(names)
}

// turnedAway says, for the end of a sentence, why requests got nothing: "; refused 3, lock_busy 40".
func (j *judge) turnedAway() string {
	count := map[string]int{}
	for _, op := range j.ops {
		switch {
		case op.Outcome == OK:
		case op.Outcome == Declined && op.Code != "":
			count[string(op.Code)]++
		default:
			count[string(op.Outcome)]++
		}
	}
	if len(count) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s %d", n, count[n])
	}
	return "; " + strings.Join(names, ", ")
}
