package rig

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

// Judge waits until all is quiet, reads the ledger once and judges.
func (s *Scene) Judge(ctx context.Context) (judge.Report, error) {
	if consumes(s.Lane) {
		if err := s.Tickets.drain(ctx); err != nil {
			return judge.Report{}, err
		}
	}
	if err := errors.Join(s.Lane.Quiesce(ctx), s.Lane.unread()); err != nil {
		return judge.Report{}, err
	}
	s.judged = time.Now()
	if s.ask.About.Kind != "" && !consumes(s.Lane) && !s.Lane.Service.Waits {
		return s.Reservations.judge(ctx)
	}
	history := s.History()
	ledger, err := rested(ctx, s, history)
	if err != nil {
		return judge.Report{}, err
	}
	busy := 0
	ends := orderEnds(s)
	for i, op := range history { // a promise is kept if the order is there, or was
		if op.Outcome == judge.OK && s.ops[i].promised && !Stands(ledger, op.OrderID) &&
			!slices.ContainsFunc(ends, func(e judge.ReservationOp) bool { return e.MayCancel() && e.OrderID == op.OrderID }) {
			history[i].Outcome, history[i].OrderID = judge.Unknown, ""
		}
	}
	var tickets *judge.Tickets // nil = the lane sells none
	if consumes(s.Lane) {
		if tickets, err = s.Tickets.read(ctx); err != nil {
			return judge.Report{}, err
		}
	}
	s.decline(history, ledger.Orders)
	if s.Lane.Service.Waits {
		told(history, ledger)
		busy = target.InProgress(history)
		for _, p := range s.ops {
			if p.busy {
				busy++
			}
		}
		history = target.Named(history, ledger.Orders)
	}
	r := judge.Judge(judge.Input{
		Mode: s.ask.Mode, Store: s.store(ledger), Ledger: ledger, History: history, Directed: true,
		Resumed: int64(s.resumed), Bound: s.bound, PerBuyer: s.ask.PerBuyer, Adjusts: adjusted(s),
		Tickets: tickets, Cancels: ends,
	})
	r.BusyKeys = busy
	service, seen := s.Lane.Service, s.seen()
	twice := service.Waits && soldTwice(seen) || service.Keyless && moreThanCustomers(seen, ledger.Orders)
	if twice && !strings.Contains(r.Found, "D") {
		s.Accuse("D", "one request was sold twice: the service made an order of its repetition too")
	}
	if s.accused != "" {
		if !strings.Contains(r.Found, s.accused) {
			r.Found = strings.TrimSpace(r.Found + " " + s.accused)
		}
		r.Verdict, r.Violations = judge.Broken, append(r.Violations, s.why)
	}
	if service.Waits && r.BadRefusals > 0 {
		r.Violations = append(r.Violations, sayBusy(s.ops))
	}
	return r, nil
}

// orderEnds are the requests that cancel or ship orders, as the clients saw them.
func orderEnds(s *Scene) (ops []judge.ReservationOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.endings {
		op := p.hold
		if p.promised { // it may still come
			op.Outcome = judge.Unknown
		}
		ops = append(ops, op)
	}
	return ops
}

// sayBusy says what settles whether a refusal, as it came, is one.
func sayBusy(ops []*Pending) string {
	i := slices.IndexFunc(ops, func(p *Pending) bool { return p.op.Outcome == judge.Refused })
	return text.Of("if%s means busy or sold before, and not sold out, give --declined with its status, and " +
		"--declined-body or --refused-body where both have it").With(ops[i].shown).En
}

// told makes the refusals of repeated keys that name an order which stands what they are: it was sold, and they tell.
func told(ops []judge.Op, ledger *api.Ledger) {
	for i, op := range ops {
		if op.Outcome != judge.Refused || op.Key == "" || !Stands(ledger, op.OrderID) {
			continue
		}
		if slices.ContainsFunc(ops, func(o judge.Op) bool { return o.Key == op.Key && o.Call < op.Call }) {
			ops[i].Outcome, ops[i].Code = judge.OK, ""
		}
	}
}

// Stands says whether the books have an order.
func Stands(ledger *api.Ledger, id string) bool {
	return slices.ContainsFunc(ledger.Orders, func(o api.Order) bool { return o.OrderID == id })
}

// store is where the count lives.
func (s *Scene) store(l *api.Ledger) api.Store {
	if s.ask.Store != "" {
		return s.ask.Store
	}
	for store := range l.Initial {
		return store
	}
	return ""
}

// seen returns all answers, including those for which the client no longer waited.
func (s *Scene) seen() []judge.Op {
	ops := s.History()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.ops {
		if p.givenUp != nil {
			ops[i] = *p.givenUp
		}
	}
	return ops
}

// decline makes the stuck requests that bought nothing declined, as if they had been told that the lock is busy: an
// order with their key shows that they did or, where no order shows a key, more orders than answers. An answer whose
// order is gone, as a cancelled one is, accounts for none.
func (s *Scene) decline(history []judge.Op, orders []api.Order) {
	sold, stands, keyed, spare := map[string]bool{}, map[string]bool{"": true}, false, len(orders)
	for _, o := range orders {
		sold[o.Key], stands[o.OrderID], keyed = true, true, keyed || o.Key != ""
	}
	for i, op := range history {
		if op.Outcome == judge.OK && !op.Replayed && stands[op.OrderID] ||
			op.Outcome == judge.Unknown && !s.ops[i].stuck {
			spare--
		}
	}
	for i := range history {
		switch {
		case !s.ops[i].stuck || keyed && sold[history[i].Key]:
		case !keyed && spare > 0:
			spare--
		default:
			history[i].Outcome, history[i].Code = judge.Declined, api.LockBusy
		}
	}
}

// moreThanCustomers says whether there are more orders than customers who may have one, if a customer repeated a
// request: only then two requests have one key. It needs no name of an order, neither in the answers nor by key.
func moreThanCustomers(seen []judge.Op, orders []api.Order) bool {
	customers, repeated := map[string]bool{}, false
	for _, op := range seen {
		if op.Outcome == judge.OK || op.Outcome == judge.Unknown {
			repeated = repeated || customers[op.Key]
			customers[op.Key] = true
		}
	}
	return repeated && len(orders) > len(customers)
}

// soldTwice says whether one key was answered with two orders. The lab has seen both answers, even one for which the
// client no longer waited; the ledger shows the second order only if orders have keys.
func soldTwice(seen []judge.Op) bool {
	orders := map[string]string{}
	for _, op := range seen {
		if op.Outcome != judge.OK || op.Key == "" || op.OrderID == "" {
			continue
		}
		if first, there := orders[op.Key]; there && first != op.OrderID {
			return true
		}
		orders[op.Key] = op.OrderID
	}
	return false
}

// settleFor is how long the books of a service that is not ours are read again where nobody has said how long.
const settleFor = 5 * time.Second

// rested reads the ledger when it counts. Of a service that is not ours it is read again
//
//   - where replicas work for requests after the answer, and orders are missing though there is stock: it must be at
//     rest, as a job may be taken up again;
//   - where units are missing, until they add up: for Service.Settle, or for settleFor if replicas work by themselves.
//     Then the units that are still missing are Unsettled;
//   - where a replica died and others work by themselves, for just as long: what was done may be done again.
//
// Before that the dead start again.
func rested(ctx context.Context, s *Scene, history []judge.Op) (*api.Ledger, error) {
	l, x := s.Lane, s.Lane.Service.learnt
	ledger, err := l.Ledger(ctx)
	accepted := 0
	for _, op := range history {
		if op.Outcome == judge.OK {
			accepted++
		}
	}
	if slices.ContainsFunc(orderEnds(s), func(op judge.ReservationOp) bool {
		return op.Kind == Cancel && op.Outcome == judge.OK
	}) {
		accepted-- // a scene cancels one order
	}
	late := func() bool {
		return x.rest() > 0 && len(ledger.Orders) < accepted && ledger.Stock[s.store(ledger)] > 0
	}
	missing := func() bool {
		left := ledger.Stock[s.store(ledger)]
		return left >= 0 && ledger.Initial[s.store(ledger)]-left > l.Service.Gone(ledger)
	}
	died := slices.ContainsFunc(s.Events(), func(e Event) bool { return e.What == Killed || e.What == Broken })
	if err != nil || !l.Service.Waits || !died && !late() && !missing() {
		return ledger, err
	}
	settle := cmp.Or(l.Service.Settle, settleFor)
	works := l.worksAlone(ctx, settle)
	if !works && l.Service.Settle == 0 && !late() {
		return ledger, nil
	}
	if err := l.Heal(ctx); err != nil {
		return nil, err
	}
	if late() {
		ledger, _, err = target.AtRest(ctx, l.Ledger, l.Service.Gone, int64(accepted), time.Now(), 2*l.TTL+x.rest())
	}
	end := time.Now()
	if works || l.Service.Settle > 0 {
		end = end.Add(settle)
	}
	for err == nil && (died && works || missing() || ledger.Moved) && time.Now().Before(end) {
		if err = wait(ctx, 5*settling); err == nil {
			ledger, err = l.Ledger(ctx)
		}
	}
	s.Unsettled = err == nil && works && l.Service.Settle == 0 && missing()
	return ledger, err
}
