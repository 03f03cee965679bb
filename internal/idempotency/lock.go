package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
)

// Lock is the lock on a key for as long as a request with it is in flight. It only makes rivals answer at once: whether
// a request is the first, the [Table] decides.
type Lock struct {
	Locker lock.Locker           // a lock of the engine
	Client redis.UniversalClient // where it keeps its keys
	Prefix string                // of these keys
	TTL    time.Duration         // after which the lock of a dead holder is free
}

// Acquire takes the lock without waiting; *InFlightError = another request with the key has it.
func (l *Lock) Acquire(ctx context.Context, key []byte) (lock.Lease, error) {
	name := l.name(key)
	lease, err := l.Locker.Acquire(lock.WithWait(ctx, 0), name)
	if errors.Is(err, lock.ErrBusy) {
		return nil, l.inFlight(ctx, name, err)
	}
	return lease, err
}

// name is the lock's name: the hash of the key, since a key may be any bytes.
func (l *Lock) name(key []byte) string {
	sum := sha256.Sum256(key)
	name := make([]byte, 0, 64)
	name = append(append(name, l.Prefix...), "lock:key:{"...)
	return string(append(hex.AppendEncode(name, sum[:16]), '}'))
}

// inFlight is the error of a request whose key is locked. Its holder renews the lock while it is alive, and a killed
// process leaves it behind for its TTL: the error says how much of that is over, and how much is left.
func (l *Lock) inFlight(ctx context.Context, name string, cause error) error {
	left, err := l.Client.PTTL(ctx, name).Result()
	if err != nil {
		left = 0 // the error works without it
	}
	left = max(left, 0)
	return &InFlightError{Held: max(l.TTL-left, 0), Left: left, Cause: cause}
}

// InFlightError is [ErrInFlight] with how long the key has been taken, and stays taken if nobody works for the first
// request any more.
type InFlightError struct {
	Held  time.Duration // since the last sign of life of the first request
	Left  time.Duration // 0 = unknown
	Cause error
}

// soonest is how long a client waits at least before it repeats.
const soonest = time.Second

// Again is when to repeat: after as long as the key has been held already, and not after it is free. A first request
// that is alive ends in milliseconds as a rule, and a client that comes back learns so in a second; one whose process
// was killed is asked about a few times only, ever less often, before its key is free.
func (e *InFlightError) Again() time.Duration {
	return max(min(e.Held, e.Left), soonest)
}

// Error says when the key is free at the latest, if that is known.
func (e *InFlightError) Error() string {
	if e.Left == 0 {
		return fmt.Sprintf("%v: %v", ErrInFlight, e.Cause)
	}
	return fmt.Sprintf("%v, its key is free in %s at the latest: %v", ErrInFlight, e.Left, e.Cause)
}

// Is makes errors.Is(err, ErrInFlight) hold.
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

// Unwrap returns the lock's error.
func (e *InFlightError) Unwrap() error { return e.Cause }
