// Package fault holds the hazards that the lab knows, each a value in a file of its own. [Ladder] and [Beyond] list
// them.
package fault

import (
	"context"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// Fault is one hazard: which positions of the victim it may strike at, and how.
type Fault struct {
	Name  api.Hazard
	Title text.Text // one line
	// Cuts are the cuts that are tried at each of the victim's commands.
	Cuts []rig.Cut
	// Finished restricts the victim's positions to those after its last write, when only its cleanup is left.
	Finished bool
	// Rival says that the rival is always held as well, before each of its commands in turn. Pairs says that the rival can
	// be held. With two preemptions the rival is held, the victim goes on, C is served, and only then the rival goes on.
	// With three preemptions C is held too. Only Pairs allows that: the rival's lease may run out meanwhile, and that is
	// not what a fault with Rival tests.
	Rival, Pairs bool
	// Rivals says what the rival of a pair does in a variant, if that is something else than the victim's request; a zero
	// Kind = there are no pairs. Such a rival is the only one that is held.
	Rivals func(variant string) rig.About
	// Forcible says that the fault may end the holder's locks at once instead of waiting for their TTL: no thread of the
	// holder runs then.
	Forcible bool
	// Variants are the ways in which the fault strikes a mode at one position; nil = one.
	Variants func(m api.Mode) []string
	// Endings are the variants in which an order of somebody's service is cancelled, or shipped.
	Endings []string
	// Asks says what the victim asks for in a variant; nil = for a deduction.
	Asks func(variant string) rig.About
	// Skip says where a variant cannot hold the victim; nil = nowhere.
	Skip func(variant string, at rig.Position) bool
	// Ignore holds letters that are another fault's affair.
	Ignore string
	// AtEnd adds a schedule in which the victim is not held: the fault strikes when it has answered, or takes the answer
	// from its client, or strikes all along.
	AtEnd bool
	// Lane is what a lane must have to play the fault. Faults with equal equipment share lanes.
	Lane gear.Equipment
	// Happens says whether the fault can happen to a mode. It is set for the hazards of Beyond, about which the modes make
	// no claims; nil = the mode's claims say whether it can.
	Happens func(m api.Mode, store api.Store) bool
	// Strike plays a schedule up to the judge.
	Strike func(ctx context.Context, p *Play) error
}

// Ladder lists the faults about which every mode makes a claim, in the order of the claims.
var Ladder = []Fault{Threads, Replicas, Slow, Late, Pause, Crash, Failover, Stale, Retry, Redelivery, LateWrite, Expiry}

// Beyond lists the hazards about which no mode makes a claim. matrix.json holds what the lab found.
var Beyond = []Fault{
	LostReply,
	LostReplySilence,
	LostReplyRepeated,
	SIGTERM,
	ConnectionKilled,
	SessionEnd,
	LateLock,
	DatabaseKilled,
	DatabaseUnflushed,
	LockWaitTimeout,
	DeadlockVictim,
	ReadOnly,
	RedisRestarted,
	RedlockRestarted,
	RedlockGuarded,
	Eviction,
	EvictionAll,
	ScriptFlush,
	ServerStopped,
	Partition,
	ShortPartition,
	PushSwallowed,
	AOFLost,
	FailoverWait,
	ClockJump,
	ClockJumpBack,
	ClockJumpDatabase,
	FailoverMinReplicas,
	FailoverSentinel,
	RedlockPromoted,
	SecondWrite,
	NginxRetry,
	NginxOnce,
}

// All returns the faults of Ladder, then those of Beyond.
func All() []Fault { return slices.Concat(Ladder, Beyond) }

// Names returns the names of All, in its order.
func Names() []api.Hazard {
	var names []api.Hazard
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}

// Claimed says whether the fault is of Ladder: the modes make claims about it.
func (f Fault) Claimed() bool { return f.Happens == nil }

// Named returns a fault by its name.
func Named(name api.Hazard) (Fault, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return Fault{}, false
}

// Play is one schedule that is being played.
type Play struct {
	*rig.Scene
	Mode    api.Mode
	Variant string
	A, B    *rig.Position // where the victim and the rival are held; nil = at the end, not at all
	// C is where a third request is held, beside A and B; nil = nowhere. Order is then the order in which the three go on:
	// "BCA", "" = "ABC".
	C     *rig.Position
	Order string
	// Forced makes locks expire at once, by Expire, where the fault is Forcible.
	Forced bool
	// Outlive is how long a lock may outlive a holder that is gone: TTL, session and lock-delay.
	Outlive time.Duration
}

// lastItem is the variant in which there is one unit, so that whoever comes second must be refused. Without it there is
// enough for all, so that a refusal is wrong.
const lastItem = "last-item"

// About is what the victim asks for in a variant.
func (f Fault) About(variant string) rig.About {
	if f.Asks == nil {
		return rig.About{}
	}
	return f.Asks(variant)
}

// Stock is what a variant begins with. Reservations and adjustments are about the last unit; beside the tickets of a
// turn there is one more, and so before a stale read, since A's replica sells one first.
func (f Fault) Stock(variant string) int64 {
	about := f.About(variant)
	switch {
	case about.Limited, about.Kind == rig.TurnDue, f.Name == api.Stale && variant == lastItem:
		return about.Units() + 1
	case variant == lastItem || variant == restocked || about.Kind != "" || adjusting[variant] != 0:
		return about.Units()
	}
	return rig.Stock
}

// ThirdHeld says whether a third request may be held, beside the victim and the rival.
func (f Fault) ThirdHeld() bool { return f.Pairs && f.Rivals == nil }

var bothCuts = []rig.Cut{rig.Command, rig.Answer}

// victim sends A's request and holds it. Of a request about an order of somebody's service, B buys the order first.
func (p *Play) victim(ctx context.Context, key string) (*rig.Pending, *wire.Hold, error) {
	if kind := p.About().Kind; kind != "" {
		h, err := p.Reservations.First(ctx, rig.Long)
		if err != nil {
			return nil, nil, err
		}
		return p.Reservations.Hold(ctx, p.Lane.A, *p.A, kind, h, rig.Long)
	}
	return p.Hold(ctx, p.Lane.A, *p.A, key, 0)
}

// holding returns a Strike that begins with the victim held at its position.
func holding(
	do func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error,
) func(context.Context, *Play) error {
	return func(ctx context.Context, p *Play) error {
		a, held, err := p.victim(ctx, p.NewKey())
		if err != nil {
			return err
		}
		return do(ctx, p, a, held)
	}
}

// passing returns a function that lets the victim go on.
func (p *Play) passing(held *wire.Hold) func() error {
	return func() error {
		p.pass(p.Lane.A, held)
		return nil
	}
}

// pass lets a held request go on.
func (p *Play) pass(a *rig.Actor, h *wire.Hold) {
	p.Note(a, rig.Passed, "")
	h.Pass()
}

// meet waits for answers, and has C ask once more, as the next customer would.
func (p *Play) meet(ctx context.Context, all ...*rig.Pending) error {
	if err := answers(ctx, all); err != nil {
		return err
	}
	return p.next(ctx)
}

// answers waits for them.
func answers(ctx context.Context, all []*rig.Pending) error {
	for _, one := range all {
		if err := one.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill ends A, which is held unless held is nil, with what it had sent and nobody has received.
func (p *Play) kill(ctx context.Context, held *wire.Hold) error {
	p.Lane.A.Kill()
	p.Note(p.Lane.A, rig.Killed, "")
	if held != nil {
		held.Drop(false)
	}
	return p.Lane.A.Discard(ctx)
}

// next has C ask until it is served.
func (p *Play) next(ctx context.Context) error {
	if !p.Lane.Service.Waits {
		return p.AskAlone(ctx, p.Lane.C, p.Outlive)
	}
	c, err := p.AskUntilServed(ctx, p.Lane.C, p.Outlive)
	if err != nil {
		return err
	}
	return p.WaitOrStuck(ctx, p.Lane.C, c, p.Outlive)
}
