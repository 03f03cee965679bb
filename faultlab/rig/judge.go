package rig

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/target"
)

// Judge waits until all is quiet, reads the ledger once and judges.
func (s *Scene) Judge(ctx context.Context) (judge.Report, error) {
	if err := errors.Join(s.Lane.Quiesce(ctx), s.Lane.unread()); err != nil {
		return judge.Report{}, err
	}
	s.judged = time.Now()
	if s.ask.About.Kind != "" {
		return s.Reservations.judge(ctx)
	}
	history := s.History()
	ledger, err := rested(ctx, s, history)
	if err != nil {
		return judge.Report{}, err
	}
	busy := 0
	for i, op := range history { // a promise is kept if the order is there
		if op.Outcome == judge.OK && s.ops[i].promised && !slices.ContainsFunc(ledger.Orders, func(o api.Order) bool {
			return o.OrderID == op.OrderID
		}) {
			history[i].Outcome, history[i].OrderID = judge.Unknown, ""
		}
	}
	s.decline(history, ledger.Orders)
	if s.Lane.Service.Waits {
		busy = target.InProgress(history)
		history = target.Named(history, ledger.Orders)
	}
	r := judge.Judge(judge.Input{
		Mode: s.ask.Mode, Store: s.store(ledger), Ledger: ledger, History: history, Directed: true,
		Resumed: int64(s.resumed), Bound: s.bound, PerBuyer: s.ask.PerBuyer, Adjusts: adjusted(s),
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
	return r, nil
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
// order with their key shows that they did or, where no order shows a key, more orders than answers.
func (s *Scene) decline(history []judge.Op, orders []api.Order) {
	sold, keyed, spare := map[string]bool{}, false, len(orders)
	for _, o := range orders {
		sold[o.Key], keyed = true, keyed || o.Key != ""
	}
	for i, op := range history {
		if op.Outcome == judge.OK && !op.Replayed || op.Outcome == judge.Unknown && !s.ops[i].stuck {
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

// rested reads the ledger. Where replicas work for requests after the answer, and orders are missing though there is
// stock, those that are dead start again, and the ledger must be at rest: a job may be taken up again.
func rested(ctx context.Context, s *Scene, history []judge.Op) (*api.Ledger, error) {
	l := s.Lane
	ledger, err := l.Ledger(ctx)
	accepted := 0
	for _, op := range history {
		if op.Outcome == judge.OK {
			accepted++
		}
	}
	if err != nil || l.Service.learnt.rest() == 0 || len(ledger.Orders) >= accepted || ledger.Stock[s.store(ledger)] <= 0 {
		return ledger, err
	}
	if err := l.Heal(ctx); err != nil {
		return nil, err
	}
	ledger, _, err = target.AtRest(ctx, l.Ledger, l.Service.Gone, int64(accepted), time.Now(),
		2*l.TTL+l.Service.learnt.rest())
	return ledger, err
}
