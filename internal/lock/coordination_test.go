package lock_test

import (
	"context"
	"sync"
	"testing"

	"lastitem/internal/lock"
)

// fifo starts waiters one after the other behind a held lock and returns the order in which they got it. queued waits until n of
// them stand in the queue.
func fifo(t *testing.T, l lock.Locker, key string, n int, queued func(n int)) []int {
	t.Helper()
	lease := obtain(t, l, key)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lease, err := l.Acquire(lock.WithWait(t.Context(), soon), key)
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
		queued(i + 2)
	}
	letGo(t, lease)
	wg.Wait()
	return order
}
