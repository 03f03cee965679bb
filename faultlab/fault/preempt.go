package fault

import (
	"cmp"
	"context"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/stack/wire"
)

// overtake has B served while A is held, and then lets A go on. Where B has a position, B is held there until A has
// ended.
func (p *Play) overtake(ctx context.Context, a *rig.Pending, pass func() error) error {
	if p.B != nil {
		return p.rivalHeld(ctx, p.Lane.B, a, p.Outlive, pass)
	}
	b, err := p.rivalServed(ctx)
	if err != nil {
		return err
	}
	if err := pass(); err != nil {
		return err
	}
	return p.meet(ctx, a, b)
}

// rivalServed has B ask until it is served, and notes for how long it was kept out if it was not. A rival does not wait
// for the victim's job, which may be given to another worker all the same: it is left for as long as a lock.
func (p *Play) rivalServed(ctx context.Context) (*rig.Pending, error) {
	began := time.Now()
	b, err := p.AskUntilServed(ctx, p.Lane.B, p.Outlive)
	if b.KeptOut(p.Lane.B) {
		p.KeptOut = max(p.KeptOut, time.Since(began))
	}
	return b, cmp.Or(err, rig.OutlastJobs(ctx, p.Lane, began.Add(p.Outlive)))
}

// stop is a request that is to be held: it is held at its position, on its way there, or answered.
type stop struct {
	actor *rig.Actor
	at    rig.Position
	asked *rig.Pending
	hold  *wire.Hold
	told  bool // the story says that it is held
}

// stopAt sends a request and waits until it is held or answered, or has to wait for another request. wait bounds how
// long it may wait for a lock.
func (p *Play) stopAt(ctx context.Context, actor *rig.Actor, at rig.Position, wait time.Duration) (*stop, error) {
	asked, hold, err := p.HoldOrYield(ctx, actor, at, p.NewKey(), wait)
	s := &stop{actor: actor, at: at, asked: asked, hold: hold}
	s.told = err == nil && s.held()
	return s, err
}

// follow waits until a request that had to wait for another one is held or answered, or has to wait for the next one.
func (p *Play) follow(ctx context.Context, s *stop) {
	if !s.told {
		p.Yield(ctx, s.actor, s.at, s.asked, s.hold, 0)
		s.told = s.held()
	}
}

// held says whether the request is held at its position now.
func (s *stop) held() bool {
	select {
	case <-s.hold.Reached():
		return true
	default:
		return false
	}
}

// goOn lets the request go on from its position, or pass it without being held.
func (p *Play) goOn(s *stop) {
	if s.held() {
		p.pass(s.actor, s.hold)
		return
	}
	s.hold.Cancel()
}

// rivalHeld runs the rival up to its position, then A to its end, then the rival to its end: two preemptions. A rival
// that has to wait for A yields to it, and is held at its position later, if it gets there. With a position for C there
// are three preemptions: see threeHeld.
func (p *Play) rivalHeld(ctx context.Context, rival *rig.Actor, a *rig.Pending, wait time.Duration,
	pass func() error) error {
	began := time.Now()
	b, err := p.stopAt(ctx, rival, *p.B, wait)
	if err != nil {
		return err
	}
	if !b.held() && b.asked.KeptOut(rival) {
		p.KeptOut = time.Since(began)
	}
	if rival == p.Lane.A && !b.held() {
		p.goOn(b) // else A's own commands would be held there
	}
	if p.C != nil {
		return p.threeHeld(ctx, a, b, wait, pass)
	}
	if err := pass(); err != nil {
		return err
	}
	bounded, cancel := p.whileRivalHolds(ctx)
	defer cancel()
	p.Settle(bounded, p.Lane.A, a)
	p.follow(bounded, b)
	c := p.Ask(p.Lane.C, p.NewKey())
	p.Settle(bounded, p.Lane.C, c)
	p.goOn(b)
	return p.meet(ctx, a, b.asked, c)
}

// threeHeld runs C up to its position while A and B are held, and then lets each go on as far as it can, in the order
// of the schedule. A request that had to wait for another one is held at its position later, if it gets there before
// its turn. If A and B are on one replica (threads), C is there too: on another replica it would be the fault replicas.
func (p *Play) threeHeld(ctx context.Context, a *rig.Pending, b *stop, wait time.Duration, pass func() error) error {
	third := p.Lane.C
	if b.actor == p.Lane.A {
		third = p.Lane.A
	}
	c, err := p.stopAt(ctx, third, *p.C, wait)
	if err != nil {
		return err
	}
	if third == p.Lane.A && !c.held() {
		p.goOn(c) // see rivalHeld
	}
	bounded, cancel := p.whileRivalHolds(ctx)
	defer cancel()
	waiting := map[rune]*stop{'B': b, 'C': c}
	for _, who := range p.order() {
		s := waiting[who]
		delete(waiting, who)
		if s == nil {
			if err := pass(); err != nil {
				return err
			}
			p.Settle(bounded, p.Lane.A, a)
		} else {
			p.goOn(s)
			p.Settle(bounded, s.actor, s.asked)
		}
		for _, next := range p.order() {
			if other := waiting[next]; other != nil {
				p.follow(bounded, other)
			}
		}
	}
	return p.meet(ctx, a, b.asked, c.asked)
}

// inTurn is the order of three held requests if the schedule names none.
const inTurn = "ABC"

// Orders are the orders in which three held requests can go on.
var Orders = []string{inTurn, "ACB", "BAC", "BCA", "CAB", "CBA"}

func (p *Play) order() string {
	if p.Order == "" {
		return inTurn
	}
	return p.Order
}

// whileRivalHolds bounds how long a held rival waits for the others. A service that decides by itself how long a
// request waits for a lock would keep C waiting until the rival's lock has expired too, and that would prove nothing
// about the victim. lastitem's own modes fail at once instead.
func (p *Play) whileRivalHolds(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Lane.Service.Waits {
		return context.WithTimeout(ctx, p.Lane.TTL/2)
	}
	return context.WithCancel(ctx)
}
