package fault

import (
	"context"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// crashed is the variant in which the first replica is killed, and the request repeated when its locks have run out: a
// service that stores its answer after the sale sells twice, one whose key says "running" for ever never sells.
const crashed = "crashed"

// Retry repeats a request with its key on another replica, because its client gave up waiting, or its replica died.
var Retry = Fault{
	Name:  api.Retry,
	Title: text.Of("the client gives up and repeats the request with the same key"),
	Cuts:  bothCuts,
	AtEnd: true,
	Variants: func(m api.Mode) []string {
		variants := []string{""}
		if keepsKeys(m) {
			variants = append(variants, crashed)
		}
		return withRepeated(m, dead, withRepeated(m, twice, variants...)...)
	},
	Endings: []string{cancelled + twice, cancelled + dead},
	Asks:    asksRepeated,
	// To be killed before the next command, or when it has answered, is the same for everybody else.
	Skip: func(variant string, at rig.Position) bool {
		return at.Cut == rig.Answer && strings.HasSuffix(variant, dead)
	},
	Strike: func(ctx context.Context, p *Play) error {
		switch {
		case p.Variant == crashed:
			return repeatAfterCrash(ctx, p)
		case strings.HasSuffix(p.Variant, dead):
			return p.repeat(ctx, func(_ *rig.Pending, held *wire.Hold) error { return p.kill(ctx, held) }, unharmed)
		case p.Variant != "":
			return p.repeat(ctx, unharmed, func(_ *rig.Pending, held *wire.Hold) error {
				if held != nil {
					p.pass(p.Lane.A, held)
				}
				return nil
			})
		}
		key := p.NewKey()
		if p.A == nil {
			a := p.Ask(p.Lane.A, key)
			if err := a.Wait(ctx); err != nil {
				return err
			}
			p.GiveUp(a)
			p.Note(p.Lane.A, rig.Lost, "")
			b := p.Ask(p.Lane.B, key)
			return p.meet(ctx, b)
		}
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		b := p.Ask(p.Lane.B, key)
		p.Settle(ctx, p.Lane.B, b)
		p.pass(p.Lane.A, held)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		p.GiveUp(a)
		return p.meet(ctx, b)
	},
}

// anyOutcome is the claim of a service that makes none: faultlab.Unclaimed.
const anyOutcome api.Outcomes = "?"

// keepsKeys says whether a mode claims that a repeated request is no second one, or makes no claims. Another sells the
// repetition anyway, and what a crash leaves behind is the affair of the fault crash.
func keepsKeys(m api.Mode) bool {
	for _, row := range m.Claims {
		if claim := row[api.Retry]; claim == api.Exact || claim == anyOutcome {
			return true
		}
	}
	return false
}

// repeatAfterCrash kills A at its position, or when it has answered, and has the request repeated elsewhere.
func repeatAfterCrash(ctx context.Context, p *Play) error {
	key := p.NewKey()
	var a *rig.Pending
	var err error
	if p.A == nil {
		a = p.Ask(p.Lane.A, key)
		if err = a.Wait(ctx); err == nil {
			err = p.kill(ctx, nil)
		}
	} else {
		var held *wire.Hold
		if a, held, err = p.victim(ctx, key); err == nil {
			err = p.kill(ctx, held)
		}
	}
	if err != nil {
		return err
	}
	if err := a.Wait(ctx); err != nil {
		return err
	}
	p.GiveUp(a)
	// No thread of A runs, so its locks may expire at once; those in tables of somebody's service must be waited for.
	if _, err := p.Lane.Expire(ctx, p.Lane.A.Wires, services(p.Mode)...); err != nil {
		return err
	}
	within := p.Outlive
	if p.Lane.Service.Waits && !slices.Contains(p.Mode.Needs, "mysql") {
		within = 0
	}
	p.Over(within)
	return p.repeatUntilSold(ctx, key, within)
}

// stuckAfter is how often a repeated request must be turned away, after every lock has run out, before the judge calls
// its key stuck; between is the time between two repetitions.
const (
	stuckAfter = 4
	between    = 60 * time.Millisecond
)

// repeatUntilSold has B ask with a key until it is sold, and then C once more, as the next customer would.
func (p *Play) repeatUntilSold(ctx context.Context, key string, within time.Duration) error {
	end := time.Now().Add(within)
	for turnedAway := 0; turnedAway < stuckAfter; {
		b := p.Ask(p.Lane.B, key)
		if err := b.Wait(ctx); err != nil {
			return err
		}
		if said := b.Op().Outcome; said == judge.OK || said == judge.Unknown || p.tells(ctx, b) {
			return p.next(ctx)
		}
		if time.Now().After(end) {
			turnedAway++
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// tells says whether a refusal names an order that stands: it is the answer to a repetition.
func (p *Play) tells(ctx context.Context, b *rig.Pending) bool {
	if b.Op().Outcome != judge.Refused || b.Op().OrderID == "" {
		return false
	}
	ledger, err := p.Lane.Ledger(ctx)
	return err == nil && rig.Stands(ledger, b.Op().OrderID)
}
