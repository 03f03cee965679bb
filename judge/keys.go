package judge

import (
	"cmp"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
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

// requested returns an order with its key as requests for orders know it. That of a reservation has its payment's id,
// which may be the same text as a request's key, and has no stored answer.
func requested(o api.Order) api.Order {
	if o.ReservationID != "" && o.Key != "" {
		o.Key = "payment\x00" + o.Key
	}
	return o
}

// The judge ignores the end of a key's retention: 1/uncertainPart of it, but no more than uncertain. The retention
// begins a moment before the order's time, and another replica, with another clock, may remove the key.
const (
	uncertain     = time.Minute
	uncertainPart = 10
)

// doubles sorts the uses and counts those that repeat a key while it is kept, which charge twice. later are the rows of
// those that repeat it after that, which are new requests. kept is from [retention.held].
func doubles[K cmp.Ordered](uses []use[K], kept time.Duration) (twice int, later []int) {
	slices.SortFunc(uses, func(a, b use[K]) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.micros, b.micros))
	})
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
func (f *findings) blameDoubles(twice, later int, kept retention) {
	if f.r.Doubles = twice; twice > 0 {
		f.find('D')
	}
	if later > 0 {
		f.skip(text.Of("%d [order uses an idempotency key again|orders use idempotency keys again] after the key's "+
			"retention of %s, as new requests may"), later, time.Duration(kept))
	}
}

// retention is for how long the shop keeps keys; 0 = forever, or not known.
type retention time.Duration

func retentionOf(l *api.Ledger) retention {
	return retention(max(0, l.KeepKeysMS)) * retention(time.Millisecond)
}

// held is for how long the judge holds a key against the shop; 0 = forever.
func (d retention) held() time.Duration {
	return time.Duration(d - min(retention(uncertain), d/uncertainPart))
}

// over says whether a request of the history may have used a key again after its retention.
func (d retention) over(ops []Op) bool {
	if d == 0 || len(ops) == 0 {
		return false
	}
	first, last := ops[0].Call, ops[0].Call
	for _, op := range ops {
		first, last = min(first, op.Call), max(last, op.Call, op.Return)
	}
	return time.Duration(last-first) >= d.held()
}

// outlived says whether the answer to an order's request may have been removed before a later time, which may be that
// of the answer to a later request with its key.
func (d retention) outlived(ordered, later time.Time) bool {
	return d > 0 && later.Sub(ordered) >= d.held()
}

// keyRows are stored answers by idempotency key.
type keyRows map[string]api.KeyRow

// of returns the stored answer of a mode to a key. A mode that is not known may be any.
func (m keyRows) of(key, mode string) (k api.KeyRow, stored bool) {
	k, stored = m[key]
	return k, stored && key != "" && (k.Mode == "" || mode == "" || k.Mode == mode)
}

// keyCounts are the stored answers and orders that disagree, and how many orders are older than the retention of
// their answers.
type keyCounts struct{ promised, unstored, denied, expired int }

func (n keyCounts) blame(f *findings, kept retention) {
	f.each(n.promised, "A", text.Of("%d stored [answer of an idempotency key promises|answers of idempotency keys "+
		"promise] an order that is not there"))
	f.each(n.unstored, "", text.Of("%d [order with an idempotency key has|orders with an idempotency key have] no "+
		"stored answer"))
	f.each(n.denied, "", text.Of("%d [order exists|orders exist] although the stored answer of [its|their] key is a "+
		"refusal"))
	if n.expired > 0 {
		f.skip(text.Of("%d [order is|orders are] older than the retention of idempotency keys, %s: their stored answers "+
			"may have been removed"), n.expired, time.Duration(kept))
	}
}
