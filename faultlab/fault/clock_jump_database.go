package fault

import (
	"context"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// The variants of a database's clock: where it jumps.
const (
	forward = "forward"
	back    = "back"
)

// ClockJumpDatabase sets the database's wall clock forward or back between the statements of a request. A mode that
// computes the expiry of a lock or the age of a key from NOW() would break; none of the shop's modes does so.
var ClockJumpDatabase = Fault{
	Name:     "clock-jump-database",
	Title:    text.Of("the wall clock of the database jumps by an hour, forward or back, before or after each statement"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{forward, back} },
	Skip:     func(_ string, at rig.Position) bool { return !inSQL(at) },
	Happens:  writesSQL,
	Lane:     gear.Equipment{SQL: ownSQL.SQL, Clock: true},
	Strike: func(ctx context.Context, p *Play) error {
		by := map[string]time.Duration{forward: clockJump, back: -clockJump}[p.Variant]
		return p.upset(ctx, "the database's clock jumps an hour "+p.Variant, func(ctx context.Context) error {
			return p.Lane.Clocks.Jump(ctx, by, gear.Database)
		})
	},
}
