package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/testkit/locktest"
)

// What docs/locks.md shows under "Choosing a lock".
func Example_choosing() {
	_, client, end := locktest.EmbeddedRedis()
	defer end()
	ctx := context.Background()
	engine, _ := handoff.New(client, handoff.Options{})
	defer engine.Close(ctx)

	// A lease time for one acquire: it is not renewed.
	lease, err := engine.Handoff().Acquire(lock.WithLease(ctx, 5*time.Second), "lock:{101}")
	fmt.Println("for five seconds:", err)
	// Inspection.
	seen, err := engine.Inspect(ctx, "lock:{101}")
	fmt.Println("holders:", len(seen.Holders), "in this process:", seen.Holders[0].PID == os.Getpid(), err)
	// Force release.
	forced, err := engine.ForceRelease(ctx, "lock:{101}")
	fmt.Println("evicted:", len(forced.Evicted), "the fence has risen:", forced.Fence > lease.Fence(), err)
	fmt.Println("released:", lease.Release(ctx))
	// A prefix.
	tenant, err := handoff.New(client, handoff.Options{Prefix: "shop-7:"})
	fmt.Println("key in Redis:", tenant.KeysOf("lock:{101}").Lock, err)
	_ = tenant.Close(ctx)
	// A logger.
	logged, err := handoff.New(client, handoff.Options{Logger: slog.Default()})
	fmt.Println("with a logger:", err)
	_ = logged.Close(ctx)
	// Output:
	// for five seconds: <nil>
	// holders: 1 in this process: true <nil>
	// evicted: 1 the fence has risen: true <nil>
	// released: lock: lease lost
	// key in Redis: shop-7:lock:{101} <nil>
	// with a logger: <nil>
}

// sell is a section under a lock: the data is to check the fence, and the context ends when the lock is lost.
func sell(ctx context.Context, locker lock.Locker, deduct func(ctx context.Context, fence uint64) error) error {
	return lock.Do(lock.WithWait(ctx, time.Second), locker, "lock:{101}", func(lease lock.Lease) error {
		return deduct(lease.Context(), lease.Fence())
	})
}

// What docs/locks.md shows: an engine for the whole process, and a section under one of its locks.
func ExampleEngine() {
	server, _, stop := locktest.EmbeddedRedis()
	defer stop()
	addr := server.Addr()

	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	engine, err := handoff.New(client, handoff.Options{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	defer engine.Close(context.Background())
	ctx := context.Background()

	if err := engine.Check(ctx); err != nil {
		fmt.Println(err)
	}

	var seen uint64 // in the row
	for range 2 {
		err := sell(ctx, engine.Handoff(), func(_ context.Context, fence uint64) error {
			if fence <= seen {
				return errors.New("too late: refused by the row")
			}
			seen = fence
			return nil
		})
		fmt.Println("sold:", err)
	}
	// Output:
	// sold: <nil>
	// sold: <nil>
}
