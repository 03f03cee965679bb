// Package lock defines the contract of a lock: [Locker] and [Lease], their errors, and [WithWait]. It also contains
// [Mutex], the lock within one process, and [AcquireAll], which acquires several keys of any locker.
//
// The other locks are in packages below this one, none of which imports another: textbook has the Redis locks that
// every write-up shows, each with what breaks it; handoff is the lock engine, which improves on them; coord has the
// locks of etcd, Consul and ZooKeeper; sqllock has those of a database. All of them keep the contract and pass one
// conformance suite, locktest. lease_wait.go names the parts for a new lock. docs/locks.md compares them and says when
// to use each.
package lock

import (
	"context"
	"errors"
)

// The errors of a lock. None of them says that anything was deducted.
var (
	// ErrBusy: somebody else held the lock for the caller's whole wait. The caller holds nothing.
	ErrBusy = errors.New("lock: busy")
	// ErrLost: the lease ended, or was taken over, before its holder released it.
	ErrLost = errors.New("lock: lease lost")
	// ErrUnavailable: the lock's store did not answer; if it has granted the lock, that is undone, or the lock expires.
	ErrUnavailable = errors.New("lock: store unavailable")
)

// A Locker gives one caller at a time access to the resource that a key names.
type Locker interface {
	// Acquire makes one attempt, and then waits no longer than [WithWait] allows (without it: until ctx ends). If the wait
	// runs out, the error is [ErrBusy]; if ctx ends it, ErrBusy joined with the cause of ctx. After an error nothing is
	// held.
	Acquire(ctx context.Context, key string) (Lease, error)
}

// A Lease is one hold of a lock. It is the identity of its holder; goroutines have none.
type Lease interface {
	// Context ends, with cause [ErrLost], when the lease can no longer be trusted. It carries the lease, so that an
	// Acquire under [WithReentry] of it re-enters where the lock is reentrant.
	Context() context.Context
	// Fence is the fencing token, which rises with every hold of the key; 0 = this lock issues none. The lock's
	// constructor documents when it may go back.
	Fence() uint64
	// Release gives the lock up: nil, [ErrLost], or another error when it is unknown whether it was released. It may be
	// repeated, works after ctx has ended, and takes at most a few seconds.
	Release(ctx context.Context) error
}

// Do runs f while it holds the lock of a key, and gives the lock up, also after a panic. f should end when the lease's
// context does. The error is that of Acquire, and then f has not run, or that of f and of Release: with [ErrLost] a
// rival may have run meanwhile.
func Do(ctx context.Context, l Locker, key string, f func(Lease) error) (err error) {
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	return f(lease)
}
