package lock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"lastitem/internal/lock"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/step"
)

func TestMain(m *testing.M) { locktest.Main(m) }

func TestMutex(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	locktest.Run(t, locktest.Kind{
		Name: "mutex", Local: true, NoLate: "no network is in between",
		Process: func(_ *testing.T, s *step.Stream) lock.Locker { return lock.NewMutex(s) },
		Key:     func() string { return fmt.Sprint("k", n.Add(1)) },
	})
}

// One process, one mutex per key. Another process has others.
func ExampleMutex() {
	a, b := lock.NewMutex(nil), lock.NewMutex(nil) // two processes
	lease, _ := locktest.TryOnce(a, "product 101")
	_, err := locktest.TryOnce(a, "product 101")
	fmt.Println("the same process:", err)
	_, err = locktest.TryOnce(b, "product 101")
	fmt.Println("another process:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// the same process: lock: busy
	// another process: <nil>
	// released: <nil>
}

// A cart of two products: both locks or none, in the same order for everybody.
func ExampleAcquireAll() {
	locker := lock.NewMutex(nil)
	ctx := context.Background()
	cart, err := lock.AcquireAll(ctx, locker, "lock:{102}", "lock:{101}", "lock:{102}")
	fmt.Println("cart:", err)
	_, err = locktest.TryOnce(locker, "lock:{101}")
	fmt.Println("one of its products:", err)
	fmt.Println("released:", cart.Release(ctx))
	// Output:
	// cart: <nil>
	// one of its products: lock: busy
	// released: <nil>
}
