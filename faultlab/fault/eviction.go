package fault

import (
	"context"
	"fmt"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// Eviction makes Redis run out of memory under a policy that evicts only keys with a TTL, such as locks.
var Eviction = Fault{
	Name:  "eviction",
	Title: text.Of("Redis runs out of memory and evicts every key that has a TTL (volatile-lru), the lock included"),
	Cuts:  bothCuts,
	AtEnd: true,
	// The modes left out have no key with a TTL: they have no lock, the lock of setnx has none, and the shop purges the
	// answers of redis-lua itself.
	Happens: func(m api.Mode, s api.Store) bool { return lockInRedis(m) && leased(m, s) && m.Name != "setnx" },
	Lane:    gear.Equipment{Own: lockServers},
	Strike:  func(ctx context.Context, p *Play) error { return evict(ctx, p, "volatile-lru") },
}

// EvictionAll is Eviction under a policy that evicts any key, also a lock without a TTL. The stock is in SQL.
var EvictionAll = Fault{
	Name: "eviction-allkeys",
	Title: text.Of("Redis runs out of memory and evicts every key (allkeys-lru), the lock included; the stock is in " +
		"SQL"),
	Cuts:     bothCuts,
	Happens:  RedisRestarted.Happens,
	Lane:     gear.Equipment{Own: lockServers},
	Variants: counters,
	Strike: func(ctx context.Context, p *Play) error {
		if err := setCounter(ctx, p); err != nil {
			return err
		}
		return evict(ctx, p, "allkeys-lru")
	},
}

// evict holds the victim and makes Redis evict keys under the policy.
func evict(ctx context.Context, p *Play, policy string) error {
	p.Outlive = recovery
	return p.upset(ctx, "redis evicts, "+policy, func(ctx context.Context) error { return outOfMemory(ctx, p, policy) })
}

// outOfMemory sets maxmemory to one byte, so that Redis evicts every key that the policy allows, and then removes the
// limit. ErrNothing: Redis had no key that the policy allows it to evict.
func outOfMemory(ctx context.Context, p *Play, policy string) error {
	before, err := p.Lane.Own.Evicted(ctx, stack.Redis)
	if err != nil {
		return err
	}
	for _, words := range [][]string{
		{"CONFIG", "SET", "maxmemory-policy", policy},
		{"CONFIG", "SET", "maxmemory-eviction-tenacity", "100"}, // without a limit in time
		{"CONFIG", "SET", "maxmemory", "1"},
		{"PING"}, // Redis evicts before it executes a command
		{"CONFIG", "SET", "maxmemory", "0"},
	} {
		if _, err := p.Lane.Own.Tell(ctx, stack.Redis, words...); err != nil {
			return fmt.Errorf("faultlab: %q: %w", words, err)
		}
	}
	after, err := p.Lane.Own.Evicted(ctx, stack.Redis)
	if err == nil && after == before {
		err = gear.ErrNothing
	}
	return err
}
