package fault

import (
	"context"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// The variants of a clock that goes back: whether the holder lives or dies.
const (
	holderDies  = "holder-dies"
	holderLives = "holder-lives"
)

// ClockJumpBack sets the wall clock of the lock's Redis back while somebody holds the lock. The jump prolongs the
// lock's life, which is harmless as long as the holder lives to release the lock.
var ClockJumpBack = Fault{
	Name:  "clock-jump-back",
	Title: text.Of("the same clock is set back by an hour; the holder goes on, or is killed (kill -9)"),
	Cuts:  []rig.Cut{rig.Command},
	Variants: func(m api.Mode) []string {
		if slices.Contains(m.Needs, stack.Redlock) {
			return []string{oneOfFive, everyNode}
		}
		return []string{holderLives, holderDies}
	},
	// Between SETNX and PEXPIRE the lock has no expiry yet, so the clock does not matter; the fault crash covers a death
	// there.
	Skip:    func(_ string, at rig.Position) bool { return strings.HasPrefix(at.Pattern, "PEXPIRE ") },
	Happens: expiresInRedis,
	// Stock that a dead holder has taken without an order is the subject of the fault crash.
	Ignore: "L",
	Lane:   gear.Equipment{Expiry: true, Own: clocked.Own, Clock: true},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		p.Note(p.Lane.A, rig.Struck, jumped(p, -clockJump))
		if err := p.Lane.Clocks.Jump(ctx, -clockJump, clocksOf(p)...); err != nil {
			return err
		}
		if p.Variant == holderLives {
			p.Over(p.Outlive)
			p.pass(p.Lane.A, held)
			return p.meet(ctx, a)
		}
		if err := p.kill(ctx, held); err != nil {
			return err
		}
		p.Over(p.Outlive)
		return p.meet(ctx, a)
	}),
}
