package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// DatabaseKilled kills the database by SIGKILL before or after each statement, COMMIT included, and restarts it on the same data. A commit
// that was answered must survive; a client whose COMMIT was not answered does not know the outcome.
var DatabaseKilled = Fault{
	Name:    "database-killed",
	Title:   api.Text{En: "kill -9 of the database before or after each statement, COMMIT included, and a restart on the same data", Zh: "在每条语句（包括 COMMIT）前后 kill -9 数据库，再用原有数据重启"},
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

// ownSQL gives each lane a durable database of its own, in which a wait for a row lock ends after one second.
var ownSQL = rig.Equipment{SQL: "--innodb-lock-wait-timeout=1"}
