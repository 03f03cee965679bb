package handoff_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// Two tenants of one Redis have the same keys, and nothing in common. Each user may touch nothing but what has its prefix.
func TestPrefixKeepsTenantsApart(t *testing.T) {
	testenv.Slow(t, "starts a server")
	node := testenv.RedisNodes(t, 1)[0]
	admin := connect(t, options(t, node))
	tenant := func(prefix string) *handoff.Engine {
		o := options(t, node)
		o.Username, o.Password = strings.TrimSuffix(prefix, ":"), "secret"
		rules := []any{"ACL", "SETUSER", o.Username, "on", ">secret", "~" + prefix + "*", "&" + prefix + "*",
			"+@connection", "+@read", "+@write", "+@scripting", "+@pubsub", "+time", "+wait"}
		if err := admin.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		return engine(t, connect(t, o), patient(handoff.Options{Prefix: prefix}))
	}
	a, b, plain := tenant("one:"), tenant("two:"), engine(t, admin, handoff.Options{})
	for _, key := range []string{"k", "{k}", "x{k}y", "a}b", "a{b", "with blank", "{}"} {
		ls := []lock.Lease{locktest.Obtain(t, a.Handoff(), key), locktest.Obtain(t, b.Fair(), key), locktest.Obtain(t, plain.Handoff(), key)}
		locktest.WantBusy(t, a.Fair(), key, "the same tenant")
		for _, lease := range ls {
			locktest.Release(t, lease)
		}
		readers := []lock.Lease{locktest.Obtain(t, a.ReadWrite().Read(), key), locktest.Obtain(t, a.ReadWrite().Read(), key)}
		for _, lease := range readers {
			locktest.Release(t, lease)
		}
	}
	c := tenant("one:")
	held := locktest.Obtain(t, a.Handoff(), "k")
	var took []time.Duration
	for range 5 { // messages come through, too
		got := make(chan lock.Lease, 1)
		go func() {
			lease, err := c.Fair().Acquire(t.Context(), "k")
			if err != nil {
				t.Errorf("the waiter: %v", err)
			}
			got <- lease
		}()
		wait.Until(t, "a waiter", func() bool { return inspect(t, c, "k").Queue == 1 })
		began := time.Now()
		locktest.Release(t, held)
		if held = <-got; held == nil {
			return
		}
		took = append(took, time.Since(began))
		a, c = c, a
	}
	locktest.WantTold(t, took)
	force(t, a, "k", 1)
	channels := strings.Join(admin.PubSubChannels(t.Context(), "*").Val(), " ")
	if !strings.HasPrefix(channels, "one:lock:engine:") || strings.Contains(channels, " lock:engine:") {
		t.Errorf("channels %s, want only those below one:", channels)
	}
	for _, key := range admin.Keys(t.Context(), "*one:*").Val() {
		if !strings.HasPrefix(key, "one:") {
			t.Errorf("key %s does not begin with its prefix", key)
		}
	}
	if k := a.KeysOf("k"); admin.Exists(t.Context(), k.Fence).Val() != 1 || k.Lock != "one:{k}." || a.KeysOf("{k}").Lock != "one:{k}" || plain.KeysOf("k") != handoff.KeysOf("k") {
		t.Errorf("KeysOf = %+v, want what is in Redis", k)
	}
}

// The resource is asked for the key as its user calls it.
func TestPrefixIsNotTheResources(t *testing.T) {
	s := testenv.Miniredis(t)
	e := onServer(t, s, handoff.Options{Prefix: s.Prefix + "shop:"})
	lease := locktest.Obtain(t, e.Fenced(func(_ context.Context, key string) (uint64, error) {
		if key != "lock:{101}" {
			t.Errorf("asked for %s", key)
		}
		return 0, nil
	}), "lock:{101}")
	if inner, err := e.Handoff().Acquire(lease.Context(), "lock:{101}"); err != nil {
		t.Errorf("re-entry = %v", err)
	} else {
		locktest.Release(t, inner)
	}
	locktest.Release(t, lease)
}
