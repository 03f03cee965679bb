package postmortem

import (
	"cmp"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

// Since is the first moment at which the files show something.
type Since struct {
	Letter string    `json:"letter"`          // of [judge.Letters]
	At     time.Time `json:"at"`              // or after it, where until is set
	Until  time.Time `json:"until,omitzero"`  // it was so at the latest; zero = At is the moment
	Order  string    `json:"order,omitempty"` // that shows it
	Said   string    `json:"said"`
}

// since says since when what was found is so, as far as the orders have times, and the stock log shows it.
func (l *Logs) since(in judge.Input, r judge.Report) (all []Since) {
	add := func(letter string, at time.Time, order string, t text.Text, args ...any) {
		all = append(all, Since{Letter: letter, At: at, Order: order, Said: t.With(append([]any{clock(at)}, args...)...).
			In(l.o.Lang)})
	}
	orders := slices.DeleteFunc(slices.Clone(in.Ledger.Orders), func(o api.Order) bool { return o.CreatedAt.IsZero() })
	slices.SortStableFunc(orders, func(a, b api.Order) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if a, b, found := again(orders, units(in, r)); found {
		add("O", b.CreatedAt, b.OrderID, text.Of("%s: order %s is the first of a unit that another has, %s"), b.OrderID,
			a.OrderID)
	}
	sum := int64(0)
	beyond := slices.IndexFunc(orders, func(o api.Order) bool { sum += o.Quantity; return sum > r.Initial })
	if beyond >= 0 && r.Oversold > 0 {
		o := orders[beyond]
		add("O", o.CreatedAt, o.OrderID, text.Of("%s: order %s is the first beyond the %d units that there were"), o.OrderID,
			r.Initial)
	}
	key := func(o api.Order) []string { return []string{cmp.Or(o.Key, "order "+o.OrderID)} }
	if a, b, found := again(orders, key); found && r.Doubles > 0 {
		add("D", b.CreatedAt, b.OrderID, text.Of("%s: order %s is the first second one for a key, after %s"), b.OrderID,
			a.OrderID)
	}
	if from, until, off := l.drift(orders, r); off != 0 {
		letter, said := "L", text.Of("between %s and %s: %d units fewer in stock than the orders leave")
		if off > 0 {
			letter, said = "O", text.Of("between %s and %s: %d units more in stock than the orders leave")
		}
		add(letter, from, "", said, clock(until), max(off, -off))
		all[len(all)-1].Until = until
	}
	there := map[string]bool{}
	for _, o := range in.Ledger.Orders {
		there[o.OrderID] = true
	}
	at := slices.IndexFunc(in.History, func(op judge.Op) bool { return op.Outcome == judge.OK && !there[op.OrderID] })
	if at >= 0 && r.AckLost > 0 && in.History[at].Return > 0 {
		op := in.History[at]
		add("A", time.Unix(0, op.Return).UTC(), op.OrderID, text.Of("%s: order %s is the first that was answered and is not "+
			"there"), op.OrderID)
	}
	slices.SortStableFunc(all, func(a, b Since) int { return a.At.Compare(b.At) })
	return all
}

func clock(at time.Time) string { return at.Format("2006-01-02 15:04:05.000Z07:00") }

// units returns a function that returns the units that an order says it has; none where units came back.
func units(in judge.Input, r judge.Report) func(api.Order) []int64 {
	return func(o api.Order) (all []int64) {
		if o.Remaining == nil || in.Ledger.Released[target.ForeignStore] || r.Unseen.Before || len(r.Evidence) == 0 {
			return nil
		}
		for n := range min(o.Quantity, 1000) {
			all = append(all, *o.Remaining+n)
		}
		return all
	}
}

// again finds the first order that has something which one before it has.
func again[K cmp.Ordered](orders []api.Order, of func(api.Order) []K) (a, b api.Order, found bool) {
	had := map[K]int{}
	for i, o := range orders {
		for _, k := range of(o) {
			if first, seen := had[k]; seen {
				return orders[first], o, true
			}
			had[k] = i
		}
	}
	return a, b, false
}

// drift says between which two readings the stock log and the orders began to differ for good, and by how much they do
// in the end: above zero the stock is too high. A sale under way makes them differ for a moment, which does not count.
func (l *Logs) drift(orders []api.Order, r judge.Report) (from, until time.Time, off int64) {
	if len(l.samples) == 0 || l.samples[0].at.IsZero() || len(orders) == 0 || r.Unseen.Before {
		return from, until, 0
	}
	want, next := r.Initial-l.added(), 0
	from, until = l.samples[0].at, l.samples[0].at
	for i, s := range l.samples {
		if i > 0 {
			want += s.added
		}
		for ; next < len(orders) && !orders[next].CreatedAt.After(s.at); next++ {
			want -= orders[next].Quantity
		}
		off = s.stock - want
		if off == 0 {
			from, until = s.at, time.Time{}
		} else if until.IsZero() {
			until = s.at
		}
	}
	for ; next < len(orders); next++ {
		off += orders[next].Quantity
	}
	if until.IsZero() {
		until = orders[len(orders)-1].CreatedAt
	}
	return from, until, off
}
