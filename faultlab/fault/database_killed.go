package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// DatabaseKilled kills the database by SIGKILL before or after each statement, COMMIT included, and restarts it on the
// same data. A commit that was answered must survive; a client whose COMMIT was not answered does not know the outcome.
var DatabaseKilled = Fault{
	Name: "database-killed",
	Title: text.Of("kill -9 of the database before or after each statement, COMMIT included, and a restart on the " +
		"same data"),
	Cuts:    bothCuts,
	Skip:    func(_ string, at rig.Position) bool { return !inSQL(at) },
	AtEnd:   true,
	Happens: inDatabase,
	Lane:    ownSQL,
	Strike:  killDatabase,
}

// DatabaseUnflushed is DatabaseKilled with innodb_flush_log_at_trx_commit=0: the control. Commits that were
// answered in the last second are lost.
var DatabaseUnflushed = Fault{
	Name:    "database-killed-unflushed",
	Title:   text.Of("the same with innodb_flush_log_at_trx_commit=0: COMMIT is answered before the log is written"),
	Cuts:    bothCuts,
	Skip:    DatabaseKilled.Skip,
	AtEnd:   true,
	Happens: inDatabase,
	Lane:    ownSQL,
	Strike: func(ctx context.Context, p *Play) error {
		if err := p.Lane.SQL.Unflushed(ctx); err != nil {
			return err
		}
		return killDatabase(ctx, p)
	},
}

// killDatabase kills the database while the victim is held, or when it is done, and restarts it.
func killDatabase(ctx context.Context, p *Play) error {
	a, pass, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.Note(p.Lane.A, rig.DatabaseKilled, "")
	p.Lane.SQL.Kill()
	pass()
	if err := p.Lane.SQL.Start(ctx); err != nil {
		return err
	}
	p.Note(p.Lane.A, rig.DatabaseBack, "")
	return p.freed(ctx, a)
}

// ownSQL gives each lane a durable database of its own, in which a wait for a row lock ends after one second.
var ownSQL = gear.Equipment{SQL: "--innodb-lock-wait-timeout=1"}
