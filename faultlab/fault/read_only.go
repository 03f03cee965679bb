package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// ReadOnly turns the database read-only, as a failover or an administrator does. The replicas' account has no privilege
// to write nevertheless, so that every write fails with 1290; reads still work.
var ReadOnly = Fault{
	Name:    "read-only",
	Title:   text.Of("the database becomes read-only in the middle of a request (1290)"),
	Cuts:    bothCuts,
	Skip:    func(_ string, at rig.Position) bool { return !inSQL(at) },
	Happens: writesSQL,
	Lane:    gear.Equipment{SQL: ownSQL.SQL, Plain: true},
	Strike: func(ctx context.Context, p *Play) error {
		key := p.NewKey()
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.ReadOnly, "")
		if err := p.Lane.SQL.SetReadOnly(ctx, true); err != nil {
			return err
		}
		p.pass(p.Lane.A, held)
		if err := a.Wait(ctx); err != nil {
			return err
		}
		if err := p.Ask(p.Lane.B, p.NewKey()).Wait(ctx); err != nil { // no sale is possible now, and no answer may claim one
			return err
		}
		p.Note(p.Lane.A, rig.WritableAgain, "")
		if err := p.Lane.SQL.SetReadOnly(ctx, false); err != nil {
			return err
		}
		if !p.Failed(p.Lane.A, gear.ReadOnlyError) && !p.Failed(p.Lane.B, gear.ReadOnlyError) {
			return gear.ErrNothing
		}
		return p.repeated(ctx, a, key)
	},
}
