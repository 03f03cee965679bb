package handler

import (
	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/handler/input"
)

// tickets serves GET /products/{id}/tickets, a page at a time. The first one has the look.
func (b *books) tickets(c *gin.Context) outcome {
	var after string
	err := input.ReadQuery(c.Request, input.AfterFields, &after)
	var id int64
	if err == nil {
		id, err = input.ProductID(c.Param("id"))
	}
	if err == nil {
		err = b.pages.enter(c.Request.Context())
	}
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	defer b.pages.leave()
	page, next, l, err := b.Tickets(c.Request.Context(), id, after)
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	body := api.TicketBook{
		ProductID: id, Run: l.Run, Initial: l.Initial, Front: l.Front, InFlight: l.InFlight, Settled: l.Settled, Book: l.Book,
		Passed: l.Passed, Corrected: l.Corrected, Journal: l.Journal, Generation: l.Generation, OldestMS: l.OldestMS,
		Tickets: make([]api.TicketEnd, len(page)), Next: next,
	}
	for i, t := range page {
		body.Tickets[i] = api.TicketEnd{ID: t.ID, State: string(t.State), Quantity: t.Quantity, OrderID: t.OrderID,
			Key: string(t.Key), Reason: t.Reason, Deliveries: t.Deliveries}
	}
	return b.send(c, body)
}

// reconcile serves POST /products/{id}/reconcile.
func (b *books) reconcile(c *gin.Context) outcome {
	id, err := input.ProductID(c.Param("id"))
	var repair bool
	if err == nil {
		repair, err = input.ReadRepair(c.Request, underlying(c))
	}
	var r ledger.Reconciled
	if err == nil {
		r, err = b.Reconcile(c.Request.Context(), id, repair)
	}
	if err != nil {
		return outcome{code: b.fail(c, err)}
	}
	return b.send(c, api.Reconciliation{
		ProductID: id, Drift: r.Drift(), Leaked: r.Leaked(), Forgotten: r.Forgotten(), Front: r.Front, InFlight: r.InFlight,
		Book: r.Book, OldestMS: r.OldestMS, Stuck: r.Stuck, Repaired: r.Repaired, Generation: r.Generation,
	})
}
