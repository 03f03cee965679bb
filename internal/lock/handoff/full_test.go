package handoff_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// fill writes to a server until its memory is full, and then lowers the limit below what is in use, so that it stays full.
func fill(t *testing.T, c *redis.Client) {
	t.Helper()
	ballast := strings.Repeat("x", 64<<10)
	for i := 0; ; i++ {
		err := c.Set(t.Context(), fmt.Sprint("ballast-", i), ballast, 0).Err()
		if redis.HasErrorPrefix(err, "OOM") {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	used := c.InfoMap(t.Context(), "memory").Item("Memory", "used_memory")
	n, err := strconv.Atoi(used)
	if err != nil {
		t.Fatalf("used_memory %q: %v", used, err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(n/2)).Err(); err != nil {
		t.Fatal(err)
	}
}

// isFull fails unless the server refuses a write now.
func isFull(t *testing.T, c *redis.Client) {
	t.Helper()
	if err := c.Set(t.Context(), "one more", "x", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("SET on a full server = %v, want OOM", err)
	}
}

// On a server that is full and evicts nothing, holders can still release, waiters can leave, and waiters that had queued get in.
func TestEngineFullRedis(t *testing.T) {
	testenv.Slow(t, "fills a server for each pair of locks")
	t.Parallel()
	for _, kinds := range pairs {
		t.Run(kinds[0]+" then "+kinds[1], func(t *testing.T) {
			t.Parallel()
			node := testenv.RedisNodes(t, 1, "maxmemory 16mb", "maxmemory-policy noeviction")[0]
			admin := connect(t, options(t, node))
			s := &testenv.RedisServer{URL: node.URL, Client: admin}
			process := func(kind string) lock.Locker {
				return pick(engine(t, connect(t, options(t, node)), handoff.Options{TTL: 10 * time.Minute}), kind)
			}
			queue := handoff.KeysOf("k").Queue
			waiting := func(n int64) {
				t.Helper()
				wait.Until(t, fmt.Sprint(n, " in the queue"), func() bool { return admin.ZCard(t.Context(), queue).Val() == n })
			}
			held := locktest.Obtain(t, process(kinds[0]), "k")
			first := queueing(t, s, process(kinds[1]), "k", 1)
			queued := admin.ZCard(t.Context(), queue).Val() // not a writer that waits for a reader
			ctx, leave := context.WithCancel(t.Context())
			_, failed := async(ctx, process(kinds[1]), "k")
			waiting(queued + 1)
			last, _ := async(t.Context(), process(kinds[1]), "k")
			waiting(queued + 2)
			fill(t, admin)
			leave()
			locktest.WantGaveUp(t, <-failed)
			waiting(queued + 1)
			released(t, held)
			lease := served(t, "the first waiter", first)
			if kinds[1] == "rw-read" { // they share
				released(t, served(t, "the last waiter", last))
				released(t, lease)
				isFull(t, admin)
				return
			}
			released(t, lease)
			released(t, served(t, "the last waiter", last))
			isFull(t, admin)
		})
	}
}

// A reader is renewed on a full server.
func TestEngineFullRedisRenewsReaders(t *testing.T) {
	testenv.Slow(t, "fills a server")
	t.Parallel()
	node := testenv.RedisNodes(t, 1, "maxmemory 16mb", "maxmemory-policy noeviction")[0]
	admin := connect(t, options(t, node))
	rw := engine(t, connect(t, options(t, node)), handoff.Options{TTL: 5 * time.Second}).ReadWrite()
	lease := locktest.Obtain(t, rw.Read(), "k")
	fill(t, admin)
	readers := handoff.KeysOf("k").Readers
	expiry := func() float64 {
		all := admin.ZRangeWithScores(t.Context(), readers, 0, -1).Val()
		if len(all) != 1 {
			t.Fatalf("%d readers, want 1; the lease's context: %v", len(all), lease.Context().Err())
		}
		return all[0].Score
	}
	before := expiry()
	wait.Until(t, "a renewal", func() bool { return expiry() > before })
	isFull(t, admin)
	released(t, lease)
}
