package faultlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/target"
)

// scheduleLimit bounds one schedule, whatever hangs. Three times the time for which a lock may outlive its holder is
// added to it.
const scheduleLimit = 30 * time.Second

// Play plays a schedule on a lane and judges it. An error is the lab's own: a process that does not start, a server
// that is gone.
func Play(ctx context.Context, lane *rig.Lane, m api.Mode, s Schedule) (Played, error) {
	began := time.Now()
	f, ok := fault.Named(s.Fault)
	if !ok {
		return Played{}, fmt.Errorf("faultlab: unknown fault %q", s.Fault)
	}
	limit := scheduleLimit + 3*outlive(m, lane.TTL) + 2*lane.Service.Settle
	resetting, reset := context.WithTimeout(ctx, limit+lane.Service.ResetWithin)
	defer reset()
	scene, err := lane.NewScene(resetting, rig.Ask{Ask: target.Ask{Mode: s.Mode, Store: s.Store},
		Stock: f.Stock(s.Variant),
		About: f.About(s.Variant), Set: setting(m), PerBuyer: perBuyer(m, f.About(s.Variant)),
		ReserveFirst: reserveFirst(m, s.Store),
		Session:      hasSession(m), Outlive: outlive(m, lane.TTL)})
	if err != nil {
		return Played{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	played := Played{Schedule: s}
	err = f.Strike(ctx, &fault.Play{
		Scene: scene, Mode: m, Variant: s.Variant, A: s.A, B: s.B, C: s.C, Order: s.Order, Forced: s.Expiry == Forced,
		Outlive: outlive(m, lane.TTL),
	})
	switch {
	case errors.Is(err, rig.ErrNotReached):
		played.Outcome, played.Why, played.unserved = Diverged, err.Error(), errors.Is(err, rig.ErrUnserved)
		err = lane.Quiesce(ctx)
	case errors.Is(err, gear.ErrNothing):
		played.Outcome, played.Why = Idle, err.Error()
		err = lane.Quiesce(ctx)
	case err == nil:
		played.Report, err = scene.Judge(ctx)
		ignore := f.Ignore
		if played.unsettled = scene.Unsettled; scene.Unsettled {
			ignore += "L"
		}
		played.Outcome, played.Why = outcome(played.Report, ignore)
		if f.Lane.Expiry && played.Outcome == api.Exact {
			played.keptOut = scene.KeptOut
		}
		played.ended = scene.Reservations.Ended()
	}
	if err != nil {
		return Played{}, fmt.Errorf("faultlab: %s: %w", s, err)
	}
	played.Took, played.silence = time.Since(began), scene.Silence(fault.LockServers(m), renews(m, s.Store))
	played.early = lane.Service.Waits && early(scene.Events())
	if s.B == nil && s.Expiry != Forced {
		played.Blocked = blockedFor(scene.Events())
	}
	played.Story = storyOf(scene, played.Report)
	return played, nil
}
