package fault

import (
	"context"
	"errors"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// The variants of an expiry: what A does, held at each of its commands. In the variant "" it answers a payment that has
// begun before the deadline.
const (
	latePayment   = "late-payment"   // the payment begins after the deadline
	lateRehold    = "late-rehold"    // and the product lets a late payment take the units again
	lateCancel    = "late-cancel"    // a cancel that begins after the deadline
	killedPayment = "killed-payment" // A is killed before the deadline, and the payment repeated after it
	twoSweepers   = "two-sweepers"   // A sweeps too, and two reservations are overdue
	killedSweeper = "killed-sweeper" // and A is killed in its sweep

	extended        = "extended"         // A extends it, from before the deadline on
	lateExtension   = "late-extension"   // an extension that begins after the deadline
	killedExtension = "killed-extension" // A is killed before the deadline, and the extension repeated after it
	partCancelled   = "part-cancelled"   // A cancels one of three units, from before the deadline on
	latePart        = "late-part"        // and from after it on
	cartPayment     = "cart-payment"     // the reservations are of two products, and paid before the deadline
	cartRehold      = "cart-rehold"      // or late, and may take the units again
	cartSweepers    = "cart-sweepers"    // or swept by A too
	limitedRehold   = "limited-rehold"   // A pays late, and the rival has the buyer's only unit
)

// expiring says what A does in each variant.
var expiring = map[string]rig.About{
	"":            {Kind: rig.Confirm},
	latePayment:   {Kind: rig.Confirm, Overdue: true},
	lateRehold:    {Kind: rig.Confirm, Overdue: true, Rehold: true},
	lateCancel:    {Kind: rig.Cancel, Overdue: true},
	killedPayment: {Kind: rig.Confirm},
	twoSweepers:   {Kind: rig.SweepDue, Overdue: true, Batch: true},
	killedSweeper: {Kind: rig.SweepDue, Overdue: true, Batch: true},

	extended:        {Kind: rig.Extend},
	lateExtension:   {Kind: rig.Extend, Overdue: true},
	killedExtension: {Kind: rig.Extend},
	partCancelled:   {Kind: rig.Cancel, Part: 1},
	latePart:        {Kind: rig.Cancel, Overdue: true, Part: 1},
	cartPayment:     {Kind: rig.Confirm, Cart: true},
	cartRehold:      {Kind: rig.Confirm, Overdue: true, Rehold: true, Cart: true},
	cartSweepers:    {Kind: rig.SweepDue, Overdue: true, Cart: true},
	limitedRehold:   {Kind: rig.Confirm, Overdue: true, Rehold: true, Limited: true},
}

// Expiry lets a reservation's deadline pass while a request about it, or a sweep, is on its way, has C sweep, and has a
// rival buy the unit. In a pair C's sweep is held too, while A goes on and the rival asks.
var Expiry = Fault{
	Name: api.Expiry,
	Title: text.Of("the deadline of a reservation passes while its payment is on the way, a sweep ends it, and a " +
		"rival buys the unit"),
	Cuts: bothCuts,
	Variants: func(m api.Mode) []string {
		all := []string{"", latePayment, lateRehold, lateCancel, killedPayment, twoSweepers, killedSweeper, extended,
			lateExtension, killedExtension, partCancelled, latePart, limitedRehold}
		if m.Cart {
			all = append(all, cartPayment, cartRehold, cartSweepers)
		}
		return all
	},
	Asks:  func(variant string) rig.About { return expiring[variant] },
	Pairs: true,
	Rivals: func(variant string) (about rig.About) {
		if !kills(variant) { // else nobody is left to meet C's sweep
			about = expiring[variant]
			about.Kind, about.Overdue = rig.SweepDue, true
		}
		return about
	},
	Lane: gear.Equipment{Sweep: true},
	Strike: func(ctx context.Context, p *Play) error {
		about := p.About()
		h, err := p.Reservations.First(ctx, rig.Short)
		if err != nil {
			return err
		}
		a, held, err := p.Reservations.Hold(ctx, p.Lane.A, *p.A, about.Kind, h, 2*rig.Short)
		if err == nil && kills(p.Variant) {
			err = p.kill(ctx, held)
		}
		if err == nil {
			err = h.Overdue(ctx)
		}
		if err != nil {
			return err
		}
		p.Note(p.Lane.C, rig.Struck, "the deadline has passed, a sweep begins")
		sweep, err := p.Reservations.Sweep(ctx, p.Lane.C, p.B)
		if err != nil {
			return err
		}
		last, held := p.Lane.A, held
		if p.B != nil {
			if err := p.passTo(ctx, a, held); err != nil {
				return err
			}
			if err := p.Reservations.FollowSweep(ctx, p.Lane.C, p.B, sweep); err != nil {
				return err
			}
			last, held = p.Lane.C, sweep
		}
		if a != nil && kills(p.Variant) {
			if err := p.askAgain(ctx, a); err != nil {
				return err
			}
		}
		b := p.Reservations.Ask(p.Lane.B, judge.Reserve, rig.Reservation{}, rig.Long)
		p.Settle(ctx, p.Lane.B, b)
		paid := p.pay(b)
		if paid != nil {
			p.Settle(ctx, p.Lane.B, paid)
		}
		if !kills(p.Variant) {
			p.pass(last, held)
		}
		if err := errors.Join(wait(ctx, a), wait(ctx, b)); err != nil {
			return err
		}
		if paid == nil {
			paid = p.pay(b) // it has waited for A
		}
		if about.Kind == rig.Extend {
			if err := a.Made().Overdue(ctx); err != nil {
				return err
			}
		}
		return p.buyLast(ctx, paid)
	},
}

func kills(variant string) bool {
	return variant == killedPayment || variant == killedSweeper || variant == killedExtension
}

// askAgain repeats A's request on B.
func (p *Play) askAgain(ctx context.Context, a *rig.Pending) error {
	if err := a.Wait(ctx); err != nil {
		return err
	}
	return p.Reservations.Again(p.Lane.B, a).Wait(ctx)
}

// passTo lets A go on to its end, or to where it has to wait.
func (p *Play) passTo(ctx context.Context, a *rig.Pending, held *wire.Hold) error {
	p.pass(p.Lane.A, held)
	if a == nil {
		return p.Reservations.FollowSweep(ctx, p.Lane.A, nil, nil)
	}
	p.Settle(ctx, p.Lane.A, a)
	return nil
}

// pay has the rival pay for what its request has reserved; nil = it has not, yet.
func (p *Play) pay(b *rig.Pending) *rig.Pending {
	select {
	case <-b.Done():
		if b.Op().Outcome == judge.OK {
			return p.Reservations.Ask(p.Lane.B, judge.Confirm, b.Made(), 0)
		}
	default:
	}
	return nil
}

// buyLast has a last customer reserve and pay when the rival has paid and a sweep is over; of somebody's service he
// buys.
func (p *Play) buyLast(ctx context.Context, paid *rig.Pending) error {
	if p.Lane.Service.Waits {
		return p.next(ctx)
	}
	if err := wait(ctx, paid); err != nil {
		return err
	}
	if p.Lane.Sweeps() {
		if err := p.Reservations.SweepAll(ctx); err != nil {
			return err
		}
	}
	b := p.Reservations.Ask(p.Lane.B, judge.Reserve, rig.Reservation{}, rig.Long)
	if err := b.Wait(ctx); err != nil {
		return err
	}
	return wait(ctx, p.pay(b))
}

// wait waits for an answer, if there was a request.
func wait(ctx context.Context, asked *rig.Pending) error {
	if asked == nil {
		return nil
	}
	return asked.Wait(ctx)
}
