package lock_test

import (
	"context"
	"fmt"
	"time"

	"lastitem/internal/lock"
)

// One process, one mutex per key. Another process has others.
func ExampleMutex() {
	a, b := lock.NewMutex(nil), lock.NewMutex(nil) // two processes
	lease, _ := tryOnce(a, "product 101")
	_, err := tryOnce(a, "product 101")
	fmt.Println("the same process:", err)
	_, err = tryOnce(b, "product 101")
	fmt.Println("another process:", err)
	fmt.Println("released:", lease.Release(context.Background()))
	// Output:
	// the same process: lock: busy
	// another process: <nil>
	// released: <nil>
}

// A cart of two products: both locks or none, in the same order for everybody.
func ExampleAcquireAll() {
	_, client, stop := exampleRedis()
	defer stop()
	locker := lock.NewLua(client, 10*time.Second, nil)
	ctx := context.Background()
	cart, err := lock.AcquireAll(ctx, locker, "lock:{102}", "lock:{101}", "lock:{102}")
	fmt.Println("cart:", err)
	_, err = tryOnce(locker, "lock:{101}")
	fmt.Println("one of its products:", err)
	fmt.Println("released:", cart.Release(ctx))
	// Output:
	// cart: <nil>
	// one of its products: lock: busy
	// released: <nil>
}
