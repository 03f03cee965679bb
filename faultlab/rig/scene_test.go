package rig

import (
	"context"
	"strings"
	"testing"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// judged returns the verdict on a scene in which one of two units was sold and nothing went wrong.
func judged(t *testing.T, accuse func(s *Scene)) audit.Report {
	t.Helper()
	left := int64(1)
	l := &Lane{A: &Actor{}, B: &Actor{}, C: &Actor{}, Service: Service{Ledger: func(context.Context, *Lane) (*api.Ledger, error) {
		return &api.Ledger{
			ProductID: 1, Initial: map[api.Store]int64{api.SQL: 2}, Stock: map[api.Store]int64{api.SQL: 1},
			Orders: []api.Order{{OrderID: "a", ProductID: 1, Quantity: 1, Remaining: &left, Store: api.SQL, Mode: "m", Key: "k"}},
		}, nil
	}}}
	s := &Scene{Lane: l, ask: Ask{Mode: "m", Store: api.SQL, Product: 1}, began: time.Now()}
	done := make(chan struct{})
	close(done)
	s.ops = []*Pending{{done: done, op: audit.Op{Call: 1, Return: 2, ProductID: 1, Quantity: 1, Key: "k", Outcome: audit.OK, OrderID: "a", Remaining: &left}}}
	accuse(s)
	r, err := s.Judge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Accuse adds a letter, and its reason, to what the judge finds; without Accuse the judge finds nothing in this scene.
func TestAccuse(t *testing.T) {
	t.Parallel()
	if r := judged(t, func(*Scene) {}); r.Verdict != audit.Exact || r.Found != "" {
		t.Errorf("without Accuse: %s %q, want exact: %v %v", r.Verdict, r.Found, r.Violations, r.Missing)
	}
	r := judged(t, func(s *Scene) { s.Accuse("X", "nobody woke up") })
	if r.Verdict != audit.Broken || r.Found != "X" || !strings.Contains(strings.Join(r.Violations, " "), "nobody woke up") {
		t.Errorf("accused of X: %s %q %q, want broken, X and the reason", r.Verdict, r.Found, r.Violations)
	}
	r = judged(t, func(s *Scene) {
		s.ops[0].op.OrderID = "lost"
		s.Accuse("A", "no such order")
	})
	if r.Verdict != audit.Broken || strings.Count(r.Found, "A") != 1 {
		t.Errorf("accused of A, which the judge has found too: %s %q, want broken, and A once", r.Verdict, r.Found)
	}
}
