// Package stack runs a private lastitem on this machine: a Redis, an SQL server, what a few modes need besides
// (five Redis masters for Redlock, etcd, ZooKeeper, Consul, a Kafka broker), replicas of the shop and a balancer, as
// child processes on loopback, and leaves nothing behind: no process, no port, no file. For a service that is not the
// shop it also runs a PostgreSQL.
//
// Per backend it takes the URL that the user gave, else a real server found on PATH (see [Find]), else an embedded one
// where there is one, and says which. Start with [Start], which returns a [Stack] of [Service] values.
//
// The children are owned by a keeper, a process of its own ('shop keeper', package keeper) that reads its orders from a
// pipe held by the parent. When the pipe ends, because the parent closed it or died, even by kill -9, the keeper ends
// all process groups and removes the private directory. Should the keeper be killed, the kernel (on Linux) or the
// parent ends the children instead, and the parent removes the directory.
package stack

import (
	"context"
	"slices"
	"sync"

	"lastitem/say/text"
)

// Stack is what Start started. Its fields do not change.
type Stack struct {
	URL      string // of the balancer; "" without replicas
	Token    string // the admin token
	Dir      string // the private directory, where the logs are; gone after Close
	Replicas []Service
	Balancer Service
	Redis    Service
	SQL      Service
	Postgres Service

	// The extras; the URL of one that is not there is "". It is http://host:port; of ZooKeeper and Kafka host:port.
	Redlock                        []Service // nil, or the nodes
	Etcd, ZooKeeper, Consul, Kafka Service

	opts    Options
	procs   launcher
	lacking sync.Map // backend -> why, for the user
	instead sync.Map // backend -> what stands in for it and why, for the user
	clocks  clockLibrary
	delays  delays
	done    chan struct{}
	once    sync.Once
	err     error // set before done is closed
}

// clockLibrary is the library of a stack's clocks, built when first asked for.
type clockLibrary struct {
	once sync.Once
	file string
	err  error
}

// together runs the functions at the same time. The first failure cancels the others; all have returned when it does.
func together(ctx context.Context, fs []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err) // the first one stays
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// launchReal starts a real server and says that it came from there. If it does not start, and with Auto an embedded
// one may take its place, the error is nil and why is not "".
func (s *Stack) launchReal(ctx context.Context, sv server, from any) (started Service, why string, err error) {
	started, err = s.procs.launch(ctx, sv)
	switch {
	case err == nil:
		s.opts.Log("%s: %s at %s (%s)", text.Known(sv.name), started.Kind, started.Addr, from)
		return started, "", nil
	case s.opts.Backend == Local || ctx.Err() != nil:
		return started, "", err
	}
	return started, s.opts.tell(err), nil
}

// insteadOf notes that an installed store did not start and an embedded one replaces it: the user tests another server
// than expected.
func (s *Stack) insteadOf(backend, embedded, installed, why string) {
	s.instead.Store(backend, text.Of("%s is %s, not the installed %s, which does not start: %s").Errorf(backend, embedded,
		installed, firstLine(why)))
}

// Instead says of each store that is not the installed one why it is not, in a sentence.
func (s *Stack) Instead() []string {
	var all []string
	s.instead.Range(func(_, said any) bool {
		err, _ := said.(error)
		all = append(all, s.opts.tell(err))
		return true
	})
	slices.Sort(all)
	return all
}

// Done is closed when a part has died on its own; Err then says which. Close does not close it.
func (s *Stack) Done() <-chan struct{} { return s.done }

// Err names the part that died and quotes the end of its log; nil while all live.
func (s *Stack) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}
