package fault

import (
	"context"
	"fmt"
	"slices"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// Eviction has Redis run out of memory under a policy that evicts keys with an expiry: locks.
var Eviction = Fault{
	Name:  "eviction",
	Title: api.Text{En: "Redis is out of memory and evicts every key that has an expiry (volatile-lru), the lock among them", Zh: "Redis 内存用尽，淘汰所有带过期时间的键（volatile-lru），锁也在其中"},
	Cuts:  bothCuts,
	AtEnd: true,
	// The others keep nothing under an expiry of Redis's: a lock without one, no lock, or answers in a hash that the shop purges.
	Happens: func(m api.Mode, _ api.Store) bool {
		return lockInRedis(m) && !slices.Contains([]string{"setnx", "redis-decr", "redis-lua"}, m.Name)
	},
	Lane:   rig.Equipment{Own: lockServers},
	Strike: func(ctx context.Context, p *Play) error { return p.evict(ctx, "volatile-lru") },
}

// EvictionAll is the same under a policy that evicts any key, also a lock without an expiry. The stock is in SQL.
var EvictionAll = Fault{
	Name:    "eviction-allkeys",
	Title:   api.Text{En: "Redis is out of memory and evicts every key (allkeys-lru), the lock among them; the stock is in SQL", Zh: "Redis 内存用尽，淘汰所有键（allkeys-lru），锁也在其中；库存在 SQL 里"},
	Cuts:    bothCuts,
	Happens: func(m api.Mode, store api.Store) bool { return lockInRedis(m) && store == api.SQL },
	Lane:    rig.Equipment{Own: lockServers},
	Ignore:  catchingUp,
	Strike:  func(ctx context.Context, p *Play) error { return p.evict(ctx, "allkeys-lru") },
}

// evict has Redis evict at a position of the victim.
func (p *Play) evict(ctx context.Context, policy string) error {
	p.Outlive = recovery
	return p.upset(ctx, "redis evicts, "+policy, func(ctx context.Context) error { return p.outOfMemory(ctx, policy) })
}

// outOfMemory makes Redis evict all that the policy lets it evict: there is no memory for anything. Then there is again.
func (p *Play) outOfMemory(ctx context.Context, policy string) error {
	for _, words := range [][]string{
		{"CONFIG", "SET", "maxmemory-policy", policy},
		{"CONFIG", "SET", "maxmemory-eviction-tenacity", "100"}, // without a limit in time
		{"CONFIG", "SET", "maxmemory", "1"},
		{"PING"}, // Redis evicts before it executes a command
		{"CONFIG", "SET", "maxmemory", "0"},
	} {
		if _, err := p.Lane.Tell(ctx, localstack.Redis, words...); err != nil {
			return fmt.Errorf("faultlab: %q: %w", words, err)
		}
	}
	return nil
}
