package handler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/input"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/judge"
)

// books reads the products' rows: so many readers at a time.
type books struct {
	*answers
	Products
	Ticketing
	metrics *metrics
	pages   gate // GET .../orders and .../ledger
	audits  gate // GET .../audit
}

// orders serves GET /products/{id}/orders, a page at a time. If a store cannot be read it fails, since an incomplete
// list looks like leaked stock.
func (b *books) orders(c *gin.Context) outcome {
	body, l, err := b.readPage(c, false)
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	for _, err := range l.Unavailable {
		return outcome{code: b.fail(c, err)}
	}
	return b.send(c, api.Orders{
		ProductID: body.ProductID, Initial: body.Initial, Stock: body.Stock, Totals: body.Totals, AsOf: body.AsOf,
		Orders: body.Orders, NextCursor: body.NextCursor,
	})
}

// ledger serves GET /products/{id}/ledger, a page at a time: all rows that could be read, and the stores that could
// not.
func (b *books) ledger(c *gin.Context) outcome {
	body, l, err := b.readPage(c, true)
	if err == nil {
		err = b.down(c, l)
	}
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	return b.send(c, body)
}

// readPage reads a page of the product in the path, and converts it to the API's form.
func (b *books) readPage(c *gin.Context, keys bool) (body api.Ledger, l shop.Ledger, err error) {
	q := input.Rows{Limit: input.DefaultLimit}
	if err := input.ReadQuery(c.Request, input.RowsFields, &q); err != nil {
		return body, l, err
	}
	id, err := input.ProductID(c.Param("id"))
	if err != nil {
		return body, l, err
	}
	after, err := input.DecodeCursor(id, q.Cursor)
	if err != nil {
		return body, l, err
	}
	ctx := c.Request.Context()
	if err := b.pages.enter(ctx); err != nil {
		return body, l, err
	}
	defer b.pages.leave()
	asOf := time.Now()
	if l, err = b.Page(ctx, id, shop.Page{After: after, Limit: int(q.Limit), Keys: keys}); err != nil {
		return body, l, err
	}
	body = b.page(id, l, after == nil, asOf)
	body.NextCursor, err = input.EncodeCursor(id, l.Next)
	return body, l, err
}

// page converts a page of a ledger to the API's form: one list of orders over all stores. For a store that could not be
// read it gives the code; the log has the cause. Only the first page, which began at asOf, has the facts.
func (b *books) page(id int64, l shop.Ledger, first bool, asOf time.Time) api.Ledger {
	out := api.Ledger{ProductID: id, Orders: orders(l), Keys: []api.KeyRow{}, Unavailable: map[api.Store]string{}}
	if first {
		out.AsOf, out.KeepKeysMS = asOf.UTC(), b.KeepKeys().Milliseconds()
		out.Initial, out.Stock, out.Totals = map[api.Store]int64{}, map[api.Store]int64{}, map[api.Store]api.Totals{}
	}
	for name, f := range l.Facts {
		store := api.Store(name)
		for _, k := range f.Keys {
			out.Keys = append(out.Keys, keyRow(k))
		}
		if !first {
			continue
		}
		out.Initial[store], out.Stock[store], out.Totals[store] = f.Initial, f.Stock, api.Totals(f.Totals)
		if f.Adjustments != nil {
			if out.Adjustments == nil {
				out.Adjustments = map[api.Store][]api.Adjustment{}
			}
			out.Adjustments[store] = adjustments(f.Adjustments)
		}
		if f.Released {
			if out.Released == nil {
				out.Held, out.Restocked, out.Released = map[api.Store]int64{}, map[api.Store]int64{}, map[api.Store]bool{}
			}
			out.Held[store], out.Restocked[store], out.Released[store] = f.Held, f.Restocked, true
		}
		if f.Passed > 0 {
			out.Passed, out.InFlight = map[api.Store]int64{store: f.Passed}, f.InFlight
		}
		if name == stock.Redis {
			out.Segments = f.Segments
		}
	}
	for store, err := range l.Unavailable {
		out.Unavailable[api.Store(store)] = string(problemOf(err, "").Code)
	}
	slices.SortFunc(out.Keys, func(a, b api.KeyRow) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// down fails if no store could be read. If only some could not, it logs their causes, and the body names them.
func (b *books) down(c *gin.Context, l shop.Ledger) error {
	err := l.Down()
	if err == nil || len(l.Facts) == 0 {
		return err
	}
	b.report(c, problemOf(err, "").Code, err)
	return nil
}

// audits is the body of GET /products/{id}/audit: one report per store, without knowledge of the clients' answers, and
// the overall verdict.
type audits struct {
	ProductID int64          `json:"product_id"`
	Verdict   judge.Verdict  `json:"verdict"`
	Reports   []judge.Report `json:"reports"`
}

// audit serves GET /products/{id}/audit, with ?lang=zh in Chinese. A store that could not be read is judged
// inconclusive.
func (b *books) audit(c *gin.Context) outcome {
	var lang string
	if err := input.ReadQuery(c.Request, input.InquiryFields, &lang); err != nil {
		return outcome{code: b.fail(c, err)}
	}
	id, err := input.ProductID(c.Param("id"))
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	l, reports, err := b.settled(c.Request.Context(), id, lang)
	if err == nil {
		err = b.down(c, l)
	}
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	facts := b.page(id, l, true, time.Now())
	body := audits{ProductID: id}
	for _, store := range api.Stores {
		of := func(r judge.Report) bool { return r.Store == store }
		if _, down := facts.Unavailable[store]; down {
			body.Reports = append(body.Reports, judge.Judge(judge.Input{Store: store, Ledger: &facts, Lang: lang}))
		} else if i := slices.IndexFunc(reports, of); i >= 0 {
			body.Reports = append(body.Reports, reports[i])
		}
	}
	body.Verdict = judge.Overall(body.Reports)
	b.metrics.audits.WithLabelValues(string(body.Verdict)).Inc()
	return b.send(c, body)
}

// settled judges each store of a product that may be being sold. If the request's time ends after a look, the last
// whole one counts.
func (b *books) settled(ctx context.Context, id int64, lang string) (l shop.Ledger, reports []judge.Report,
	err error) {
	if err := b.audits.enter(ctx); err != nil {
		return l, nil, err
	}
	defer b.audits.leave()
	ctx, cancel := context.WithTimeout(ctx, shop.AuditLimit) // for all looks together
	defer cancel()
	reports, err = judge.Watch(ctx, func() ([]judge.Report, error) {
		var look []judge.Report // after an error it may still be written
		ledger, err := b.Audit(ctx, id, func(store stock.Store, snap *ledger.Snapshot) error {
			r, err := b.judge(id, store, snap, lang)
			if err == nil {
				look = append(look, r)
			}
			return err
		})
		if err == nil && l.Facts != nil {
			err = ctx.Err() // a later look that was cut off lacks stores
		}
		if err != nil {
			return nil, err
		}
		l = ledger
		return look, nil
	})
	if reports != nil {
		err = nil
	}
	return l, reports, err
}

// judge judges a store from its snapshot. It reads the rows in batches and keeps none.
func (b *books) judge(id int64, store stock.Store, snap *ledger.Snapshot, lang string) (judge.Report, error) {
	facts := b.page(id, shop.Ledger{Facts: map[stock.Store]ledger.Facts{store: snap.Facts}}, true, time.Now())
	t := judge.NewTally(&facts, api.Store(store), snap.Totals.Orders, lang)
	if snap.Keys != nil {
		if err := snap.Keys(each(func(k *ledger.KeyRow) { t.Key(keyRow(*k)) })); err != nil {
			return judge.Report{}, err
		}
	}
	if err := snap.Orders(each(func(o *ledger.Order) { t.Order(order(store, *o)) })); err != nil {
		return judge.Report{}, err
	}
	if t.Disputed() {
		if err := snap.Orders(each(func(o *ledger.Order) { t.Witness(order(store, *o)) })); err != nil {
			return judge.Report{}, err
		}
	}
	return t.Report(), nil
}

// each turns a function of a row into a function of a batch.
func each[T any](one func(*T)) func([]T) error {
	return func(batch []T) error {
		for i := range batch {
			one(&batch[i])
		}
		return nil
	}
}
