package fault

import (
	"context"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// ConnectionKilled kills the victim's session in the database, as an administrator or a proxy's time-out does. The
// database rolls back the open transaction; a lock in another server stays.
var ConnectionKilled = Fault{
	Name:    "connection-killed",
	Title:   text.Of("the database kills the session of the victim's transaction (KILL)"),
	Cuts:    bothCuts,
	Skip:    func(_ string, at rig.Position) bool { return !inSQL(at) },
	Happens: writesSQL,
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		p.Note(p.Lane.A, rig.SessionEnded, gear.Database)
		if err := p.Lane.SQL.KillSession(ctx, held.From()); err != nil {
			return err
		}
		p.pass(p.Lane.A, held)
		return p.freed(ctx, a)
	}),
}

// inSQL says whether a position is an SQL statement.
func inSQL(at rig.Position) bool { return at.Server == gear.Database }

// writesSQL says whether requests write the stock in the database: for tickets, consumers do. It is Happens of the
// hazards of the statements of a request.
func writesSQL(m api.Mode, store api.Store) bool { return inDatabase(m, store) && !m.Tickets }

// inDatabase says whether the stock is in the database.
func inDatabase(_ api.Mode, store api.Store) bool { return store == api.SQL }
