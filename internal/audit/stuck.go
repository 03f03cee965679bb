package audit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lastitem/internal/api"
)

// minStuck is how many requests in a row must have found the product busy, with nobody finishing, to call it stuck.
const minStuck = 3

// busy tells whether the request was turned away by a rival: it waited its time and could not finish.
func busy(op Op) bool {
	return op.Outcome == Declined && (op.Code == api.LockBusy || op.Code == api.Contended || op.Code == api.InFlight)
}

// stuck tells whether, from some moment on, nobody could finish within the wait although stock remained, and how many
// were turned away since. Only requests called after the last sale or refusal, and after since, count: one that was
// already waiting then may have been overtaken. An answer that is neither busy nor unknown shows another trouble than a
// lock, except that of a limit on requests, which shows nothing.
func stuck(ops []Op, final, since int64) (turned int, is bool) {
	last := since
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
		case op.Code == api.RateLimited:
		case op.Outcome == Declined: // a backend is down, say: not the lock's doing
			return 0, false
		}
	}
	return turned, turned >= minStuck
}

// hearStuck looks for X. In an interrupted run the one who would have finished may have been cut off, so there it does
// not. After a fault it looks at what was called once the fault was over and every lock of a dead holder had to be free; a
// run that was stuck until then, and in which too few asked later, tells nothing.
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
		j.violate("X", sayStuck, n, j.r.Final)
	} else if _, before := stuck(j.ops, j.r.Final, always); before {
		j.idle(sayStuckTooSoon, time.Duration(since).Round(time.Millisecond))
	}
}

// blocked returns the longest time for which requests were on their way or came back as busy, and none was sold or refused.
// It counts from the finish before, or from the first call after it where nobody was waiting then.
func blocked(ops []Op) time.Duration {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var ends []int64 // of the gaps: every finish, and the last sign of anybody
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
		// waiting is the latest return among those called by from: whoever returns later than from was waiting then.
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

// back is when the request no longer waited; a request without an answer waits until its client gives up, or forever.
func back(op Op) int64 {
	if op.Outcome == Unknown && op.Return <= op.Call {
		return math.MaxInt64
	}
	return op.Return
}
