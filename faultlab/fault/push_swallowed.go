package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// PushSwallowed drops the message that tells a waiter that the lock is free, or has been handed to it.
var PushSwallowed = Fault{
	Name:    "push-swallowed",
	Title:   text.Of("the message that wakes a waiter is lost: the waiter must notice by itself within seconds"),
	Cuts:    []rig.Cut{rig.Command},
	Skip:    func(_ string, at rig.Position) bool { return at.Server != stack.Redis || !releases(at) },
	Happens: func(m api.Mode, _ api.Store) bool { return slices.Contains(wokenByMessage, m.Name) },
	// The TTL is so long that no lock expires and wakes the waiter.
	Lane: gear.Equipment{Own: lockServers},
	Strike: holding(func(ctx context.Context, p *Play, a *rig.Pending, held *wire.Hold) error {
		b := p.AskWithin(p.Lane.B, p.NewKey(), wakeWithin)
		p.Settle(ctx, p.Lane.B, b)
		message, err := p.Lane.B.HoldMessage(stack.Redis)
		if err != nil {
			return err
		}
		p.pass(p.Lane.A, held)
		select {
		case <-message.Reached():
			p.Note(p.Lane.B, rig.Struck, "the message is lost: "+message.Call().Text)
			message.Drop(false)
		case <-b.Done():
			return fmt.Errorf("%w: B was served without a message", rig.ErrNotReached)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := b.Wait(ctx); err != nil {
			return err
		}
		if b.Op().Outcome == judge.Declined {
			p.Accuse("X", fmt.Sprintf("a waiter whose message was lost had not noticed after %v that the lock was free",
				wakeWithin))
		}
		p.Outlive = recovery
		return p.meet(ctx, a, b)
	}),
}

// wakeWithin is how long a waiter may take to notice a free lock without a message: several poll intervals, and less
// than the TTL.
const wakeWithin = 10 * time.Second

// wokenByMessage are the modes whose waiters a message wakes.
var wokenByMessage = []string{"watchdog", "handoff", "fair", "rwlock", "global-lock", "segmented", "multi-lock",
	"lease-seq"}

// releases says whether the command is the script that releases a lock.
func releases(at rig.Position) bool {
	return strings.HasPrefix(at.Pattern, "EVALSHA ") && !strings.Contains(at.Pattern, "Takes a free ")
}
