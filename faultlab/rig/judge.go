package rig

import (
	"context"
	"errors"
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
	ledger, err := s.Lane.Ledger(ctx)
	if err != nil {
		return judge.Report{}, err
	}
	history, busy := s.History(), 0
	s.decline(history, ledger.Orders)
	if s.Lane.Service.Waits {
		busy = target.InProgress(history)
		history = target.Named(history, ledger.Orders)
	}
	r := judge.Judge(judge.Input{
		Mode: s.ask.Mode, Store: s.store(ledger), Ledger: ledger, History: history, Directed: true,
		Resumed: int64(s.resumed), Bound: s.bound, PerBuyer: s.ask.PerBuyer,
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
