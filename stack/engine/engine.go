// Package engine runs private servers of which one takes over when another fails: a Redis Cluster, a Redis with
// Sentinel, a MariaDB with a replica, and Galera. It strikes the server that matters and waits for the takeover. Start
// with [Start], which returns an [Engine].
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// The engines.
const (
	Cluster    = "cluster"    // a Redis Cluster of three masters, each with a replica
	Sentinel   = "sentinel"   // a Redis master with two replicas, and three sentinels
	Replicated = "replicated" // a MariaDB primary with a replica
	Galera     = "galera"     // two MariaDB nodes of Galera and an arbitrator, of which one is written
)

// Kinds lists the engines.
var Kinds = []string{Cluster, Sentinel, Replicated, Galera}

// The ways in which a server fails.
const (
	Kill = "kill" // SIGKILL, and what is on its way to the replicas is lost
	Stop = "stop" // SIGSTOP; after the takeover it goes on
	Cut  = "cut"  // nothing reaches the server, and nothing that it sends arrives
)

// Strikes returns the ways in which a server of the engine can fail. The nodes of a cluster dial each other by the
// addresses that they announce, so no proxy can cut them off; nor can one cut off a node of Galera.
func Strikes(kind string) []string {
	if kind == Cluster || kind == Galera {
		return []string{Kill, Stop}
	}
	return []string{Kill, Stop, Cut}
}

// Options says how an engine is started.
type Options struct {
	// Lag is by how much the replicas receive each write later, of Sentinel and of Replicated; 0 = at once.
	Lag time.Duration
	// Async makes the primary of Replicated acknowledge a commit before its replica has received it. By default it waits:
	// semi-synchronous replication, AFTER_SYNC.
	Async bool
	// Cut makes it possible to [Cut] a server off: clients reach the master of Sentinel by a proxy.
	Cut bool
	// Binary is the shop, which runs the keeper; "" is the running program.
	Binary string
	// Log is told of the servers, a line at a time, by several goroutines; nil keeps quiet.
	Log func(format string, args ...any)
}

// Engine is a set of running servers. All methods but Close may be called by one goroutine at a time.
type Engine struct {
	// Redis is what the shop takes as SHOP_REDIS, and SQL what it takes as SHOP_SQL; one of them is "".
	Redis, SQL string
	// Unit is what [Engine.Strike] counts: "bytes" of the replication stream, or "transactions".
	Unit string

	options  Options
	servers  *stack.Stack
	victim   *stack.Running
	links    []*wire.Proxy                              // what leads to the victim, and from it to its replicas
	proxies  []*wire.Proxy                              // all of them
	behind   func(context.Context) (int64, error)       // what no replica has of the victim's writes; nil = no such thing
	takeover func(context.Context) error                // returns when another server has taken over
	prepare  func(context.Context) error                // before the load; nil = nothing
	mine     func(context.Context, int64) (bool, error) // says whether a product is the victim's; nil = all are
	clients  []io.Closer                                // of the servers
	closing  sync.Once
	closed   error
}

// Close ends all servers. It may be repeated.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		for _, p := range e.proxies {
			p.Close()
		}
		for _, c := range e.clients {
			_ = c.Close()
		}
		e.closed = e.servers.Close()
	})
	return e.closed
}

// Prepare is called before the load of a strike: it puts Options.Lag between a master of Sentinel and its replicas.
func (e *Engine) Prepare(ctx context.Context) error {
	if e.prepare == nil {
		return nil
	}
	return e.prepare(ctx)
}

// Struck says whether the count of a product, in Redis, is on the server that [Engine.Strike] strikes.
func (e *Engine) Struck(ctx context.Context, product int64) (bool, error) {
	if e.mine == nil {
		return true, nil
	}
	return e.mine(ctx, product)
}

// Strike makes the server fail, in one of the ways of [Strikes]. It returns the time of the strike, and how much of
// what the server had written no replica had: at least, since the server is asked first and the replicas after it.
// -1 = the nodes of Galera have no such thing: each has a commit before it is acknowledged.
func (e *Engine) Strike(ctx context.Context, how string) (at time.Time, lacked int64, err error) {
	if how != Stop {
		e.sever(true)
	}
	if lacked = -1; e.behind != nil {
		if lacked, err = e.behind(ctx); err != nil {
			return time.Time{}, 0, fmt.Errorf("engine: before the strike: %w", err)
		}
	}
	at = time.Now()
	switch how {
	case Kill:
		e.victim.Kill()
	case Stop:
		err = syscall.Kill(e.victim.PID, syscall.SIGSTOP)
	}
	return at, lacked, err
}

// Takeover returns when another server has taken over.
func (e *Engine) Takeover(ctx context.Context) error { return e.takeover(ctx) }

// Watch lets another server take over when the one that [Engine.Strike] would strike has ended by itself or by somebody
// else; say is told of an error. It returns at once, and its work ends with ctx.
func (e *Engine) Watch(ctx context.Context, say func(error)) {
	go func() {
		select {
		case <-e.victim.Exited():
			if err := e.takeover(ctx); err != nil && ctx.Err() == nil {
				say(err)
			}
		case <-ctx.Done():
		}
	}()
}

// Resume ends a [Stop] or a [Cut].
func (e *Engine) Resume(how string) error {
	switch how {
	case Stop:
		return syscall.Kill(e.victim.PID, syscall.SIGCONT)
	case Cut:
		e.sever(false)
	}
	return nil
}

// started tells of a server, so that its user may kill it.
func (e *Engine) started(name string, run *stack.Running) {
	e.options.Log("%s: at %s, pid %d", name, run.Addr, run.PID)
}

func (e *Engine) sever(on bool) {
	for _, p := range e.links {
		p.Sever(on)
	}
}

// proxy starts a proxy that forwards everything later by some time; 0 = at once.
func (e *Engine) proxy(name, to string, lag time.Duration) (p *wire.Proxy, err error) {
	if lag > 0 {
		p, err = wire.NewDelayed(name, to, wire.Raw, lag)
	} else {
		p, err = wire.NewProxy(name, to, wire.Raw)
	}
	if err == nil {
		e.proxies = append(e.proxies, p)
	}
	return p, err
}

const (
	polling  = 10 * time.Millisecond
	patience = 2 * time.Minute // for one condition, on a busy machine
)

// until polls a condition. The error says what was waited for.
func until(ctx context.Context, what string, met func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	for !met() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("engine: wait for %s: %w", what, context.Cause(ctx))
		case <-time.After(polling):
		}
	}
	return nil
}

// together starts servers at the same time.
func together(n int, start func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = start(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
