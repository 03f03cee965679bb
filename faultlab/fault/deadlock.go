package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// DeadlockVictim makes a deadlock that the database resolves by rolling back the victim's transaction as a whole
// (1213). The victim's process goes on.
var DeadlockVictim = Fault{
	Name: "deadlock-victim",
	Title: text.Of("another transaction locks two rows in the opposite order, and the database rolls back the " +
		"victim's transaction (1213)"),
	Cuts:     []rig.Cut{rig.Command},
	Variants: tables,
	Skip:     aboutAnother,
	// A transaction that is one packet holds no row where it can be stopped, so nobody can lock in the opposite order. One
	// that takes a row per unit never locks the product's row.
	Happens: func(m api.Mode, s api.Store) bool { return writesSQL(m, s) && m.Name != "sql-one-trip" && !m.Units },
	Lane:    ownSQL,
	Strike: func(ctx context.Context, p *Play) error {
		key := p.NewKey()
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		rows, err := p.Lane.SQL.LockRows(ctx, p.Variant)
		if err != nil {
			return p.spare(ctx, a, held, err)
		}
		if err = rows.Weigh(ctx); err == nil {
			err = rows.Cross(ctx, p.Variant)
		}
		if err != nil {
			rows.Unlock()
			return p.spare(ctx, a, held, err)
		}
		p.Note(p.Lane.A, rig.RowsLocked, p.Variant)
		p.pass(p.Lane.A, held)
		struck := p.AwaitFailure(ctx, p.Lane.A, a, gear.Deadlock)
		return p.refused(ctx, rows, a, key, struck)
	},
}
