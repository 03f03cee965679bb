package fault

import (
	"context"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// The variants of a lost second.
const (
	nothingSynced = "nothing-synced" // the last fsync happened before the request began
	syncedSoFar   = "synced-so-far"  // the last fsync happened when the request was held: the control
)

// AOFLost makes Redis lose the part of its append-only file that was not yet synchronised to disk.
var AOFLost = Fault{
	Name: "aof-lost-second",
	Title: text.Of("Redis with appendfsync everysec loses its last second, as in a power cut: it is killed, its AOF " +
		"is cut back to the last fsync, and it restarts"),
	Cuts:     bothCuts,
	Variants: func(api.Mode) []string { return []string{nothingSynced, syncedSoFar} },
	AtEnd:    true,
	Happens: func(m api.Mode, store api.Store) bool {
		return slices.Contains(m.Needs, stack.Redis) && (lockInRedis(m) || store == api.Redis)
	},
	Lane: gear.Equipment{Own: stack.Redis, Conf: "appendonly yes;appendfsync everysec"},
	Strike: func(ctx context.Context, p *Play) error {
		p.Outlive += recovery
		synced, err := p.Lane.Own.Logged(ctx, stack.Redis)
		if err != nil {
			return err
		}
		return p.upset(ctx, "redis loses what it had not synchronised: "+p.Variant, func(ctx context.Context) error {
			if p.Variant == syncedSoFar {
				if synced, err = p.Lane.Own.Logged(ctx, stack.Redis); err != nil {
					return err
				}
			}
			return p.Lane.Own.RestartFrom(ctx, stack.Redis, synced)
		})
	},
}
