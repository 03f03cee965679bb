// Package stack runs a private lastitem on this machine: a Redis, an SQL server, what a few modes need besides
// (five Redis masters for Redlock, etcd, ZooKeeper, Consul, a Kafka broker), replicas of the shop and a balancer, as
// child processes on loopback, and leaves nothing behind: no process, no port, no file.
//
// Per backend it takes the URL that the user gave, else a real server found on PATH (see [Find]), else an embedded one
// where there is one, and says which. Start with [Start], which returns a [Stack] of [Service] values.
//
// The children are owned by a keeper, a process of its own ('shop keeper', [RunKeeper]) that reads its orders from a
// pipe held by the parent. When the pipe ends, because the parent closed it or died, even by kill -9, the keeper ends
// all process groups and removes the private directory. Should the keeper be killed, the kernel (on Linux) or the
// parent ends the children instead, and the parent removes the directory.
package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"lastitem/say/text"
)

// The values of Options.Backend.
const (
	Auto     = "auto"     // a real server where its program is found, else an embedded one
	Embedded = "embedded" // embedded ones only: needs nothing but the binary
	Local    = "local"    // real servers only: a missing program is an error
)

// The backends of Options.Only.
const (
	Redis = "redis"
	MySQL = "mysql" // or what speaks its protocol; embedded, it is SQLite
	Nginx = "nginx"

	// The extras, each for a few modes only.
	Redlock   = "redlock" // five Redis masters that know nothing of each other
	Etcd      = "etcd"
	ZooKeeper = "zookeeper"
	Consul    = "consul"
	Kafka     = "kafka" // embedded where Java or the broker's jars are missing
)

// EnvBinary names the shop binary where the running program is not it; see Options.Binary.
const EnvBinary = "SHOP_BINARY"

// Service is one running part.
type Service struct {
	Name string `json:"name"` // "redis", "sql", "replica 1", "balancer"
	Kind string `json:"kind"` // for people: "redis-server 7.0.15", "embedded SQLite", "given"
	Addr string `json:"addr"` // host:port; "" where there is none, as for SQLite, or it is not ours
	URL  string `json:"url"`  // what a client wants: redis://..., the DSN, http://...
	PID  int    `json:"pid"`  // 0 where the part is no process of ours
}

// Stack is what Start started. Its fields do not change.
type Stack struct {
	URL      string // of the balancer; "" without replicas
	Token    string // the admin token
	Dir      string // the private directory, where the logs are; gone after Close
	Replicas []Service
	Balancer Service
	Redis    Service
	SQL      Service

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

// Start brings a stack up and returns when every part answers. ctx bounds the start only: the stack lives until Close,
// or until this process ends. When Start fails it has cleaned up after itself.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Stack{Token: o.Token, opts: o, done: make(chan struct{})}
	if o.RTT > 0 {
		s.opts.Via = s.delays.via(o.RTT)
	}
	keeper, err := newKeeperClient(o.Binary, s.died)
	if err != nil {
		return nil, err
	}
	s.procs.keeper, s.procs.opts, s.Dir = keeper, &s.opts, keeper.dir
	if err := keeper.lastCommand(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.RTT > 0 {
		s.logDelays()
	}
	return s, nil
}

// start brings up the backends side by side, then the replicas side by side, then the balancer.
func (s *Stack) start(ctx context.Context) error {
	backends := make([]func(context.Context) error, len(s.opts.Only))
	for i, name := range s.opts.Only {
		backends[i] = func(ctx context.Context) error {
			switch name {
			case Redis:
				return s.startRedis(ctx)
			case MySQL:
				return s.startSQL(ctx)
			}
			return s.startExtra(ctx, name)
		}
	}
	if err := together(ctx, backends); err != nil {
		return err
	}
	if s.opts.Replicas == 0 {
		return nil
	}
	s.Replicas = make([]Service, s.opts.Replicas)
	replicas := make([]func(context.Context) error, s.opts.Replicas)
	for i := range replicas {
		replicas[i] = func(ctx context.Context) error { return s.startReplica(ctx, i) }
	}
	if err := together(ctx, replicas); err != nil {
		return err
	}
	return s.startBalancer(ctx)
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

// Close ends every part and removes the private directory; the user's own servers are left alone. Replicas have two
// seconds to finish their requests. It may be repeated.
func (s *Stack) Close() error {
	defer s.delays.close()
	return s.procs.keeper.close()
}

// died is told by the client of the keeper that p, or with p nil the keeper, has ended.
func (s *Stack) died(p *process, how string) {
	var lost text.Text
	if p != nil && s.opts.Restart {
		x, ok := s.procs.named(p.name)
		switch {
		case ok && x.sv.loses.En == "":
			go s.procs.revive(x, how)
			return
		case ok:
			lost = text.Of(" (not started again: %s)").With(x.sv.loses)
		}
	}
	s.once.Do(func() {
		if p == nil {
			s.err = fmt.Errorf("%w (%s)", errKeeperGone, how)
		} else {
			s.err = text.Of("stack: %s has died: %s%s%s").Errorf(p.name, how, lost, tail(p.log))
		}
		close(s.done)
	})
}

// secret returns 128 random bits as text.
func secret() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// cannotListen is the error of an address that cannot be listened on.
var cannotListen = text.Of("stack: cannot listen on %s: %w")

// listenable says why an address cannot be listened on; nil when it can.
func listenable(addr string) error {
	l, err := net.Listen("tcp", addr)
	var why syscall.Errno
	switch {
	case errors.As(err, &why): // without "listen tcp ADDR: bind:"
		return cannotListen.Errorf(addr, why)
	case err != nil:
		return cannotListen.Errorf(addr, err)
	}
	return l.Close()
}

// given describes a server of the user's own, without its password.
func given(name, url string) Service {
	return Service{Name: name, Kind: "given", URL: url}
}

// grace is how long a replica or balancer may take to end; see spec.GraceMS. A replica may send its last traces for 3
// s.
const grace = 4 * time.Second
