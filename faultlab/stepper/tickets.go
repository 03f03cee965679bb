package stepper

import (
	"context"
	"fmt"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
)

// Lessons about tickets are played on lanes of their own. A client is a buyer, or the replica that writes the orders:
// that one has no request, and its commands come whenever a ticket waits.
var (
	consumers = gear.Equipment{Consume: true, Everyone: true}
	mortal    = gear.Equipment{Consume: true, Pair: stack.Redis}
	// claims is how long a transaction of a consumer may take; what TakeOver makes overdue has waited for longer.
	claims = " SHOP_SETTLE_TIMEOUT=30m"
)

// overdue is the event of a lesson: what a consumer was given has waited for too long.
func overdue(ctx context.Context, p *play, _ *Step) (possible bool, err error) {
	return true, p.lane.TakeOver(ctx)
}

// overwrite is the event of a lesson: a job copies the stock in SQL to Redis.
func overwrite(ctx context.Context, p *play, s *Step) (possible bool, err error) {
	s.Command, s.Said = fmt.Sprintf("redis: SET stock:{%d} %d", p.lane.Product(), p.stock), "OK"
	p.tickets.ran = true
	return true, p.lane.Overwrite(ctx, p.stock)
}

// masterDies is the event of a lesson: the replica, which has heard of no ticket, is promoted.
func masterDies(ctx context.Context, p *play, _ *Step) (possible bool, err error) {
	if p.tickets.lost != nil {
		return false, nil
	}
	p.tickets.lost = map[string]bool{}
	for _, c := range p.clients {
		if c.won() {
			p.tickets.lost[c.request.Op().OrderID] = true
		}
	}
	return true, p.lane.Pair.Failover(ctx)
}

// promised returns the units that are sold, in flight and for sale.
func (p *play) promised() int64 {
	sold := p.orderIDs()
	n := p.tickets.front + int64(len(sold))
	for _, id := range p.tickets.waiting {
		if !slices.Contains(sold, id) {
			n++
		}
	}
	return n
}

func (p *play) orderIDs() (ids []string) {
	for _, o := range p.orders {
		ids = append(ids, short(o.OrderID))
	}
	return ids
}

// reconciled is an aim: the job has run, B has a ticket, and Redis promises as many units as there are.
func reconciled(p *play) bool {
	return p.tickets.ran && p.clients[1].won() && p.promised() == p.lesson.Stock
}

// deliveredTwice is an aim: the ticket of a consumer that died after its COMMIT has ended, and there is one order.
func deliveredTwice(p *play) bool {
	return p.tickets.again && len(p.tickets.waiting) == 0 && len(p.orders) == 1
}

// saved is an aim: a ticket that only the dead master knew has its order.
func saved(p *play) bool {
	return slices.ContainsFunc(p.orders, func(o api.Order) bool { return p.tickets.lost[o.OrderID] })
}
