package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// exampleEngine returns an engine on an embedded Redis.
func exampleEngine() (e *lock.Engine, stop func()) {
	_, client, end := exampleRedis()
	e, err := lock.NewEngine(client, lock.EngineOptions{})
	if err != nil {
		panic(err)
	}
	return e, func() {
		_ = e.Close(context.Background())
		end()
	}
}

// sell is a section under a lock: the data is to check the fence, and the context ends when the lock is lost.
func sell(ctx context.Context, locker lock.Locker, deduct func(ctx context.Context, fence uint64) error) error {
	lease, err := locker.Acquire(lock.WithWait(ctx, time.Second), "lock:{101}")
	if err != nil {
		return err
	}
	defer func() {
		if err := lease.Release(ctx); err != nil {
			slog.WarnContext(ctx, "lock lost, or maybe not released", "fence", lease.Fence(), "err", err)
		}
	}()
	return deduct(lease.Context(), lease.Fence())
}

// What docs/locks.md shows: an engine for the whole process, and a section under one of its locks.
func ExampleEngine() {
	server, _, stop := exampleRedis()
	defer stop()
	addr := server.Addr()

	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	engine, err := lock.NewEngine(client, lock.EngineOptions{TTL: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	defer engine.Close(context.Background())

	for range 2 {
		err := sell(context.Background(), engine.Fair(), func(_ context.Context, fence uint64) error {
			fmt.Println("deduct, unless the data has seen a fence above", fence)
			return nil
		})
		fmt.Println("sold:", err)
	}
	// Output:
	// deduct, unless the data has seen a fence above 1
	// sold: <nil>
	// deduct, unless the data has seen a fence above 2
	// sold: <nil>
}

// The lease's context goes to whatever is done under the lock, and an Acquire with it re-enters.
func ExampleEngine_Handoff() {
	engine, stop := exampleEngine()
	defer stop()
	locker := engine.Handoff()
	lease, _ := tryOnce(locker, "lock:{101}")
	_, err := tryOnce(locker, "lock:{101}")
	fmt.Println("somebody else:", err)
	inner, err := locker.Acquire(lease.Context(), "lock:{101}")
	fmt.Println("the holder again:", err, inner.Release(context.Background()))
	fmt.Println("released:", lease.Release(context.Background()), lease.Release(context.Background()))
	// Output:
	// somebody else: lock: busy
	// the holder again: <nil> <nil>
	// released: <nil> <nil>
}

// First come, first served: whoever queued first is the next holder, and has the next fence.
func ExampleEngine_Fair() {
	engine, stop := exampleEngine()
	defer stop()
	locker := engine.Fair()
	lease, _ := tryOnce(locker, "lock:{101}")
	next := make(chan lock.Lease)
	go func() {
		lease, _ := locker.Acquire(context.Background(), "lock:{101}")
		next <- lease
	}()
	fmt.Println("released:", lease.Release(context.Background()))
	second := <-next
	fmt.Println("fences:", lease.Fence(), second.Fence())
	_ = second.Release(context.Background())
	// Output:
	// released: <nil>
	// fences: 1 2
}

// Redis has lost its counter; the table that checks the fence has seen 7.
func ExampleEngine_Fenced() {
	engine, stop := exampleEngine()
	defer stop()
	seen := func(context.Context, string) (uint64, error) { return 7, nil } // SELECT fence FROM product_stock WHERE id = 101
	lease, _ := tryOnce(engine.Fenced(seen), "lock:{101}")
	fmt.Println("fence:", lease.Fence()) // UPDATE ... SET fence = 8 WHERE id = 101 AND fence <= 8
	_ = lease.Release(context.Background())
	// Output: fence: 8
}
