package rig

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// Stock is what a schedule begins with where it does not say otherwise: enough for all who ask, so that a refusal is
// always wrong.
const Stock = 10

// Scene is one schedule on a lane, from the stock's reset to the judge. Its methods are for one goroutine.
type Scene struct {
	Lane *Lane
	ask  Ask

	began time.Time
	since int64 // calls with a higher number belong to the scene
	keys  int

	resumed time.Duration // when the fault was over; see judge.Input
	judged  time.Time     // when the judge began to read the ledger; zero = not yet
	bound   time.Duration

	ended string // see Ended

	accused string // letters added by Accuse
	why     string

	mu     sync.Mutex
	ops    []*Pending
	events []Event
}

// NewScene resets the lane and begins a schedule.
func (l *Lane) NewScene(ctx context.Context, ask Ask) (*Scene, error) {
	if err := l.Reset(ctx, ask); err != nil {
		return nil, err
	}
	return l.scene(ask), nil
}

func (l *Lane) scene(ask Ask) *Scene {
	ask.Product = l.Product()
	return &Scene{Lane: l, ask: ask, began: time.Now(), since: wire.LastID()}
}

func (s *Scene) now() time.Duration { return time.Since(s.began) }

// About is what the victim asks for.
func (s *Scene) About() About { return s.ask.About }

// Over says that the fault is over: whatever a dead holder held must be free when bound has passed.
func (s *Scene) Over(bound time.Duration) { s.resumed, s.bound = s.now(), bound }

// Accuse makes Judge report a letter, and the reason, that ledger and history cannot show.
func (s *Scene) Accuse(letter, why string) { s.accused, s.why = letter, why }

// Judge waits until all is quiet, reads the ledger once and judges.
func (s *Scene) Judge(ctx context.Context) (judge.Report, error) {
	if err := errors.Join(s.Lane.Quiesce(ctx), s.Lane.unread()); err != nil {
		return judge.Report{}, err
	}
	s.judged = time.Now()
	if s.ask.About.Kind != "" {
		return s.judgeReservations(ctx)
	}
	ledger, err := s.Lane.Ledger(ctx)
	if err != nil {
		return judge.Report{}, err
	}
	history := s.History()
	s.decline(history, ledger.Orders)
	if s.Lane.Service.Waits {
		history = target.Named(history, ledger.Orders)
	}
	r := judge.Judge(judge.Input{
		Mode: s.ask.Mode, Store: s.store(ledger), Ledger: ledger, History: history, Directed: true,
		Resumed: int64(s.resumed), Bound: s.bound, PerBuyer: s.ask.PerBuyer,
	})
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

// History is what the clients saw.
func (s *Scene) History() []judge.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := make([]judge.Op, len(s.ops))
	for i, p := range s.ops {
		ops[i] = p.op
	}
	return ops
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

// GiveUp makes the outcome of a request unknown to its client, as if the answer had been lost on its way.
func (s *Scene) GiveUp(p *Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := p.op
	p.givenUp = &answered
	p.op.Outcome, p.op.OrderID, p.op.Remaining, p.op.Code = judge.Unknown, "", nil, ""
}
