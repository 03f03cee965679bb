package fault

import (
	"context"
	"errors"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
)

// LockWaitTimeout locks a row that the victim needs until the victim's statement fails with a lock wait timeout (1205).
// Only that statement is rolled back: a victim that commits now commits half of its work.
var LockWaitTimeout = Fault{
	Name: "lock-wait-timeout",
	Title: text.Of("another transaction holds a row lock longer than innodb_lock_wait_timeout: error 1205 in the " +
		"middle of the transaction"),
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
		rows, err := p.Lane.SQL.LockRows(ctx, p.Variant)
		if err != nil {
			return p.spare(ctx, a, held, err)
		}
		p.Note(p.Lane.A, rig.RowsLocked, p.Variant)
		p.pass(p.Lane.A, held)
		struck := p.AwaitFailure(ctx, p.Lane.A, a, gear.LockWaitTimeout)
		return p.refused(ctx, rows, a, key, struck)
	},
}

// tables are the variants of hazards that lock rows: the name of the table.
func tables(api.Mode) []string { return gear.Tables }

// aboutAnother says whether a position is not a statement on the variant's table.
func aboutAnother(table string, at rig.Position) bool {
	return !inSQL(at) || !strings.Contains(at.Pattern, table)
}

// refused ends a schedule in which a row lock of the lab made a statement of the victim fail.
func (p *Play) refused(ctx context.Context, rows *gear.Rows, a *rig.Pending, key string, struck error) error {
	rows.Unlock()
	p.Note(p.Lane.A, rig.RowsFree, "")
	if err := errors.Join(struck, a.Wait(ctx)); err != nil {
		return err
	}
	return p.repeated(ctx, a, key)
}

// repeated makes a client that was told "nothing happened" send its request again with the same key: two orders would
// prove the answer wrong.
func (p *Play) repeated(ctx context.Context, a *rig.Pending, key string) error {
	if a.Op().Outcome != judge.Declined {
		return p.freed(ctx)
	}
	return p.freed(ctx, p.Ask(p.Lane.A, key))
}
