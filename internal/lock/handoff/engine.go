package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/redisbatch"
	"lastitem/internal/step"
)

// The errors that only the engine has.
var (
	// ErrClosed: the engine was closed while the caller waited, or before. The caller holds nothing. It is also
	// [lock.ErrUnavailable].
	ErrClosed = fmt.Errorf("%w: engine closed", lock.ErrUnavailable)
	// ErrRefused: Redis refuses the request for a reason that only an operator can change: the rights of the user, the
	// type of a key. It comes with [lock.ErrUnavailable]; a repetition is of no use.
	ErrRefused = errors.New("lock: refused by the server")
	// ErrKey: the other keys of the lock cannot be kept in the slot of this key: in a cluster, a key without a hash
	// tag must have no brace that closes. Nothing was sent.
	ErrKey = errors.New("lock: no hash tag fits the key")
	// ErrReplicas: too few replicas confirmed the lock in time; it was released again. It comes with
	// [lock.ErrUnavailable].
	ErrReplicas = errors.New("lock: not enough replicas")
	// ErrVersion: another version of the engine, or something that is no engine, has written the key of the lock. It comes
	// with [lock.ErrUnavailable], and nothing is held. From the Release of a read it says that the lock is released, and
	// was not held alone.
	ErrVersion = errors.New("lock: another version of the engine is in use")
)

// Options says how an engine's locks behave. The zero value of a field is its default.
type Options struct {
	// TTL is how long a holder that no longer renews keeps the lock; default 30 s, at least 50 ms.
	TTL time.Duration
	// Cohort and CohortTime bound how many holders of one process follow each other before the lock goes on to the next
	// process; default 16, and no further one after 50 ms. They apply to [Engine.Handoff]. A grant reserves Cohort fences:
	// with hundreds the fence after a failover may be below those before it (see [Keys]).
	Cohort     int
	CohortTime time.Duration
	// GrantTimeout is how long a process may take to answer a grant that it got by a message; default 2.5 s, at most TTL.
	// A process that is frozen, or gets no CPU, loses the lock after this time, and its rivals wait that long.
	GrantTimeout time.Duration
	// AttemptLimit is how long an attempt may go unanswered if [lock.WithWait] bounds the wait. Acquire then returns at
	// most this long after its wait has run out, whether or not Redis answers. Default 1 s; if Replicas are asked,
	// ReplicasTimeout is added.
	AttemptLimit time.Duration
	// CallTimeout is how long one command may go unanswered; default 2 s. A release then returns "unknown", after it was
	// sent again if time was left, and the engine repeats it in the background.
	CallTimeout time.Duration
	// MaxHold ends a lease that was held for so long, renewed or not; 0 = never.
	MaxHold time.Duration
	// Replicas must confirm every acquire within ReplicasTimeout (default 1 s, in whole milliseconds), else [ErrReplicas].
	// That narrows the hole of a failover and does not close it: a fence, checked at the data, does. 0 = none are asked.
	Replicas        int
	ReplicasTimeout time.Duration
	// Prefix begins the names of all keys and channels of the engine: engines with different prefixes have nothing in
	// common. A key without a hash tag gets one then, so that the keys beside it have the prefix too; see [Engine.KeysOf].
	// If the prefix has braces, it must contain a whole hash tag. Default none.
	Prefix string
	// Probe begins the name of the lock that [Engine.Check] takes; default "lock:check:".
	Probe string
	// Logger gets a warning when something goes wrong in the background, where no caller sees it: a renewal or a cancel
	// without an answer, a lost lease, a lost message or subscription, a late grant. There is at most one line about each
	// kind in ten seconds; it says how many were omitted. Nil = nothing is logged. [Metrics] count the same.
	Logger *slog.Logger
	// Steps and Metrics are told what happens; both may be left out.
	Steps   *step.Stream
	Metrics Metrics
}

// Engine is the lock of one process on one Redis deployment: [Engine.Handoff], [Engine.Fair], [Engine.Fenced] and
// [Engine.ReadWrite].
//
// A free lock costs two commands. A held lock has a queue in Redis. The release script makes the first waiter of the
// queue the owner and tells its process by a message, so waiting costs nothing and the next holder sends nothing. For
// all locks together, one connection listens and one timer renews and expires: there is no goroutine per lock. A
// message may be lost, so every process polls each key that it waits for, by default within two seconds.
//
// The engine assumes that the clocks of this process and of the Redis server run at the same speed within 1 %. It does
// not protect from a holder whose whole process stops and goes on writing afterwards. Check its [lock.Lease.Fence] at
// the data; fences go back only with the clock of Redis (see [Keys]), and those of [Engine.Fenced] not even then.
type Engine struct {
	clock
	o            Options
	id           string
	grantTimeout time.Duration
	server       server
	subscriber   subscriber
	keeper       keeper
	m            meter
	log          backgroundLog

	mu         sync.Mutex // guards everything below, and every contender and hold
	lastNumber uint64
	contenders map[string]*contender // those of Handoff, by key: all its waiters of this process share one
	attempts   map[string]*contender // contenders by their token, while the attempt lasts
	pollers    pollers
	cleaner    cleaner
	agenda     agenda
	closed     bool
	running    sync.WaitGroup
}

const minTTL = 50 * time.Millisecond // of a lock

// longest bounds all times: a multiple of a longer one does not fit in a [time.Duration].
const longest = 10 * 365 * 24 * time.Hour

// New returns an engine on c. It sends nothing yet. Close it. Under ACLs its user needs +@connection +@read
// +@write +@scripting +@pubsub +time +wait and the channels lock:engine:* (with [Options.Prefix]: below that prefix),
// in a cluster +cluster as well.
//
// Redis must not evict keys (maxmemory-policy noeviction): volatile-* evicts keys with a TTL, as every held lock has
// one, and allkeys-* evicts any key. An evicted lock is free while its holder still relies on it. The application must
// not use the names of [Keys] for its own keys.
//
// Let c have ContextTimeoutEnabled, or short timeouts, and MaxRetries -1, in a cluster also MaxRedirects -1: the engine
// repeats what was not answered, and knows then that a copy may arrive late. With a client that repeats by itself, it
// takes every answer that took longer than the client's MinRetryBackoff for the second one: that costs a command more
// for such a hold, and Release says nil where the lock was deleted by hand.
func New(c redis.UniversalClient, o Options) (*Engine, error) {
	if c == nil {
		return nil, errors.New("lock: engine: no client")
	}
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	e := &Engine{
		clock: clock{time.Now()}, o: o, id: processID(), grantTimeout: min(o.TTL, o.GrantTimeout), m: meter{o.Metrics},
		contenders: map[string]*contender{}, attempts: map[string]*contender{},
	}
	e.server = server{
		clock: e.clock, c: c, o: &e.o, publish: "PUBLISH", ttl: decimal(o.TTL.Milliseconds()), onReply: e.keeper.noteReply,
		m:       &e.m,
		batches: redisbatch.New(c, o.CallTimeout),
	}
	e.keeper.e, e.cleaner.e = e, e
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		e.server.mayRepeat(o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff)
		e.keeper.stale = func() uint32 { return c.PoolStats().StaleConns }
		e.keeper.staleConns.Store(e.keeper.stale())
	case *redis.ClusterClient:
		o := c.Options()
		e.server.mayRepeat(max(o.MaxRedirects, o.MaxRetries), o.MinRetryBackoff, o.MaxRetryBackoff)
		e.server.publish = "SPUBLISH"
	case *redis.Ring:
		return nil, errors.New("lock: engine: a redis.Ring may listen at another server than a key's; give each server an " +
			"engine")
	default:
		return nil, fmt.Errorf("lock: engine: %T is no *redis.Client or *redis.ClusterClient: to trace, use hooks", c)
	}
	e.server.route = e.server.publish + " " + o.Prefix + engineChannel
	e.subscriber = subscriber{e: e, byNode: map[string]*nodeSubscriber{}, prefix: o.Prefix + engineChannel + e.id}
	e.pollers = pollers{e: e, byKey: map[string]*poller{}, byChannel: map[string]*fifo[poller]{}}
	e.agenda = agenda{clock: e.clock, ring: e.tick}
	e.log = backgroundLog{clock: e.clock, m: &e.m, log: o.Logger}
	return e, nil
}

func (o *Options) setDefaults() {
	o.TTL = cmp.Or(o.TTL, 30*time.Second)
	o.Cohort = cmp.Or(o.Cohort, 16)
	o.CohortTime = cmp.Or(o.CohortTime, 50*time.Millisecond)
	o.ReplicasTimeout = cmp.Or(o.ReplicasTimeout, time.Second)
	o.GrantTimeout = cmp.Or(o.GrantTimeout, 2500*time.Millisecond)
	o.AttemptLimit = cmp.Or(o.AttemptLimit, time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, lock.CleanupTimeout)
	o.Probe = cmp.Or(o.Probe, "lock:check:")
}

// check refuses options that are out of bounds.
func (o *Options) check() error {
	switch {
	case o.TTL < minTTL:
		return fmt.Errorf("lock: engine: TTL %s, want at least %s", o.TTL, minTTL)
	case max(o.TTL, o.CohortTime, o.GrantTimeout, o.AttemptLimit) > longest,
		max(o.CallTimeout, o.MaxHold, o.ReplicasTimeout) > longest:
		return fmt.Errorf("lock: engine: a time is above the longest, %s", longest)
	case o.Cohort < 1 || o.Replicas < 0 || o.ReplicasTimeout < time.Millisecond ||
		min(o.CohortTime, o.AttemptLimit, o.CallTimeout, o.MaxHold) < 0:
		return errors.New("lock: engine: a bound is negative, or ReplicasTimeout is less than 1ms")
	case strings.ContainsAny(o.Prefix, "{}") && lock.HashTag(o.Prefix) == "":
		return fmt.Errorf("lock: engine: Prefix %q has braces but no whole hash tag", o.Prefix)
	case o.GrantTimeout < minTTL:
		return fmt.Errorf("lock: engine: GrantTimeout %s, want at least %s", o.GrantTimeout, minTTL)
	}
	return nil
}

// Handoff is the lock for throughput: waiters of this process queue here, and pass the lock on among themselves, at
// most [Options.Cohort] in a row. Processes are served in turn, and the waiters of each in the order in which they
// came.
func (e *Engine) Handoff() lock.Locker { return modeLocker{e, handingOff} }

// Fair is the lock that serves every waiter of every process in the order in which Redis saw them come. It is the same
// lock as [Engine.Handoff] where keys are the same.
func (e *Engine) Fair() lock.Locker { return modeLocker{e, exclusive} }

// modeLocker is the engine as a locker of one mode.
type modeLocker struct {
	e *Engine
	m mode
}

func (l modeLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return l.e.acquire(ctx, key, l.m)
}

// validUntil returns until when a lock is surely not expired in Redis, if a request that was sent at sent gave it this
// TTL.
func validUntil(sent, ttl time.Duration) time.Duration { return sent + lock.ValidFor(ttl) }

// spawn runs f unless the engine is closed. It is called with the mutex held.
func (e *Engine) spawn(f func()) {
	if !e.closed {
		e.running.Go(f)
	}
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Close fails every waiter with [ErrClosed], releases every hold, whose context ends, and stops listening. ctx bounds
// it; on an error of ctx what was not released expires. It may be repeated.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	var held []*hold
	for _, c := range e.attempts {
		if c.hold != nil {
			held = append(held, c.hold)
			c.hold.end(holdEnded, c.validUntil, context.Canceled) // now: what is released late may have expired by then
		}
		if c.waiters.size > 0 {
			c.failWaiters(ErrClosed, true)
		}
	}
	e.closed = true
	e.agenda.close()
	e.mu.Unlock()
	failed := make([]error, len(held))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i, h := range held {
			wg.Go(func() { failed[i] = h.once.Do(func() error { return h.release(ctx) }) })
			if i%64 == 63 {
				wg.Wait()
			}
		}
		wg.Wait()
		e.running.Wait()
		e.server.batches.Wait()
		e.subscriber.close()
		e.log.close()
	}()
	select {
	case <-done:
		return errors.Join(failed...)
	case <-ctx.Done():
		return ctx.Err()
	}
}
