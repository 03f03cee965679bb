package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"lastitem/internal/lock"
	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/textbook"
)

// family is the role of a contender.
type family string

const (
	bound   family = "bound"   // a limit that the others are compared with
	library family = "library" // somebody else's lock
	ours    family = "lastitem"
)

// A contender is one lock, in one configuration.
type contender struct {
	name, what string
	family     family
	// alone: it works only within one process, which then runs all goroutines.
	alone bool
	// tuned: another configuration of a contender in the list; it runs only if named.
	tuned bool
	// hot: another configuration that only matters for a hot key, and is measured only there.
	hot bool
	// single: it works on a cluster; single is the name of the same lock on one master.
	single string
	// open is nil for a lock in another language, which has its own worker program.
	open func(e *environment) (*opened, error)
}

// foreign reports whether the contender's worker is another program.
func (c contender) foreign() bool { return c.open == nil }

// opened is the common interface of the contenders.
type opened struct {
	// acquire waits until it has the lock of key, or until ctx ends.
	acquire func(ctx context.Context, key string) (held, error)
	close   func()
}

// held is an acquired lock. The libraries return such a type, or nearly.
type held interface {
	Release(ctx context.Context) error
}

// The contenders, in the order of the tables. The names of the bounds are used by measure.go.
const (
	rawName     = "raw"
	ceilingName = "mutex"
)

var contenders = []contender{
	{name: rawName, family: bound, open: openRaw, what: "raw limit: SET NX PX, EVALSHA compare-and-delete, polling " +
		"every 1 ms"},
	{name: "redsync", family: library, open: openRedsync(0), what: "go-redsync, one node, defaults (polls every 50 to " +
		"250 ms)"},
	{name: "redsync-1ms", family: library, tuned: true, open: openRedsync(time.Millisecond),
		what: "go-redsync, one node, polling every 1 ms"},
	{name: "bsm", family: library, open: openBSM(100 * time.Millisecond),
		what: "bsm/redislock, polling every 100 ms as in its README"},
	{name: "bsm-1ms", family: library, tuned: true, open: openBSM(time.Millisecond),
		what: "bsm/redislock, polling every 1 ms"},
	{name: "rueidislock-1", family: library, open: openRueidis(1, true),
		what: "rueidislock as in its README: KeyMajority 1, NoLoopTracking"},
	{name: "rueidislock-2", family: library, open: openRueidis(2, true),
		what: "rueidislock, KeyMajority 2 (its default), NoLoopTracking"},
	{name: "rueidislock-1-loop", family: library, hot: true, open: openRueidis(1, false),
		what: "rueidislock, KeyMajority 1, its own invalidations not suppressed: more changes of the owner"},
	{name: redissonName, family: library, what: "Redisson's RLock in Java, defaults; needs java, and --redisson, which " +
		"'make bench-lock' gives"},
	{name: "watchdog", family: ours, open: openWatchdog, what: "Redisson's scheme: reentrant hash, watchdog, broadcast " +
		"wake-ups"},
	{name: "fair", family: ours, open: openEngine((*handoff.Engine).Fair),
		what: "engine, exact order over all processes"},
	{name: "handoff", family: ours, open: openEngine((*handoff.Engine).Handoff),
		what: "engine, handed on inside a process and between them"},
	{name: "raw-cluster", family: bound, single: rawName, open: openRaw, what: "raw limit, on a cluster of three masters"},
	{name: "handoff-cluster", family: ours, single: "handoff", open: openEngine((*handoff.Engine).Handoff),
		what: "engine, handed on, on a cluster of three masters"},
	{name: ceilingName, family: bound, alone: true, open: openMutex,
		what: "ceiling: a process mutex, all goroutines in one process"},
}

func contenderOf(name string) (contender, error) {
	for _, c := range contenders {
		if c.name == name {
			return c, nil
		}
	}
	return contender{}, fmt.Errorf("no contender %q", name)
}

// environment has the parameters for opening a contender.
type environment struct {
	redis *redis.Options // of the server, without settings that a contender may choose
	// masters are the masters of a cluster, host:port; empty = redis is the only server.
	masters []string
	prefix  string // of all keys
	conns   int
	sent    *counter
}

// client returns a go-redis client configured like the service's (internal/backend), whose commands are counted.
func (e *environment) client() redis.UniversalClient {
	if len(e.masters) > 0 {
		return e.clusterClient()
	}
	o := *e.redis
	o.MaxRetries, o.ContextTimeoutEnabled, o.PoolSize = -1, true, e.conns
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 2*time.Second, 3*time.Second, 3*time.Second
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return e.sent.dial(ctx, &net.Dialer{Timeout: o.DialTimeout}, network, addr)
	}
	o.MinIdleConns = e.conns
	c := redis.NewClient(&o)
	// Open the connections before the measurement: their buffers do not belong to a lock.
	for until := time.Now().Add(o.DialTimeout); int(c.PoolStats().TotalConns) < e.conns && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	return c
}

// clusterClient is client for a cluster; the warm-up opens its connections.
func (e *environment) clusterClient() redis.UniversalClient {
	d := &net.Dialer{Timeout: 2 * time.Second}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: e.masters, Username: e.redis.Username, Password: e.redis.Password,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: e.conns, MinIdleConns: e.conns,
		DialTimeout: d.Timeout, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return e.sent.dial(ctx, d, network, addr)
		},
	})
}

func openRedsync(poll time.Duration) func(*environment) (*opened, error) {
	options := []redsync.Option{redsync.WithExpiry(leaseTTL)}
	if poll > 0 {
		options = append(options, redsync.WithRetryDelay(poll))
	}
	return func(e *environment) (*opened, error) {
		c := e.client()
		rs := redsync.New(goredis.NewPool(c))
		return &opened{close: func() { _ = c.Close() }, acquire: func(ctx context.Context, key string) (held, error) {
			m := rs.NewMutex(key, options...)
			for {
				err := m.LockContext(ctx)
				var taken *redsync.ErrTaken
				switch {
				case err == nil:
					return redsyncHeld{m}, nil
				case ctx.Err() != nil, !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken):
					return nil, err
				} // it has used up its tries: the waiter tries again
			}
		}}, nil
	}
}

type redsyncHeld struct{ *redsync.Mutex }

func (h redsyncHeld) Release(ctx context.Context) error {
	ok, err := h.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("redsync: was not held")
	}
	return err
}

func openBSM(poll time.Duration) func(*environment) (*opened, error) {
	return func(e *environment) (*opened, error) {
		c := e.client()
		locks := redislock.New(c)
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)}
		return &opened{close: func() { _ = c.Close() }, acquire: func(ctx context.Context, key string) (held, error) {
			for {
				l, err := locks.Obtain(ctx, key, leaseTTL, options)
				switch {
				case err == nil:
					return l, nil
				case ctx.Err() != nil, !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded):
					return nil, err
				} // it gives up after a TTL: the waiter tries again
			}
		}}, nil
	}
}

// openRueidis gives every command one second: with the default of 20 ms a stall of a busy machine leaves a waiter
// asleep.
func openRueidis(majority int32, noLoop bool) func(*environment) (*opened, error) {
	return func(e *environment) (*opened, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: e.rueidis(), KeyPrefix: strings.TrimSuffix(e.prefix, ":"), KeyMajority: majority,
			NoLoopTracking: noLoop,
			KeyValidity:    leaseTTL, TryNextAfter: time.Second,
		})
		if err != nil {
			return nil, err
		}
		return &opened{close: l.Close, acquire: func(ctx context.Context, key string) (held, error) {
			_, free, err := l.WithContext(ctx, strings.TrimPrefix(key, e.prefix))
			if err != nil {
				return nil, err
			}
			return rueidisHeld(free), nil
		}}, nil
	}
}

type rueidisHeld context.CancelFunc

// Release waits for Redis, but rueidislock does not report the answer.
func (h rueidisHeld) Release(context.Context) error {
	h()
	return nil
}

func openWatchdog(e *environment) (*opened, error) {
	c := e.client()
	wakeups := textbook.NewWakeups(c)
	return leases(textbook.NewWatchdog(c, leaseTTL, wakeups, nil), func() {
		_ = wakeups.Close()
		_ = c.Close()
	}), nil
}

func openEngine(of func(*handoff.Engine) lock.Locker) func(*environment) (*opened, error) {
	return func(e *environment) (*opened, error) {
		c := e.client()
		engine, err := handoff.New(c, handoff.Options{TTL: leaseTTL})
		if err != nil {
			return nil, err
		}
		return leases(of(engine), func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = engine.Close(ctx)
			_ = c.Close()
		}), nil
	}
}

// leases adapts a Locker of ours.
func leases(l lock.Locker, closing func()) *opened {
	return &opened{close: closing, acquire: func(ctx context.Context, key string) (held, error) {
		return l.Acquire(ctx, key)
	}}
}

// openMutex uses a plain sync.Mutex per key, the cheapest exclusion.
func openMutex(*environment) (*opened, error) {
	var all sync.Map
	return &opened{close: func() {}, acquire: func(_ context.Context, key string) (held, error) {
		v, ok := all.Load(key)
		if !ok {
			v, _ = all.LoadOrStore(key, new(sync.Mutex))
		}
		mu, ok := v.(*sync.Mutex)
		if !ok {
			return nil, errors.New("not a mutex")
		}
		mu.Lock()
		return mutexHeld{mu}, nil
	}}, nil
}

type mutexHeld struct{ *sync.Mutex }

func (h mutexHeld) Release(context.Context) error {
	h.Unlock()
	return nil
}
