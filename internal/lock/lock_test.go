package lock_test

import (
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
