package fault

import (
	"context"
	"errors"
	"strings"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// LockWaitTimeout keeps a row locked that the victim needs, until the database tells it that it has waited for long enough (1205). Half of its
// transaction stands at that moment: whoever commits then has done half the work.
var LockWaitTimeout = Fault{
	Name:     "lock-wait-timeout",
	Title:    api.Text{En: "somebody keeps a row locked past innodb_lock_wait_timeout: error 1205 in the middle of the transaction", Zh: "别的事务一直占着行锁，超过 innodb_lock_wait_timeout：事务中途报 1205"},
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
		p.Note(p.Lane.A, rig.RowsLocked, p.Variant)
		p.pass(p.Lane.A, held)
		struck := p.AwaitFailure(ctx, p.Lane.A, a, rig.LockWaitTimeout)
		return p.refused(ctx, rows, a, key, struck)
	},
}

// tables are the variants of hazards that are about the rows of a table.
func tables(api.Mode) []string { return rig.Tables }

// aboutAnother says that a statement is not about the table of a variant.
func aboutAnother(table string, at rig.Position) bool {
	return !inSQL(at) || !strings.Contains(at.Pattern, table)
}

// refused ends a schedule in which the database has refused a statement because of rows that the lab has locked.
func (p *Play) refused(ctx context.Context, rows *rig.Rows, a *rig.Pending, key string, struck error) error {
	rows.Unlock()
	p.Note(p.Lane.A, rig.RowsFree, "")
	if err := errors.Join(struck, a.Wait(ctx)); err != nil {
		return err
	}
	return p.repeated(ctx, a, key)
}

// repeated has a client that was told "nothing happened" send its request again with the same key: an order for each would be a lie.
func (p *Play) repeated(ctx context.Context, a *rig.Pending, key string) error {
	if a.Op().Outcome != audit.Declined {
		return p.freed(ctx)
	}
	return p.freed(ctx, p.Ask(p.Lane.A, key))
}
