package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// ConnectionKilled ends the victim's session in the database, as an administrator or a proxy's time-out does. The database rolls back what
// was open in it; locks that lie elsewhere do not notice.
var ConnectionKilled = Fault{
	Name:    "connection-killed",
	Title:   api.Text{En: "the database ends the session in which the victim's transaction runs (KILL)", Zh: "数据库把正在执行事务的会话 KILL 掉"},
	Cuts:    bothCuts,
	Skip:    func(_ string, at rig.Position) bool { return !inSQL(at) },
	Happens: writesSQL,
	Strike: func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
		p.Note(p.Lane.A, rig.SessionEnded, rig.Database)
		if err := p.Lane.KillSession(ctx, held.From()); err != nil {
			return err
		}
		p.pass(p.Lane.A, held)
		return p.freed(ctx, a)
	},
}

// inSQL says that a position is a statement for the database.
func inSQL(at rig.Position) bool { return at.Server == rig.Database }

// writesSQL is for hazards of the database: the stock is there.
func writesSQL(_ api.Mode, store api.Store) bool { return store == api.SQL }
