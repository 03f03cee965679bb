package handoff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lastitem/internal/lock"
)

// Holder is a hold of a lock, as Redis has it.
type Holder struct {
	// Host and PID are those of the process that holds the lock. Host is "" if no engine of this version took it.
	Host string
	PID  int
	// Reads says that it is a reader of [Engine.ReadWrite].
	Reads bool
	// TTL is how long the hold lasts if it is not renewed; negative = it does not expire.
	TTL   time.Duration
	token string
}

// Inspection is the state of one lock at one moment. It is for people and dashboards: at the next moment it may differ,
// so a program that decides by it has a race.
type Inspection struct {
	// Holders are those who hold the lock: nobody, one holder, or readers. A writer that has its turn and waits for the
	// last readers is listed before them. No more than 1000 readers are listed.
	Holders []Holder
	// Fence is the highest fencing token that was reserved for a holder; 0 = no counter is kept now.
	Fence uint64
	// Queue is how many attempts of all processes wait in Redis. With [Engine.Handoff] a process makes one for all its
	// callers.
	Queue int
	// Waiting is how many callers of this engine wait for the lock.
	Waiting int
}

// Inspect asks Redis for the holders and the waiters of the lock of key. It takes a command, returns
// [lock.ErrUnavailable] if Redis does not answer, joined with [ErrVersion] if the key has a type that no lock has, and
// does not wait for longer than ctx lasts.
func (e *Engine) Inspect(ctx context.Context, key string) (Inspection, error) {
	var found Inspection
	err := e.within(ctx, func() (err error) {
		found, err = e.inspect(key)
		return err
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("%w: engine: inspect %q: %w", lock.ErrUnavailable, key, err)
	}
	return found, nil
}

func (e *Engine) inspect(key string) (Inspection, error) {
	var found Inspection
	key = e.keyName(key)
	e.mu.Lock()
	for _, c := range e.attempts {
		if c.key == key {
			found.Waiting += c.waiters.size
		}
	}
	e.mu.Unlock()
	k := KeysOf(key)
	r := newRequest(engineInspect, k.Lock, k.Queue, k.Fence, k.Readers)
	e.server.do(r)
	v, _ := r.reply.([]any)
	switch {
	case hasCode(r.err, "WRONGTYPE"):
		return found, errors.Join(ErrVersion, r.err)
	case r.err != nil:
		return found, r.err
	case len(v) != 5:
		return found, fmt.Errorf("unexpected answer %v", r.reply)
	}
	if owner, _ := v[0].(string); owner != "" {
		found.Holders = append(found.Holders, newHolder(owner, number(v[1])))
	}
	readers, _ := v[4].([]any)
	for pair := range slices.Chunk(readers, 2) {
		reader := newHolder(fmt.Sprint(pair[0]), number(pair[1]))
		reader.Reads = true
		found.Holders = append(found.Holders, reader)
	}
	found.Queue = int(number(v[2]))
	fence, _ := v[3].(string)
	found.Fence, _ = strconv.ParseUint(fence, 10, 64)
	return found, nil
}

func newHolder(token string, ttl int64) Holder {
	h := Holder{TTL: time.Duration(ttl) * time.Millisecond, token: token}
	h.Host, h.PID = whose(token)
	return h
}
