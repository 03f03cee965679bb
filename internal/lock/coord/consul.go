// Package coord has the locks of coordination services, whose leases and sessions end with their process: [Etcd],
// [Consul] and [ZooKeeper].
package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Consul is the lock of Consul's sessions: a key that one session at a time may hold, a session that ends with its TTL,
// and a lock-delay, during which nobody can acquire the key of an invalidated session, so that the holder learns of the
// loss first.
//
// All holds of a process share one session, and a session may acquire a key that it already holds. So each key has a
// turnstile, which also admits one contender per process. A release wakes the contenders of all processes: there is no
// queue between processes.
//
// What breaks it: a process that stops as a whole for longer than TTL and lock-delay. A rival enters, and the process
// finishes its write when it continues. A write to Consul itself can be guarded with [ConsulLease.IsOwner], any other
// write with the fence.
type Consul struct {
	c        *api.Client
	opts     ConsulOptions
	steps    *step.Stream
	local    *lock.Mutex
	sessions *lock.Sessions
}

// ConsulOptions are the times of a session.
type ConsulOptions struct {
	// TTL is for how long a session lives without renewal, 10 s (or the agent's session_ttl_min) to 24 h; 0 = 10 s. Consul
	// lets it live up to twice as long.
	TTL time.Duration
	// LockDelay is how long nobody can acquire a key after its session was invalidated (a release has no delay); 0 =
	// Consul's 15 s, at most 60 s. If it is less than a third of TTL, the time between two renewals, a rival may enter
	// before the holder is told.
	LockDelay time.Duration
}

// NewConsul returns the lock on c. Close it.
//
// To take the lock away from a holder, destroy its session. If its key is deleted instead, the holder is not told, and
// a rival enters beside it.
//
// The fence goes back if the servers get older data (a snapshot), or other data.
func NewConsul(c *api.Client, opts ConsulOptions, steps *step.Stream) *Consul {
	opts.TTL = cmp.Or(opts.TTL, 10*time.Second)
	l := &Consul{c: c, opts: opts, steps: steps, local: lock.NewMutex(nil)}
	l.sessions = lock.NewSessions(l.open)
	return l
}

// Close destroys the process's session; locks still held are lost, and none can be acquired any more.
func (l *Consul) Close() error { return l.sessions.Close() }

// open makes a session that depends only on its renewal: with the node's health check, Consul's default, a short fault
// of the agent's network would take the locks of living processes.
func (l *Consul) open(ctx context.Context) (*lock.Session, error) {
	sent := time.Now()
	id, _, err := l.c.Session().CreateNoChecks(&api.SessionEntry{
		Name: "lastitem", TTL: l.opts.TTL.String(), LockDelay: l.opts.LockDelay, Behavior: api.SessionBehaviorDelete,
	}, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("%w: consul: session: %w", lock.ErrUnavailable, err)
	}
	s := &lock.Session{
		Name: id,
		Renew: func(ctx context.Context) error {
			entry, _, err := l.c.Session().Renew(id, (&api.WriteOptions{}).WithContext(ctx))
			if err == nil && entry == nil {
				return lock.ErrLost
			}
			return err
		},
		End: func(ctx context.Context) error {
			_, err := l.c.Session().Destroy(id, (&api.WriteOptions{}).WithContext(ctx))
			return err
		},
	}
	return s.Start(sent, l.opts.TTL), nil
}

// Acquire waits for its turn in this process, and then for the key.
func (l *Consul) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "consul"); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	turn, err := l.local.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	s, err := l.sessions.Get(ctx)
	if err != nil {
		return nil, errors.Join(err, turn.Release(ctx))
	}
	h := &consulHold{l: l, s: s, key: key, turn: turn}
	if err := h.enter(ctx); err != nil {
		s.Leave()
		return nil, err
	}
	lease := &ConsulLease{lock.SessionLease{Session: s, Kind: "consul", Key: key, Num: h.index, Steps: l.steps,
		Free: h.free}}
	lease.Bind(ctx)
	l.steps.At(ctx, step.Locked, key)
	return lease, nil
}

// consulHold is a hold of a key, or an attempt at one. It keeps the turnstile of its process until it is certain that
// it holds nothing. Until then, any hold of the key by our session is this one.
type consulHold struct {
	l    *Consul
	s    *lock.Session
	key  string
	turn lock.Lease

	mu         sync.Mutex      // releases may be repeated while one is under way
	passed     bool            // the turnstile
	index      uint64          // of the key, set by this acquire
	over       <-chan struct{} // closed when the last acquire is answered, or given up
	unanswered bool            // that acquire may still arrive; valid once over is closed
}

// The random sleep before a try after a wake-up, which reaches all waiting processes at once. During a lock-delay it
// doubles, up to consulShut.
const (
	consulSpread = 5 * time.Millisecond
	consulShut   = 250 * time.Millisecond
	consulPoll   = 10 * time.Second // the longest blocking query
)

// enter tries to take the key, and after each failed try waits until the key is free. If it returns an error, it has
// registered cleanups with the session for anything left at the server.
func (h *consulHold) enter(ctx context.Context) error {
	limit, stop := h.s.Waiting(ctx)
	defer stop()
	spread := consulSpread
	for {
		ok, err := h.try(ctx)
		if err == nil && h.s.Lost() { // the answer came late: the session may be gone, and the key with it
			err = lock.ErrLost
		}
		var refusal *consulRefusedError
		switch {
		case errors.As(err, &refusal):
			h.pass(ctx)
			return h.s.Failed(ctx, ctx, "consul", err)
		case err != nil:
			h.s.Tidy(ctx, h.takeBack)
			return h.s.Failed(ctx, ctx, "consul", err)
		}
		if ok {
			return nil
		}
		waited, err := h.wait(ctx, limit)
		if err == nil {
			spread = min(2*spread, consulShut)
			if waited {
				spread = consulSpread
			}
			err = lock.Pause(ctx, rand.N(spread), h.s.Context().Done())
		}
		if err != nil {
			h.pass(ctx)
			return err
		}
	}
}

// try sends one acquire, as a transaction, because its answer then contains the index. If it is refused because the key
// is not free, try returns false; any other refusal is an error.
func (h *consulHold) try(ctx context.Context) (bool, error) {
	index, over, err := lock.Send(ctx, func(ctx context.Context) (uint64, error) {
		res, err := h.txn(ctx, &api.KVTxnOp{Verb: api.KVLock, Key: h.key, Session: h.s.Name})
		var refusal *consulRefusedError
		h.unanswered = err != nil && !errors.As(err, &refusal)
		if err != nil {
			return 0, err
		}
		return res.Results[0].KV.ModifyIndex, nil
	})
	h.index, h.over = index, over
	var refusal *consulRefusedError
	switch {
	case !errors.As(err, &refusal):
		return err == nil, err
	case refusal.says("already held", "lock delay"):
		return false, nil
	case refusal.says("invalid session"):
		h.s.Lose()
	}
	return false, err
}

// wait returns when the key looks free, and reports whether it had to wait; the error says that limit has ended.
func (h *consulHold) wait(ctx, limit context.Context) (waited bool, err error) {
	if !lock.MayWait(ctx) {
		return false, lock.GaveUp(ctx)
	}
	for seen := uint64(0); ; {
		q := (&api.QueryOptions{WaitIndex: seen, WaitTime: consulPoll, RequireConsistent: true}).WithContext(limit)
		pair, meta, err := h.l.c.KV().Get(h.key, q)
		switch {
		case err != nil:
			return waited, h.s.Failed(ctx, limit, "consul", err)
		case pair == nil || pair.Session == "":
			return waited, nil
		case meta.LastIndex == 0:
			return waited, fmt.Errorf("%w: consul: a blocking query without an index", lock.ErrUnavailable)
		}
		seen, waited = meta.LastIndex, true
	}
}

// takeBack undoes an acquire whose outcome is unknown. It first waits for the end of that acquire, which it must not
// overtake. An acquire without an answer may still arrive, so the session is retired before this process's next
// contender for the key opens another.
func (h *consulHold) takeBack(ctx context.Context) error {
	if err := lock.Await(ctx, h.over); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.removeOurs(ctx)
	if err != nil {
		return err
	}
	if h.unanswered {
		h.s.Retire(h.removeOurs)
	}
	h.leave(ctx)
	return nil
}

// removeOurs deletes the key if our session holds it, whichever acquire took it.
func (h *consulHold) removeOurs(ctx context.Context) error {
	pair, err := h.ours(ctx)
	if err == nil && pair != nil {
		err = h.remove(ctx, pair.ModifyIndex)
	}
	return err
}

// free gives the key up if it is still the one that this hold acquired.
func (h *consulHold) free(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passed {
		return lock.ErrLost // an earlier run has already given the lock up
	}
	err := h.remove(ctx, h.index)
	var refusal *consulRefusedError
	if errors.As(err, &refusal) { // gone; or still ours, but written by another client without the lock
		var pair *api.KVPair
		pair, err = h.ours(ctx)
		switch {
		case err == nil && pair == nil:
			err = lock.ErrLost
		case err == nil:
			err = h.remove(ctx, pair.ModifyIndex)
		}
	}
	if err == nil || errors.Is(err, lock.ErrLost) {
		h.leave(ctx)
	}
	return err
}

// ours reads the key; nil when our session does not hold it.
func (h *consulHold) ours(ctx context.Context) (*api.KVPair, error) {
	pair, _, err := h.l.c.KV().Get(h.key, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil || pair == nil || pair.Session != h.s.Name {
		return nil, err
	}
	return pair, nil
}

// remove deletes the key if its index is the one given. Deleting frees the lock at once, without a lock-delay, and
// leaves no key. The index keeps a repeated or late delete from freeing another holder's lock: it is refused.
func (h *consulHold) remove(ctx context.Context, index uint64) error {
	_, err := h.txn(ctx, consulIsOwner(h.key, index), &api.KVTxnOp{Verb: api.KVDelete, Key: h.key})
	return err
}

// pass lets the next contender of this process through, after an attempt that holds nothing.
func (h *consulHold) pass(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave(ctx)
}

func (h *consulHold) leave(ctx context.Context) {
	h.passed = true
	_ = h.turn.Release(ctx) // releasing a mutex cannot fail, and may be repeated
}

func consulIsOwner(key string, index uint64) *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: index}
}

// txn runs operations on keys. With a [consulRefusedError] the server has applied none of them.
func (h *consulHold) txn(ctx context.Context, ops ...*api.KVTxnOp) (*api.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	all := make(api.TxnOps, len(ops))
	for i, op := range ops {
		all[i] = &api.TxnOp{KV: op}
	}
	ok, res, _, err := h.l.c.Txn().Txn(all, (&api.QueryOptions{}).WithContext(ctx))
	if err == nil && !ok {
		err = &consulRefusedError{res.Errors}
	}
	return res, err
}

// consulRefusedError has the reasons for which the server refused a transaction. They have no numbers, only texts.
type consulRefusedError struct{ reasons api.TxnErrors }

// Error lists the reasons.
func (r *consulRefusedError) Error() string {
	var all []string
	for _, reason := range r.reasons {
		all = append(all, reason.What)
	}
	return "refused: " + strings.Join(all, "; ")
}

// says reports whether one of the reasons contains one of the texts.
func (r *consulRefusedError) says(texts ...string) bool {
	return slices.ContainsFunc(r.reasons, func(reason *api.TxnError) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(reason.What, text) })
	})
}

// ConsulLease is the [lock.Lease] of a [Consul]. Its fence is the index that its acquire gave the key: Consul counts
// them over all writes, so it rises with every hold. (LockIndex does not: it starts again with each key.)
type ConsulLease struct{ lock.SessionLease }

// IsOwner is refused by the server unless the lock is held by this lease. In a transaction it guards a write to Consul
// against a holder whose session ended without its knowledge.
func (l *ConsulLease) IsOwner() *api.KVTxnOp {
	return consulIsOwner(l.Key, l.Num)
}
