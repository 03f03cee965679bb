package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// minStuck is how many consecutive requests must be refused as busy, while none finishes, to call the product stuck.
const minStuck = 3

// busy says whether a rival kept the request out: it waited for its full time and could not finish.
func busy(op Op) bool {
	return op.Outcome == Declined && (op.Code == api.LockBusy || op.Code == api.Contended || op.Code == api.InFlight)
}

// stuck says whether, from some moment on, no request finished within its wait although stock remained, and how many
// were refused since. Only requests called after the last sale or refusal, and after since, count: earlier ones may
// have been overtaken. An answer that is neither busy nor unknown points to another problem than a lock, except for
// rate_limited, which says nothing.
func stuck(ops []Op, final, since int64) (turned int, is bool) {
	last := since
	for _, op := range ops {
		if answered(op) {
			last = max(last, op.Return)
		}
	}
	for _, op := range ops {
		switch {
		case op.Call <= last: // it may have waited for the one that finished
		case busy(op):
			if op.Quantity <= final {
				turned++
			}
		case op.Code == api.RateLimited:
		case op.Outcome == Declined: // for example, a backend is down: the lock is not the cause
			return 0, false
		}
	}
	return turned, turned >= minStuck
}

// hearStuck looks for X. It skips interrupted runs, where the request that would have finished may have been cut off.
// After a fault it considers only requests called when the fault was over and every lock of a dead holder must have
// been free. If the run was stuck until then and had too few requests afterwards, it is undecided.
func (j *judge) hearStuck() {
	j.r.Blocked = blocked(j.ops)
	if j.in.Partial {
		return
	}
	since := int64(always)
	if j.in.Resumed > 0 || j.in.Bound > 0 {
		since = add(j.in.Resumed, int64(j.in.Bound))
	}
	if n, is := stuck(j.ops, j.r.Final, since); is {
		j.find('X')
		j.violate("X", text.Of("the last %d [request|requests] found it busy and none finished, with %d [unit|units] left"),
			n, j.r.Final)
	} else if _, before := stuck(j.ops, j.r.Final, always); before && !j.in.Directed {
		j.idle(text.Of("every request found the product busy until the end, but there were too few requests after %s, when "+
			"every lock of a stopped or dead holder must have been free"), time.Duration(since).Round(time.Millisecond))
	}
}

// blocked returns the longest time in which requests were in flight or refused as busy, and none was sold or refused
// finally. It counts from the previous finish or, if nobody was waiting then, from the first call after it.
func blocked(ops []Op) time.Duration {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var ends []int64 // ends of the gaps: every finish, and the last event
	last := int64(always)
	for _, op := range ops {
		if answered(op) {
			ends = append(ends, op.Return)
		}
		last = max(last, op.Call, op.Return)
	}
	slices.Sort(ends)
	var longest int64
	from, waiting, next := int64(always), int64(always), 0
	for _, end := range append(ends, last) {
		// waiting is the latest return of the requests called until from: a request that returns later than from was waiting
		// then.
		for ; next < len(ops) && ops[next].Call <= from; next++ {
			waiting = max(waiting, back(ops[next]))
		}
		begin := from
		if waiting <= from {
			begin = end
			if next < len(ops) {
				begin = min(end, ops[next].Call)
			}
		}
		longest = max(longest, end-begin)
		from = end
	}
	return time.Duration(longest)
}

// back is when the request stopped waiting; without an answer it waits until its client gives up, or forever.
func back(op Op) int64 {
	if op.Outcome == Unknown && op.Return <= op.Call {
		return math.MaxInt64
	}
	return op.Return
}
