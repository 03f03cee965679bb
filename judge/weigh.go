package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lastitem/say/text"
)

// This file judges the data, not the shop: a test that cannot fail is no test.

// weigh asks whether the data could have shown a failure at all.
func (j *judge) weigh() {
	if j.rows == nil || j.in.Directed {
		return // the ledger could not be opened, or enough was asked on purpose
	}
	if j.in.Stopped {
		j.idle(sayStopped)
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
		j.idle(text.Of("no two requests ran at the same time on different replicas"))
	}
}

// weighSales asks whether enough was sold. An off-by-one at the last unit shows only when somebody asks for one more,
// so a plan that meant to sell out must have been told that it did; a smaller stock at the end is not enough.
func (j *judge) weighSales() {
	r := &j.r
	switch {
	case r.Orders == 0 && r.Answers[OK] == 0:
		j.idle(sayNothingSold, turnedAway(j.ops, j.in.Lang))
	case !j.in.WantSoldOut || j.in.History != nil && r.Answers[Refused] > 0:
	case r.Final > 0:
		j.idle(text.Of("the plan asked for more than the stock, but the stock did not run out: %d of %d units left%s"),
			r.Final, r.Initial, turnedAway(j.ops, j.in.Lang))
	case j.in.History != nil:
		j.idle(sayNobodyRefused, turnedAway(j.ops, j.in.Lang))
	}
}

// weighSpread asks whether more than one of several replicas took part: a mutex per process is exact as long as one
// process does it all. An answer from a replica that could not serve the mode is no part. Orders and answers may name a
// replica differently (its own name, its address at the balancer), so the two are counted apart and the larger count
// holds.
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
		j.lack(text.Of("%d replicas stood behind the address, but neither answers nor orders name theirs"), j.in.Replicas)
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

// turnedAway lists, for the end of a sentence, what requests got instead of units: "; refused 3, lock_busy 40".
func turnedAway(ops []Op, lang string) string {
	count := map[string]int{}
	for _, op := range ops {
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
	return text.Of("; ").In(lang) + strings.Join(names, text.Of(", ").In(lang))
}
