package fault

import (
	"context"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// ScriptFlush makes the lane's Redis servers forget all scripts.
var ScriptFlush = Fault{
	Name:  "script-flush",
	Title: text.Of("Redis forgets its scripts (SCRIPT FLUSH) in the middle of a request"),
	Cuts:  bothCuts,
	Happens: func(m api.Mode, _ api.Store) bool {
		return slices.Contains(m.Needs, stack.Redis) && !slices.Contains(withoutScripts, m.Name)
	},
	Lane: gear.Equipment{Own: lockServers},
	Strike: func(ctx context.Context, p *Play) error {
		p.Outlive = recovery
		return p.upset(ctx, "SCRIPT FLUSH", func(ctx context.Context) error {
			for _, server := range p.Lane.Own.Names() {
				if _, err := p.Lane.Own.Tell(ctx, server, "SCRIPT", "FLUSH"); err != nil {
					return err
				}
			}
			return nil
		})
	},
}

// withoutScripts are the modes that send Redis no scripts.
var withoutScripts = []string{"setnx", "setnx-expire", "setnx-ttl", "setnx-owner", "redis-watch", "redis-decr",
	"zookeeper", "etcd", "consul"}
