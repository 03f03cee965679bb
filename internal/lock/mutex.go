package lock

import (
	"context"
	"sync"

	"lastitem/internal/step"
)

// Mutex is a lock inside this process: exact with one replica, and no lock at all between replicas, because each has
// its own.
type Mutex struct {
	steps *step.Stream
	mu    sync.Mutex
	held  map[string]*turnstile
}

// turnstile lets one holder through; its slot is full while the lock is held. It is deleted with its last user.
type turnstile struct {
	slot  chan struct{}
	users int
}

// NewMutex returns a process-local lock.
func NewMutex(steps *step.Stream) *Mutex {
	return &Mutex{steps: steps, held: map[string]*turnstile{}}
}

// Acquire waits for key inside this process. It refuses a lease time: [ErrLeaseTime].
func (m *Mutex) Acquire(ctx context.Context, key string) (Lease, error) {
	ctx = BeginWait(ctx)
	if err := RefuseLease(ctx, "mutex"); err != nil {
		return nil, err
	}
	m.steps.At(ctx, step.Waiting, key)
	t := m.enter(key)
	if err := t.take(ctx); err != nil {
		m.leave(key)
		return nil, err
	}
	m.steps.At(ctx, step.Locked, key)
	return &mutexLease{m: m, key: key, ctx: ctx}, nil
}

// take fills the slot, or gives up with ErrBusy.
func (t *turnstile) take(ctx context.Context) error {
	select {
	case t.slot <- struct{}{}:
		return nil
	default:
	}
	limit, stop := WaitContext(ctx)
	defer stop()
	select {
	case t.slot <- struct{}{}:
		return nil
	case <-limit.Done():
		return GaveUp(ctx)
	}
}

func (m *Mutex) enter(key string) *turnstile {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.held[key]
	if t == nil {
		t = &turnstile{slot: make(chan struct{}, 1)}
		m.held[key] = t
	}
	t.users++
	return t
}

func (m *Mutex) leave(key string) *turnstile {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.held[key]
	t.users--
	if t.users == 0 {
		delete(m.held, key)
	}
	return t
}

type mutexLease struct {
	m    *Mutex
	key  string
	ctx  context.Context
	once sync.Once
}

// Context never ends early: a mutex cannot be lost.
func (l *mutexLease) Context() context.Context { return l.ctx }

// Fence is 0: a mutex issues no fencing token.
func (l *mutexLease) Fence() uint64 { return 0 }

// Release lets the next waiter of this process through.
func (l *mutexLease) Release(ctx context.Context) error {
	l.once.Do(func() {
		l.m.steps.At(ctx, step.Releasing, l.key)
		<-l.m.leave(l.key).slot
		l.m.steps.At(ctx, step.Released, l.key)
	})
	return nil
}
