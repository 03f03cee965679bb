package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// DatabaseKilled ends the database by SIGKILL, and starts it again on its data: before it has COMMIT, after it has answered COMMIT, and at
// every other statement. What it has answered it must still have, and who was not answered does not know.
var DatabaseKilled = Fault{
	Name:    "database-killed",
	Title:   api.Text{En: "kill -9 of the database around COMMIT, and it starts again on its data", Zh: "COMMIT 前后 kill -9 数据库，再用原有数据重启"},
	Cuts:    bothCuts,
	Skip:    func(_ string, at rig.Position) bool { return !inSQL(at) },
	Happens: writesSQL,
	Lane:    ownSQL,
	Strike: func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.DatabaseKilled, "")
		p.Lane.KillDatabase()
		p.pass(p.Lane.A, held)
		if err := p.Lane.StartDatabase(ctx); err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.DatabaseBack, "")
		return p.freed(ctx, a)
	},
}

// ownSQL is lanes with a database of their own, which is durable, and in which nobody waits longer than a second for a row.
var ownSQL = rig.Equipment{SQL: "--innodb-lock-wait-timeout=1"}
