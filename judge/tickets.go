package judge

import (
	"cmp"
	"slices"

	"lastitem/contract/api"
	"lastitem/say/text"
)

const (
	ticketSold   = "sold"
	ticketSame   = "same"
	ticketFailed = "failed"
)

// openTickets makes of each 202 what became of its ticket. A ticket that ended with the order of its key is a replay of
// that; one that failed because the schedule wanted it took its units until then, and one that waits may still sell.
func (j *judge) openTickets() {
	t := j.in.Tickets
	if t == nil {
		return
	}
	ends := t.ends()
	queued, told := map[string]bool{}, false
	j.ops = slices.Clone(j.ops)
	for i, op := range j.ops {
		if op.Outcome != OK {
			continue
		}
		told = true
		switch e := ends[op.OrderID]; {
		case e.State == ticketSold:
			j.ops[i].OrderID = cmp.Or(e.OrderID, op.OrderID)
		case e.State == ticketSame:
			j.ops[i].OrderID, j.ops[i].Replayed = e.OrderID, true
		case e.State == ticketFailed && t.Poisoned[op.OrderID]:
			j.ops[i].Outcome = Declined
			j.given = append(j.given, change{op.Call, op.Quantity})
		case e.State == api.TicketQueued:
			queued[op.OrderID] = true
			j.ops[i].Outcome = Unknown
		}
	}
	if !told && len(j.ops) > 0 && !j.in.Directed {
		j.idle(text.Of("no ticket was given"))
	}
	if len(queued) > 0 {
		j.find('X')
		j.each(len(queued), "", text.Of("%d [ticket waits|tickets wait] for [its|their] order for ever"))
	}
	j.units.released = j.units.released || t.Book.Corrected != 0 || len(j.given) > 0 ||
		slices.ContainsFunc(t.Book.Tickets, func(e api.TicketEnd) bool {
			return e.State != ticketSold || cmp.Or(e.OrderID, e.ID) != e.ID // such a mode may put units back, which no row tells
		})
}

func (t *Tickets) ends() map[string]api.TicketEnd {
	ends := make(map[string]api.TicketEnd, len(t.Book.Tickets))
	for _, e := range t.Book.Tickets {
		ends[e.ID] = e
	}
	return ends
}

// look judges both sides by one look, T1 and T2.
func (j *judge) look() {
	t := j.in.Tickets
	if t == nil {
		return
	}
	b := t.Book
	if t.Unread != "" {
		j.lack(text.Of("the two sides could not be compared: %s"), t.Unread)
		return
	}
	switch drift := b.Drift(); {
	case drift < 0:
		j.find('A')
		j.violate("A", text.Of("%d more [unit is|units are] promised than SQL has: the count in Redis is %d, %d [is|are] in "+
			"flight, and the stock in SQL is %d"), -drift, b.Front, b.InFlight-b.Settled, b.Book)
	case drift > 0 && b.Book > 0:
		j.find('L')
		j.r.Leaked = add(j.r.Leaked, drift)
		j.violate("L", text.Of("nobody can buy %d [unit|units] that SQL has: the count in Redis is %d, %d [is|are] in "+
			"flight, and the stock in SQL is %d"), drift, b.Front, b.InFlight-b.Settled, b.Book)
	case drift > 0:
		j.violate("", text.Of("the count in Redis is %d, with %d in flight, while SQL has none left: refused requests took "+
			"units that were not there"), b.Front, b.InFlight-b.Settled)
	}
	sum, want := add(add(b.Front, b.InFlight), b.Passed), add(b.Initial, b.Corrected)
	if sum != want && b.Drift() == 0 { // else the difference has been told
		j.violate("", text.Of("Redis contradicts itself: its count of %d, %d in flight and %d sold are not the %d that "+
			"there were and the %d that were corrected"), b.Front, b.InFlight, b.Passed, b.Initial, b.Corrected)
	}
	if b.Corrected != b.Journal {
		j.violate("", text.Of("the count was corrected by %d, and the journal in SQL says %d"), b.Corrected, b.Journal)
	}
}

// matchTickets holds the ends against the orders, T4.
func (j *judge) matchTickets() {
	t := j.in.Tickets
	if t == nil {
		return
	}
	own := map[string]bool{} // orders that are a ticket's
	lost, twice, redelivered := 0, 0, 0
	for _, e := range t.Book.Tickets {
		order := cmp.Or(e.OrderID, e.ID)
		own[order] = own[order] || e.State == ticketSold || e.State == api.TicketQueued
		if _, there := j.byID[order]; !there && (e.State == ticketSold || e.State == ticketSame) {
			lost++
		}
		if e.Deliveries > 1 {
			redelivered++
		}
	}
	for i, o := range j.rows {
		if o.Mode != j.in.Mode {
			continue
		}
		if !own[o.OrderID] || j.byID[o.OrderID] != i {
			twice++
		}
	}
	if lost > 0 {
		j.find('A')
		j.each(lost, "", text.Of("%d [ticket|tickets] ended as sold without an order"))
	}
	if twice > 0 {
		j.find('D')
		j.each(twice, "", text.Of("%d [order has|orders have] no ticket of [its|their] own: a ticket was consumed twice"))
	}
	if redelivered < t.Redelivered {
		j.idle(text.Of("only %d [ticket was|tickets were] read twice, %d at least must be"), redelivered, t.Redelivered)
	}
}

// hearTold checks that what GET told stays true, T5: an end does not change, nobody is told afterwards that the ticket
// waits or is unknown, and the order is the ticket's.
func (j *judge) hearTold() {
	t := j.in.Tickets
	if t == nil {
		return
	}
	ends := t.ends()
	told := slices.Clone(t.Told)
	slices.SortStableFunc(told, func(a, b TicketOp) int { return cmp.Compare(a.Return, b.Return) })
	first := map[string]TicketOp{}
	changed, doubled, forgotten, foreign := 0, 0, 0, 0
	for _, op := range told {
		before, ended := first[op.ID]
		switch {
		case op.State == "" || op.State == api.TicketQueued:
			if ended && op.Call > before.Return {
				forgotten++
			}
			continue
		case op.Order != "" && op.Order != op.ID && ends[op.ID].OrderID != op.Order:
			foreign++
		}
		switch {
		case !ended:
			first[op.ID] = op
		case op.State == before.State && op.Order == before.Order:
		case op.Order != "" && before.Order != "":
			doubled++
		default:
			changed++
		}
	}
	if doubled > 0 {
		j.find('D')
	}
	if changed+forgotten+foreign > 0 {
		j.find('A')
	}
	j.each(doubled, "", text.Of("%d [ticket was|tickets were] told two orders"))
	j.each(changed, "", text.Of("%d [ticket was|tickets were] told two ends"))
	j.each(forgotten, "", text.Of("%d [ticket was|tickets were] said to wait, or not to exist, after [its|their] "+
		"end had been told"))
	j.each(foreign, "", text.Of("%d [ticket was|tickets were] told an order that is not [its|theirs]"))
}
