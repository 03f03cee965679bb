package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// DeadlockVictim has the victim's transaction be the one that the database ends to resolve a deadlock (1213): it is rolled back as a whole,
// while its process goes on.
var DeadlockVictim = Fault{
	Name:     "deadlock-victim",
	Title:    api.Text{En: "another transaction takes two rows in the other order, and the database rolls the victim's back (1213)", Zh: "另一个事务按相反的顺序锁两行，数据库选中受害者回滚（1213）"},
	Cuts:     []rig.Cut{rig.Command},
	Variants: tables,
	Skip:     aboutAnother,
	Happens:  writesSQL,
	Lane:     ownSQL,
	Strike: func(ctx context.Context, p *Play) error {
		key := p.NewKey()
		a, held, err := p.victim(ctx, key)
		if err != nil {
			return err
		}
		rows, err := p.Lane.LockRows(ctx, p.Variant)
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
		struck := p.AwaitFailure(ctx, p.Lane.A, a, rig.Deadlock)
		return p.refused(ctx, rows, a, key, struck)
	},
}
