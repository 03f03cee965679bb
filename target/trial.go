package target

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// Try makes one purchase of a product, of so many units, and looks what it has moved: as many units and one order must
// move within patience. It resets the product first, where the description says how. Where orders can be cancelled, one
// is before that, and one is shipped and then not cancelled. An [UnfitError] says what was seen instead, and that a run
// would prove nothing.
func (r *Remote) Try(ctx context.Context, product, stock, units int64, patience time.Duration) error {
	var endings []judge.ReservationKind
	if r.Cancel != nil {
		endings = append(endings, judge.Cancel)
	}
	if r.Ship != nil {
		endings = append(endings, judge.Ship)
	}
	for _, ending := range append(endings, "") {
		if err := r.try(ctx, product, stock, units, patience, ending); err != nil {
			return err
		}
	}
	return nil
}

// try makes one purchase, and ends its order so; "" = it does not. What it shows is kept: the order may stay.
func (r *Remote) try(ctx context.Context, product, stock, units int64, patience time.Duration,
	ending judge.ReservationKind) error {
	before, err := r.Prepare(ctx, product, stock)
	if err != nil {
		return err
	}
	if before == nil { // nothing can be read: the answer is all there is
		before = &api.Ledger{}
	} else if left := before.Stock[ForeignStore]; left <= units {
		return text.Of("the stock of product %s is %d, and one purchase is tried before a run: set it to more, or "+
			"give --reset-url, --reset-sql or --reset-redis, which set it before each run").Errorf(r.ProductName(product), left)
	}
	for _, id := range r.tried[product].ids { // of the tries before, which the books still have
		before.Orders = append(before.Orders, api.Order{OrderID: id})
	}
	once := r.client() // as a load does: it does not follow the answer to another address
	once.Timeout = remotePatience
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	via := Via{r.URL, func(c Call) (Reply, error) { return c.Send(ctx, once, r.URL) }}
	ask := Ask{Product: product, Quantity: units, Key: uuid.NewString()}
	if r.Buy != nil {
		ask.Visit = r.NewVisit(product, units, ask.Key)
		ask.Visit.Note = r.Watch
	}
	reply, said, err := r.once(ctx, ask, before, via)
	if err != nil {
		return text.Of("one purchase of product %s was tried: %w").Errorf(r.ProductName(product), err)
	}
	if said.Outcome != judge.OK {
		return unfit(text.Of("one purchase of product %s was tried, and answered %s, which does not mean sold: is "+
			"this the request that sells (--request), and do --ok, --ok-body, --refused and --refused-body fit its answer?"),
			r.ProductName(product), Shown(reply))
	}
	if r.Stock == (Source{}) {
		r.learn(product, tried{sold: reply})
		return nil
	}
	seen, after, err := r.watch(ctx, before, units, patience)
	if err != nil {
		return err
	}
	seen.sold = reply
	if why := r.unmoved(before, after, units, seen, patience); why != nil {
		return why
	}
	if ending != "" {
		if seen.ids, err = r.tryEnding(ctx, ask.Visit, via, before, units, patience, ending); err != nil {
			return err
		}
	}
	r.learn(product, seen)
	return nil
}

// tryEnding ends an order, and returns the ids of those that are left: its units and itself must be gone from the books
// within patience or, if it was shipped, stay, and its cancel must be refused.
func (r *Remote) tryEnding(ctx context.Context, v *Visit, via Via, before *api.Ledger, units int64,
	patience time.Duration, ending judge.ReservationKind) (left []string, err error) {
	reply, said, err := v.End(via, ending)
	switch {
	case err != nil:
		return nil, text.Of("%s was tried: %w").Errorf(ending, err)
	case said.Outcome != judge.OK:
		return nil, unfit(text.Of("%s was tried, and answered %s, which does not mean done: is this the request, and do "+
			"done and refused fit its answer?"), ending, Shown(reply))
	}
	want, orders := int64(0), 0
	if ending == judge.Ship {
		want, orders = units, 1
		if reply, said, err = v.End(via, judge.Cancel); err != nil {
			return nil, text.Of("%s was tried: %w").Errorf(judge.Cancel, err)
		} else if said.Outcome != judge.Refused {
			return nil, unfit(text.Of("the cancel of an order that was shipped answered %s, which does not mean refused: does "+
				"ship make an order one that cannot be cancelled, and does cancel.refused fit this answer?"), Shown(reply))
		}
	}
	var fell int64
	more, end := 0, time.Now().Add(patience)
	_, err = settle(ctx, func(ctx context.Context) (*api.Ledger, error) {
		l, _, err := r.books(ctx, before.ProductID, 0)
		if err == nil {
			left = idsOf(l)
			fell, more = before.Stock[ForeignStore]-l.Stock[ForeignStore], moreOrders(before, l)
		}
		return l, err
	}, func(_ *api.Ledger, err error, _ time.Time) bool {
		return (err != nil || fell != want || more != orders) && time.Now().Before(end)
	})
	if err != nil || fell == want && more == orders {
		return left, err
	}
	return nil, unfit(text.Of("after %s the stock is %d less than before the purchase and there are %d more orders, "+
		"want %d and %d: a cancel must put the units back, and --orders-... must show the orders that stand, those that "+
		"were shipped too, and no cancelled ones"), ending, fell, more, want, orders)
}

// once makes a purchase. A buyer who is arranged must not move the stock: under load many are, before the first buys.
func (r *Remote) once(ctx context.Context, a Ask, before *api.Ledger, via Via) (Reply, Answer, error) {
	if r.Buy == nil {
		c := func(c Call) (Reply, error) {
			reply, err := via.Do(c)
			if r.Watch != nil && err == nil {
				r.Watch("buy", c, reply, nil)
			}
			return reply, err
		}
		return r.Once(ctx, a, Via{via.Base, c})
	}
	v := a.Visit
	if err := v.Arrange(via); err != nil {
		return Reply{}, Answer{}, err
	}
	if r.Stock != (Source{}) && !v.Refused() {
		left, _, err := r.left(ctx, a.Product)
		if err != nil {
			return Reply{}, Answer{}, err
		}
		if fell := before.Stock[ForeignStore] - left; fell != 0 {
			return Reply{}, Answer{}, unfit(text.Of("before the buyer bought, the stock fell by %d: a step of arrange takes "+
				"the units, and belongs to buy"), fell)
		}
	}
	return v.Buy(ctx, via, true)
}

// Once makes one whole purchase and returns the answer that decides, and what it means.
func (f *Foreign) Once(ctx context.Context, a Ask, via Via) (Reply, Answer, error) {
	if f.Buy != nil {
		v := f.NewVisit(a.Product, a.Quantity, a.Key)
		if err := v.Arrange(via); err != nil {
			return Reply{}, Answer{}, err
		}
		return v.Buy(ctx, via, true)
	}
	caller, err := f.Caller()
	if err != nil {
		return Reply{}, Answer{}, err
	}
	r, err := via.Do(caller(a))
	return r, f.Read(r), err
}

// watch reads the books until a purchase shows in them, or patience is over.
func (r *Remote) watch(
	ctx context.Context, before *api.Ledger, units int64, patience time.Duration,
) (tried, *api.Ledger, error) {
	var seen tried
	had := idsOf(before)
	end := time.Now().Add(patience)
	after, err := settle(ctx, func(ctx context.Context) (*api.Ledger, error) {
		l, orders, err := r.books(ctx, before.ProductID, 0)
		if err != nil {
			return nil, err
		}
		for i, o := range l.Orders {
			if !slices.Contains(had, o.OrderID) {
				seen.order, seen.quantity = orders.rows[i], orders.rows[i].saysQuantity()
			}
		}
		seen.counts, seen.ids, seen.parts = orders.total == int64(len(orders.rows)), idsOf(l), orders.parts
		return l, nil
	}, func(l *api.Ledger, err error, _ time.Time) bool {
		done := err == nil && before.Stock[ForeignStore]-l.Stock[ForeignStore] == units &&
			(r.Orders == (Source{}) || moreOrders(before, l) == 1)
		return !done && time.Now().Before(end)
	})
	return seen, after, err
}

// moreOrders is how many orders came between two readings. Rows of one id are one order.
func moreOrders(before, after *api.Ledger) int {
	distinct := func(l *api.Ledger) int { return len(slices.Compact(slices.Sorted(slices.Values(idsOf(l))))) }
	return distinct(after) - distinct(before)
}

func idsOf(l *api.Ledger) (ids []string) {
	for _, o := range l.Orders {
		ids = append(ids, o.OrderID)
	}
	return ids
}

// unmoved says what a purchase should have moved and did not; nil = it moved its units, and one order.
func (r *Remote) unmoved(before, after *api.Ledger, units int64, seen tried, patience time.Duration) error {
	fell, more := before.Stock[ForeignStore]-after.Stock[ForeignStore], moreOrders(before, after)
	orders := r.Orders != (Source{})
	if fell == units && (!orders || more == 1) {
		return nil
	}
	tried := text.Of("one purchase of product %s was tried, and answered %s").With(r.ProductName(before.ProductID),
		Shown(seen.sold))
	cached := ""
	if l, err := r.list(context.Background(), r.Stock, "stock", before.ProductID); err == nil {
		cached = l.cached
	}
	switch {
	case fell == 0 && cached != "":
		return unfit(text.Of("%s; the stock stayed %d, and the answer that shows it comes from a cache (%s): read it past "+
			"the cache"), tried, after.Stock[ForeignStore], cached)
	case fell == 0 && more == 0:
		return unfit(text.Of("%s; nothing moved within %s, the stock stayed %d: is this the request that sells?"), tried,
			patience, after.Stock[ForeignStore])
	case fell == 0:
		return unfit(text.Of("%s and an order was written, but the stock stayed %d for %s: does --stock-... show the stock "+
			"that this request sells, as it is now?"), tried, after.Stock[ForeignStore], patience)
	case fell == units && more == 0:
		return unfit(text.Of("%s and the stock fell by %d, but no order came within %s: does --orders-... show all orders "+
			"of this product? A slow worker needs more time: --settle"), tried, units, patience)
	}
	if !orders {
		return unfit(text.Of("%s; the stock fell by %d, want %d: does somebody else sell this product?"), tried, fell, units)
	}
	return unfit(text.Of("%s; the stock fell by %d and %d [order|orders] came, want %d and 1: does somebody else sell "+
		"this product?"), tried, fell, more, units)
}

// learn keeps what a purchase has shown. It must not run beside a reading.
func (r *Remote) learn(product int64, seen tried) {
	if r.tried == nil {
		r.tried = map[int64]tried{}
	}
	if r.Resets() {
		seen.ids = nil
	}
	r.tried[product] = seen
}

// Tried says whether one purchase of the product was tried, whether the orders that are read say how many units they
// are about, and what it was answered.
func (r *Remote) Tried(product int64) (sold Reply, quantity, yes bool) {
	t, yes := r.tried[product]
	return t.sold, t.quantity || t.order == nil, yes
}
