package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/ledger"
	"lastitem/internal/shop/tickets"
	"lastitem/internal/stock"
	"lastitem/internal/store"
	"lastitem/internal/store/sqldb"
)

// receiver writes the orders of tickets by the transaction of a group commit, and with them their ends: a ticket that
// has one is done, however often it is delivered. It is the [tickets.Book] of the shop.
type receiver struct {
	groupCommit

	noInbox map[string]bool // modes whose tickets are sold as often as they are delivered
}

// Receive implements [tickets.Book].
func (g receiver) Receive(product int64, batch []*tickets.Arrival) error {
	var todo, again, bare []*tickets.Arrival
	seen, look := map[string]bool{}, false
	for _, a := range batch {
		if g.noInbox[a.Order.Mode] {
			bare = append(bare, a)
			continue
		}
		if key := string(a.Order.Key); key != "" && seen[key] {
			again = append(again, a)
			continue
		}
		seen[string(a.Order.Key)] = true
		todo = append(todo, a)
		look = look || a.Deliveries > 1
	}
	if err := g.receive(product, todo, look); err != nil {
		return err
	}
	for _, a := range again { // one after the other: what each of them is, follows from those before it
		if err := g.receive(product, []*tickets.Arrival{a}, true); err != nil {
			return err
		}
	}
	if len(bare) == 0 { // they come last: whatever fails, has all of them come again
		return nil
	}
	return g.tryReceive(product, bare, true)
}

// receive is Receive for a batch with no key twice. look says that some may have ends already.
func (g receiver) receive(product int64, todo []*tickets.Arrival, look bool) (err error) {
	for try := 0; try < groupTries && len(todo) > 0; try++ {
		if look {
			if todo, err = g.endless(product, todo); err != nil || len(todo) == 0 {
				return err
			}
		}
		if err = g.tryReceive(product, todo, look); !errors.Is(err, errKeysTaken) && !errors.Is(err, store.ErrOrderExists) {
			return err
		}
		look = true
	}
	return err
}

// endless reads the ends of tickets, and returns those that have none. One whose key has an order is told its end, but
// that is still to be written.
func (g receiver) endless(product int64, batch []*tickets.Arrival) (rest []*tickets.Arrival, err error) {
	ctx, cancel := stock.Settling(context.Background())
	defer cancel()
	ids, keys := make([]string, len(batch)), map[int64][][]byte{}
	for i, a := range batch {
		if ids[i] = a.Order.ID; len(a.Order.Key) > 0 {
			keys[a.Run] = append(keys[a.Run], a.Order.Key)
		}
	}
	ends, err := g.sql.Ends(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for run, keys := range keys {
		sold, err := g.sql.EndsOfKeys(ctx, product, run, keys)
		if err != nil {
			return nil, err
		}
		for _, a := range batch {
			if first, there := sold[string(a.Order.Key)]; there && a.Run == run {
				a.End = ledger.TicketEnd{State: ledger.TicketSame, OrderID: first.OrderID}
			}
		}
	}
	for _, a := range batch {
		end, there := ends[a.Order.ID]
		if there {
			a.End = end
			continue
		}
		rest = append(rest, a)
	}
	return rest, nil
}

// tryReceive is one transaction, tried again while the database decides for another.
func (g receiver) tryReceive(product int64, batch []*tickets.Arrival, looked bool) (err error) {
	ctx, cancel := stock.Settling(context.Background())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", tickets.ErrPanic, p)
		}
	}()
	return store.Retry(ctx, 0, func(n int) error {
		if n > 0 {
			g.repeated()
		}
		return g.sql.GroupTx(ctx, func(tx *sqldb.Tx) error { return g.write(tx, product, batch, looked) })
	})
}

// write takes the units of a batch, and writes the orders and the ends. A ticket with a key is refused only if its ends
// were looked for: the key may have an order.
func (g receiver) write(tx *sqldb.Tx, product int64, batch []*tickets.Arrival, looked bool) error {
	var asked []*stock.Ticket
	by := make([]*stock.Ticket, len(batch))
	for i, a := range batch {
		if a.End.State == ledger.TicketSame {
			continue
		}
		by[i] = &stock.Ticket{Ctx: context.Background(), Order: a.Order, Run: a.Run}
		if g.noInbox[a.Order.Mode] {
			by[i].Order.ID = uuid.NewString()
		}
		asked = append(asked, by[i])
	}
	if len(asked) > 0 {
		limited, err := g.takeTickets(tx, product, asked)
		if _, no := errors.AsType[*ledger.ProductError](err); no {
			fail(asked, err)
		} else if err != nil {
			return err
		}
		for i, t := range by {
			if t != nil { // what the buyer was told is what Redis had left
				t.Order.Remaining = batch[i].Order.Remaining
			}
		}
		if err := errors.Join(g.insertOrders(tx, asked), bought(tx, limited, asked)); err != nil {
			return err
		}
	}
	var ends []ledger.TicketEnd
	for i, a := range batch {
		if by[i] != nil {
			a.End = endOf(by[i])
		}
		if !looked && a.End.State == ledger.TicketRefused && len(a.Order.Key) > 0 {
			return errKeysTaken
		}
		a.End.ID, a.End.ProductID, a.End.Run = a.Order.ID, product, a.Run
		a.End.Quantity, a.End.Deliveries = a.Order.Quantity, a.Deliveries
		if a.End.State != ledger.TicketQueued {
			ends = append(ends, a.End)
		}
	}
	if len(ends) == 0 {
		return nil
	}
	insert := tx.InsertEnds
	if g.noInbox[batch[0].Order.Mode] {
		insert = tx.ReplaceEnds
	}
	n, err := insert(time.Now().UnixMicro(), ends)
	if err == nil && n < len(ends) {
		err = errKeysTaken
	}
	return err
}

// takeTickets decides which tickets are sold, and takes the units; the row of a product with a limit is returned.
func (g receiver) takeTickets(tx *sqldb.Tx, product int64, batch []*stock.Ticket) (*sqldb.LimitedRow, error) {
	_, known := g.limits.Load(product)
	if known {
		if l, err := takeLimited(tx, product, batch); l != nil || err != nil {
			return l, err
		}
		g.limits.Delete(product)
	}
	err := g.take(tx, product, batch)
	other := func(t *stock.Ticket) bool { return errors.Is(t.Err, store.ErrOtherWay) }
	if !known && (errors.Is(err, store.ErrOtherWay) || slices.ContainsFunc(batch, other)) {
		g.limits.Store(product, nil)
		err = errLimited
	}
	return nil, err
}

// endOf is the end of a ticket as the group commit has left it. One of another run has none: it is void.
func endOf(t *stock.Ticket) ledger.TicketEnd {
	switch {
	case t.Err == nil:
		return ledger.TicketEnd{State: ledger.TicketSold, OrderID: t.Order.ID, Key: t.Order.Key}
	case errors.Is(t.Err, stock.ErrOtherRun):
		return ledger.TicketEnd{State: ledger.TicketQueued}
	case errors.Is(t.Err, stock.ErrSoldOut):
		return ledger.TicketEnd{State: ledger.TicketRefused, Reason: tickets.SoldOut}
	case errors.Is(t.Err, store.ErrLimit):
		return ledger.TicketEnd{State: ledger.TicketRefused, Reason: tickets.LimitReached}
	}
	return ledger.TicketEnd{State: ledger.TicketRefused, Reason: tickets.Unsupported}
}

// GiveUp implements [tickets.Book].
func (g receiver) GiveUp(product int64, a *tickets.Arrival) error {
	ctx, cancel := stock.Settling(context.Background())
	defer cancel()
	end := ledger.TicketEnd{ID: a.Order.ID, ProductID: product, Run: a.Run, Quantity: a.Order.Quantity,
		State: ledger.TicketFailed, Reason: tickets.Unwritable, Deliveries: a.Deliveries}
	var n int
	err := g.sql.GroupTx(ctx, func(tx *sqldb.Tx) (err error) {
		n, err = tx.InsertEnds(time.Now().UnixMicro(), []ledger.TicketEnd{end})
		return err
	})
	if err != nil {
		return err
	}
	if a.End = end; n > 0 {
		return nil
	}
	_, err = g.endless(product, []*tickets.Arrival{a}) // somebody else has committed it meanwhile
	return err
}

// Ends implements [tickets.Book].
func (g receiver) Ends(ctx context.Context, ids ...string) (map[string]ledger.TicketEnd, error) {
	return g.sql.Ends(ctx, ids...)
}
