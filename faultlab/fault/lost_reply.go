package fault

import (
	"context"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// LostReply breaks the connection after a server has executed a command and before its answer arrives.
var LostReply = Fault{
	Name:    "lost-reply",
	Title:   text.Of("a server executes a command, and the connection breaks before the answer arrives"),
	Cuts:    []rig.Cut{rig.Answer},
	Happens: always,
	Lane:    gear.Equipment{Expiry: true},
	Strike:  func(ctx context.Context, p *Play) error { return lostReply(ctx, p, true) },
}

// LostReplySilence is LostReply with a connection that stays open: the client receives nothing more until its own
// deadline.
var LostReplySilence = Fault{
	Name: "lost-reply-silence",
	Title: text.Of("a server executes a command, and its answer never arrives: the connection stays open and silent " +
		"until the client's deadline"),
	Cuts:    []rig.Cut{rig.Answer},
	Happens: always,
	Lane:    gear.Equipment{Expiry: true, Settings: shortPatience},
	Strike:  func(ctx context.Context, p *Play) error { return lostReply(ctx, p, false) },
}

// shortPatience gives the replicas' clients short time-outs, and requests a longer one.
const shortPatience = "SHOP_REDIS_TIMEOUT=2s SHOP_SQL_TIMEOUT=2s SHOP_SETTLE_TIMEOUT=2s SHOP_ETCD_TIMEOUT=2s " +
	"SHOP_CONSUL_TIMEOUT=2s SHOP_WORK_TIMEOUT=10s"

// lostReply drops the held answer: with a reset of the connection, or in silence.
func lostReply(ctx context.Context, p *Play, reset bool) error {
	a, held, err := p.victim(ctx, p.NewKey())
	if err != nil {
		return err
	}
	if reset {
		p.Note(p.Lane.A, rig.Broken, "")
	} else {
		p.Note(p.Lane.A, rig.Struck, "the answer never comes")
	}
	held.Drop(reset)
	if err := a.Wait(ctx); err != nil {
		return err
	}
	p.Over(p.Outlive)
	return p.meet(ctx, a)
}

// always is Happens of the hazards that can happen to every mode.
func always(api.Mode, api.Store) bool { return true }

// needs returns Happens of a hazard of one server: it can happen to the modes that need that server.
func needs(backend string) func(api.Mode, api.Store) bool {
	return func(m api.Mode, _ api.Store) bool { return slices.Contains(m.Needs, backend) }
}
