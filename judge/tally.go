package judge

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// maxPrints is how many rows of each kind a [Tally] remembers: about a million.
const maxPrints = 1 << 20

// Tally judges one store of a product by the rules of [OfLedger], for a ledger that does not fit into memory: it
// gets the rows one by one and keeps none. It remembers a hash of each id and key, up to maxPrints, and runs of units;
// if that was not enough, Report.Unchecked says how many rows were not checked. It takes 36 MB at most: for a million
// orders with a million keys.
//
// Pass all keys first, then all orders; if [Tally.Disputed] says so, pass all orders again to [Tally.Witness]; then
// call Report.
type Tally struct {
	j      judge
	judged bool
	seed   maphash.Seed
	limit  int

	ids       []uint64 // hashes of the first orders, up to maxPrints
	keys      []use[uint64]
	strangers int
	rows      idCounts
	carried   coverage
	answers   []stored // hashes of the first stored answers, up to maxPrints; the last two bits are the kind of the answer
	stored    int      // the number of all answers
	answered  []bool   // by answer: whether an order has its key
	byMode    map[string]*keyedRows
}

// stored is a stored answer: the hash of its key, in whose last two bits the kind is, and when it was stored, in Unix
// microseconds.
type stored struct {
	hash   uint64
	micros int64
}

// keyedRows counts the orders of one mode with an idempotency key, by the kind of the key's stored answer.
type keyedRows struct{ none, expired, pending, ok, other int }

// The kinds of a stored answer.
const (
	kindPending = iota
	kindOK
	kindOther
)

// NewTally starts judging a store from a ledger without its rows. orders is the number of orders, if known. lang is the
// language of the report.
func NewTally(l *api.Ledger, store api.Store, orders int64, lang string) *Tally {
	t := &Tally{seed: maphash.MakeSeed(), limit: maxPrints, byMode: map[string]*keyedRows{}}
	t.j = judge{in: Input{Store: store, Ledger: l, Lang: lang}, findings: findings{r: Report{Store: store, Lang: lang}}}
	t.judged = t.j.open()
	t.ids = make([]uint64, 0, min(max(orders, 0), maxPrints))
	return t
}

// Key adds a stored answer.
func (t *Tally) Key(k api.KeyRow) {
	kind := uint64(kindOther)
	switch k.Status {
	case 0:
		kind = kindPending
	case http.StatusOK:
		kind = kindOK
	}
	t.stored++
	if t.stored <= t.limit {
		t.answers = append(t.answers, stored{t.answerHash(k.Key, k.Mode) | kind, k.CreatedAt.UnixMicro()})
	}
}

// answerHash is a hash of a key and the mode that answered, without its last two bits; "" = not known.
func (t *Tally) answerHash(key, mode string) uint64 {
	return maphash.String(t.seed, mode+"\x00"+key) &^ 3
}

// Order adds an order. All keys must have been added before.
func (t *Tally) Order(o api.Order) {
	if o.ProductID != t.j.r.ProductID {
		t.strangers++
		return
	}
	o = requested(o)
	r := &t.j.r
	if r.Orders == 0 {
		slices.SortFunc(t.answers, func(a, b stored) int { return cmp.Compare(a.hash, b.hash) })
		t.answered = make([]bool, len(t.answers))
	}
	r.Orders++
	r.Sold = add(r.Sold, o.Quantity)
	if o.Replica != "" {
		r.Replicas[o.Replica]++
	}
	if o.Quantity <= 0 {
		t.rows.empty++
	}
	t.identify(o)
	t.lay(o)
}

// identify remembers the id and the key of an order. The last bit of an id's hash says whether there is a key.
func (t *Tally) identify(o api.Order) {
	keyed, room := uint64(0), t.j.r.Orders <= t.limit
	if o.Key != "" {
		keyed = 1
		t.match(o)
		if room {
			t.keys = append(t.keys, useOf(maphash.String(t.seed, o.Key), o, 0))
		}
	}
	if o.OrderID == "" {
		t.rows.unnamed++
	} else if room {
		t.ids = append(t.ids, maphash.String(t.seed, o.OrderID)&^1|keyed)
	}
}

// match looks for the stored answer of an order's key.
func (t *Tally) match(o api.Order) {
	if len(t.answers) == 0 || o.ReservationID != "" {
		return
	}
	m := t.byMode[o.Mode]
	if m == nil {
		m = &keyedRows{}
		t.byMode[o.Mode] = m
	}
	i, found := t.answerOf(o.Key, o.Mode)
	if !found {
		i, found = t.answerOf(o.Key, "")
	}
	if !found {
		if t.j.kept.outlived(o.CreatedAt, t.j.in.Ledger.AsOf) {
			m.expired++
		} else {
			m.none++
		}
		return
	}
	t.answered[i] = true
	if t.j.kept.outlived(o.CreatedAt, time.UnixMicro(t.answers[i].micros)) {
		return
	}
	switch t.answers[i].hash & 3 {
	case kindPending:
		m.pending++
	case kindOK:
		m.ok++
	default:
		m.other++
	}
}

// answerOf finds the stored answer of a mode to a key.
func (t *Tally) answerOf(key, mode string) (i int, found bool) {
	hash := t.answerHash(key, mode)
	i, _ = slices.BinarySearchFunc(t.answers, hash, func(a stored, hash uint64) int { return cmp.Compare(a.hash, hash) })
	return i, i < len(t.answers) && t.answers[i].hash&^3 == hash
}

// lay remembers the units of an order.
func (t *Tally) lay(o api.Order) {
	if sp, told := t.j.units.see(o, &t.j.r); told {
		t.carried.add(sp, t.j.r.Initial)
	}
}

// Disputed says whether some unit belongs to several orders, or never existed: then pass all orders to Witness.
func (t *Tally) Disputed() bool {
	disputed := t.carried.disputed(t.j.r.Initial)
	t.j.units.share(disputed)
	slices.SortStableFunc(disputed, func(a, b span) int { return cmp.Compare(b.n, a.n) })
	for _, l := range disputed[:min(len(disputed), maxUnits)] {
		t.j.r.Evidence = append(t.j.r.Evidence, Evidence{Unit: l.first, Of: t.j.r.Initial, Times: l.n})
	}
	return len(disputed) > 0
}

// Witness checks an order again, and keeps it if it has a disputed unit; for each unit it keeps the earliest orders.
func (t *Tally) Witness(o api.Order) {
	if o.ProductID != t.j.r.ProductID || o.Remaining == nil || o.Quantity <= 0 {
		return
	}
	sp := unitsOf(o, t.j.r.Initial)
	for i := range t.j.r.Evidence {
		e := &t.j.r.Evidence[i]
		if e.Unit < sp.first || sp.last < e.Unit {
			continue
		}
		at, _ := slices.BinarySearchFunc(e.Orders, o, func(a, b api.Order) int {
			if a.CreatedAt.After(b.CreatedAt) {
				return 1
			}
			return -1 // of two orders with the same time, the first one passed
		})
		e.Orders = slices.Insert(e.Orders, at, o)
		e.Orders = e.Orders[:min(len(e.Orders), maxOrders)]
	}
}

// Report returns the verdict.
func (t *Tally) Report() Report {
	j := &t.j
	if !t.judged {
		return j.close()
	}
	if t.strangers > 0 {
		j.tainted = true
		j.lack(sayOtherProduct, t.strangers, j.r.ProductID)
	}
	j.conserve()
	repeated, again := t.repeated()
	t.rows.repeated = repeated
	t.rows.blame(&j.findings)
	twice, later := doubles(t.keys, j.kept.held())
	j.blameDoubles(max(0, twice-again), len(later), j.kept)
	if j.r.Orders > t.limit {
		j.skip(text.Of("only the first %[2]d of %[1]d orders were searched for a repeated id or idempotency key"), j.r.Orders,
			t.limit)
	}
	t.holdKeys()
	j.units.blame(&j.findings)
	if t.carried.left > 0 {
		j.skip(text.Of("%d [order was|orders were] not checked for units that another order has too: the sold units have "+
			"too many gaps"), t.carried.left)
	}
	return j.close()
}

// repeated counts the rows that repeat the id of another, and how many of these have a key: one order that was written
// twice is not a second order for its key.
func (t *Tally) repeated() (rows, keyed int) {
	slices.Sort(t.ids)
	for i := 0; i < len(t.ids); {
		end, withKey := i, 0
		for ; end < len(t.ids) && t.ids[end]&^1 == t.ids[i]&^1; end++ {
			withKey += int(t.ids[end] & 1)
		}
		rows, keyed = rows+end-i-1, keyed+max(0, withKey-1)
		i = end
	}
	return rows, keyed
}

// holdKeys compares the stored answers with the orders, both ways; judge.inspectKeys has the rules.
func (t *Tally) holdKeys() {
	var n keyCounts
	for i, a := range t.answers {
		if a.hash&3 == kindOK && (len(t.answered) == 0 || !t.answered[i]) {
			n.promised++
		}
	}
	all := t.stored <= t.limit
	if !all {
		t.j.skip(text.Of("only the first %[2]d of %[1]d stored answers were compared with the orders"), t.stored, t.limit)
	}
	for _, m := range t.byMode {
		if m.pending+m.ok+m.other == 0 {
			continue // the mode stores only the key
		}
		n.denied += m.other
		n.unstored += m.pending
		if all {
			n.unstored += m.none
			n.expired += m.expired
		}
	}
	n.blame(&t.j.findings, t.j.kept)
}
