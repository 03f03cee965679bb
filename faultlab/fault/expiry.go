package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/text"
)

// The variants of an expiry: what A asks for after the deadline, held at each of its commands. In the variant "" it is
// a payment that has begun before it.
const (
	latePayment = "late-payment" // its payment begins after the deadline
	lateRehold  = "late-rehold"  // and the product lets a late payment take the units again
	lateCancel  = "late-cancel"  // a second way to end what the sweep ends: two sweepers
	killed      = "killed"       // and this one is killed there
)

// Expiry lets a reservation's deadline pass while a request about it is on its way, ends the reservation by a sweep,
// and has a rival buy the unit.
var Expiry = Fault{
	Name: api.Expiry,
	Title: text.Of("the deadline of a reservation passes while its payment is on the way, a sweep ends it, and a " +
		"rival buys the unit"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{"", latePayment, lateRehold, lateCancel, killed} },
	Asks: func(variant string) rig.About {
		about := rig.About{Kind: audit.Confirm, Overdue: variant != "", Rehold: variant == lateRehold}
		if variant == lateCancel || variant == killed {
			about.Kind = audit.Cancel
		}
		return about
	},
	Lane: rig.Equipment{Sweep: true},
	Strike: func(ctx context.Context, p *Play) error {
		goOn, err := p.HoldSweep(ctx)
		if err != nil {
			return err
		}
		defer goOn()
		about, length := p.About(), rig.Short
		if about.Overdue {
			length = rig.Brief
		}
		h, err := p.Reserve(ctx, p.Lane.B, length)
		if err == nil && about.Overdue {
			err = h.Overdue(ctx)
		}
		if err != nil {
			return err
		}
		a, held, err := p.HoldAbout(ctx, p.Lane.A, *p.A, about.Kind, h)
		if err != nil {
			return err
		}
		if err := h.Overdue(ctx); err != nil {
			return err
		}
		if p.Variant == killed {
			if err := p.kill(ctx, held); err != nil {
				return err
			}
		}
		p.Note(p.Lane.C, rig.Struck, "the deadline has passed, a sweep begins")
		goOn()
		if err := p.Sweep(ctx); err != nil {
			return err
		}
		b := p.AskHold(p.Lane.B, audit.Reserve, rig.Reservation{}, rig.Long)
		p.Settle(ctx, p.Lane.B, b)
		paid := p.pay(b)
		if paid != nil {
			p.Settle(ctx, p.Lane.B, paid)
		}
		if p.Variant != killed {
			p.pass(p.Lane.A, held)
		}
		if err := answers(ctx, []*rig.Pending{a, b}); err != nil {
			return err
		}
		if paid == nil {
			paid = p.pay(b) // it has waited for A
		}
		return p.buyLast(ctx, paid)
	},
}

// pay has the rival pay for what its request has reserved; nil = it has not, yet.
func (p *Play) pay(b *rig.Pending) *rig.Pending {
	select {
	case <-b.Done():
		if b.Op().Outcome == audit.OK {
			return p.AskHold(p.Lane.B, audit.Confirm, b.Made(), 0)
		}
	default:
	}
	return nil
}

// buyLast has a last customer reserve and pay when the rival has paid and a sweep is over.
func (p *Play) buyLast(ctx context.Context, paid *rig.Pending) error {
	if err := wait(ctx, paid); err != nil {
		return err
	}
	if p.Lane.Sweeps() {
		if err := p.Sweep(ctx); err != nil {
			return err
		}
	}
	b := p.AskHold(p.Lane.B, audit.Reserve, rig.Reservation{}, rig.Long)
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
