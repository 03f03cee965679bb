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
}

func useOf[K cmp.Ordered](key K, o api.Order) use[K] { return use[K]{key, o.CreatedAt.UnixMicro()} }

// uncertain is how much of a key's retention the judge does not hold against the shop, at most, and uncertainPart of it. A key is kept
// from a moment before its order's time on, and another replica, with another clock, may remove it.
const (
	uncertain     = time.Minute
	uncertainPart = 10
)

// doubles sorts the uses and counts those that repeat a key. kept is for how long the shop keeps keys, 0 = forever: an order that repeats
// a key while it is kept charges twice; one that repeats it later is a new request's, and only counted.
func doubles[K cmp.Ordered](uses []use[K], kept time.Duration) (twice, later int) {
	slices.SortFunc(uses, func(a, b use[K]) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.micros, b.micros)) })
	kept -= min(uncertain, kept/uncertainPart)
	for i := 1; i < len(uses); i++ {
		switch a, b := uses[i-1], uses[i]; {
		case a.key != b.key:
		case kept > 0 && b.micros-a.micros >= kept.Microseconds():
			later++
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

// forgets says whether a key may have been used again after its retention without both orders being there.
func (j *judge) forgets() bool { return j.keyRetention() > 0 && j.r.Purged.Orders > 0 }

// kept is for how long the judge holds a key against the shop; 0 = forever.
func (j *judge) kept() time.Duration {
	k := j.keyRetention()
	return k - min(uncertain, k/uncertainPart)
}

// keyRetention is for how long the shop keeps keys; 0 = forever, or not known.
func (j *judge) keyRetention() time.Duration {
	if j.in.Ledger == nil {
		return 0 // a foreign service's
	}
	return time.Duration(max(0, j.in.Ledger.KeepKeysMS)) * time.Millisecond
}
