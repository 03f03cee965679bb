package rig

import (
	"context"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// A stuck request that bought something has an unknown outcome; nobody told its client that nothing happened. The others count as turned
// away.
func TestDecline(t *testing.T) {
	t.Parallel()
	order := func(key string) api.Order { return api.Order{Key: key, Quantity: 1} }
	for name, c := range map[string]struct {
		orders []api.Order
		want   []audit.Outcome // of an ok, a lost answer, and two stuck requests a and b
	}{
		"nobody bought": {nil, []audit.Outcome{audit.OK, audit.Unknown, audit.Declined, audit.Declined}},
		"b bought":      {[]api.Order{order("ok"), order("b")}, []audit.Outcome{audit.OK, audit.Unknown, audit.Declined, audit.Unknown}},
		"by the number": {[]api.Order{order(""), order(""), order("")}, []audit.Outcome{audit.OK, audit.Unknown, audit.Unknown, audit.Declined}},
	} {
		s := &Scene{}
		for i, key := range []string{"ok", "lost", "a", "b"} {
			p := &Pending{stuck: i > 1, op: audit.Op{Key: key, Quantity: 1, Outcome: audit.Unknown}}
			if i == 0 {
				p.op.Outcome = audit.OK
			}
			s.ops = append(s.ops, p)
		}
		history := s.History()
		s.decline(history, c.orders)
		for i, want := range c.want {
			if history[i].Outcome != want || (want == audit.Declined) != (history[i].Code == api.LockBusy) {
				t.Errorf("%s: request %d is %s %q, want %s", name, i, history[i].Outcome, history[i].Code, want)
			}
		}
	}
}

// A service whose answers have no order id and whose orders have no key: a repeated request that is sold again is a double charge.
func TestRepeatedWithoutKeys(t *testing.T) {
	t.Parallel()
	l := &Lane{A: &Actor{Name: "A"}, B: &Actor{Name: "B"}, C: &Actor{Name: "C"}}
	l.Service.Waits = true
	l.Service.Ledger = func(context.Context, *Lane) (*api.Ledger, error) {
		ledger := &api.Ledger{ProductID: 1001, Initial: map[api.Store]int64{theirStore: 10}, Stock: map[api.Store]int64{theirStore: 7}}
		for _, id := range []string{"1", "2", "3"} {
			ledger.Orders = append(ledger.Orders, api.Order{OrderID: id, ProductID: 1001, Quantity: 1, Store: theirStore})
		}
		return ledger, nil
	}
	s := &Scene{Lane: l, ask: Ask{Store: theirStore}, began: time.Now()}
	for i, key := range []string{"k", "k", "another"} {
		call := int64(20 * i)
		s.ops = append(s.ops, &Pending{op: audit.Op{Client: i, Call: call, Return: call + 10, ProductID: 1001, Quantity: 1, Key: key, Outcome: audit.OK}})
	}
	s.GiveUp(s.ops[0])
	r, err := s.Judge(t.Context())
	if err != nil || r.Found != "D" {
		t.Errorf("Judge() = %v, %s; want D", err, r.Text("en"))
	}
}
