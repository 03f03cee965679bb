package audit

import (
	"cmp"
	"slices"
	"time"

	"lastitem/internal/api"
)

// use is an order's use of its idempotency key, of which K is the text or a hash.
type use[K cmp.Ordered] struct {
	key    K
	micros int64 // when the order was created, in Unix microseconds
	row    int   // the order's index, for who needs it
}

func useOf[K cmp.Ordered](key K, o api.Order, row int) use[K] {
	return use[K]{key, o.CreatedAt.UnixMicro(), row}
}

// The judge ignores the end of a key's retention: 1/uncertainPart of it, but no more than uncertain. The retention begins a moment
// before the order's time, and another replica, with another clock, may remove the key.
const (
	uncertain     = time.Minute
	uncertainPart = 10
)

// doubles sorts the uses and counts those that repeat a key while it is kept, which charge twice. later are the rows of those that repeat it
// after that, which are new requests. kept is from [judge.kept].
func doubles[K cmp.Ordered](uses []use[K], kept time.Duration) (twice int, later []int) {
	slices.SortFunc(uses, func(a, b use[K]) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.micros, b.micros)) })
	for i := 1; i < len(uses); i++ {
		switch a, b := uses[i-1], uses[i]; {
		case a.key != b.key:
		case kept > 0 && b.micros-a.micros >= kept.Microseconds():
			later = append(later, b.row)
		default:
			twice++
		}
	}
	return twice, later
}

// blameDoubles reports the orders that repeat a key.
func (j *judge) blameDoubles(twice, later int) {
	if j.r.Doubles = twice; twice > 0 {
		j.find('D')
	}
	if later > 0 {
		j.r.Unchecked = append(j.r.Unchecked, j.say(sayReusedKeys, later, j.keyRetention()))
	}
}

// kept is for how long the judge holds a key against the shop; 0 = forever.
func (j *judge) kept() time.Duration {
	kept := j.keyRetention()
	return kept - min(uncertain, kept/uncertainPart)
}

// keyRetention is for how long the shop keeps keys; 0 = forever, or not known.
func (j *judge) keyRetention() time.Duration {
	if j.in.Ledger == nil {
		return 0 // a foreign service's
	}
	return time.Duration(max(0, j.in.Ledger.KeepKeysMS)) * time.Millisecond
}

// reusable says whether a request of the history may have used a key again after its retention.
func (j *judge) reusable() bool {
	if j.kept() == 0 || len(j.ops) == 0 {
		return false
	}
	first, last := j.ops[0].Call, j.ops[0].Call
	for _, op := range j.ops {
		first, last = min(first, op.Call), max(last, op.Call, op.Return)
	}
	return time.Duration(last-first) >= j.kept()
}

// outlived says whether the answer to an order's request may have been removed before a later time, which may be that
// of the answer to a later request with its key.
func (j *judge) outlived(ordered, later time.Time) bool {
	return j.kept() > 0 && later.Sub(ordered) >= j.kept()
}
