// Package localstack runs a private lastitem on this machine: a Redis, an SQL server, what a few modes need besides (five
// Redis masters for Redlock, etcd, ZooKeeper, Consul, a Kafka broker), replicas of the shop and a balancer, as child
// processes on loopback, and leaves nothing behind: no process, no port, no file.
//
// Per backend it takes the URL that the user gave, else a real server found on PATH (see [Find]), else an embedded one where
// there is one, and says which. Start with [Start], which returns a [Stack] of [Service] values.
//
// The children are owned by a keeper, a process of its own ('shop keeper', [RunKeeper]) that reads its orders from a pipe
// held by the parent. When the pipe ends, because the parent closed it or died, even by kill -9, the keeper ends all
// process groups and removes the private directory. Should the keeper be killed, the kernel (on Linux) or the parent ends
// the children instead, and the parent removes the directory.
package localstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"lastitem/internal/text"
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

// Options says what to start. The zero value starts Redis and SQL, real or embedded, and no replica.
type Options struct {
	// Replicas is the number of shop processes; 0 starts the backends only, without a balancer.
	Replicas int
	// Listen is the balancer's address, "127.0.0.1:8080"; "" takes a free loopback port.
	Listen string
	// Backend is Auto (also ""), Embedded or Local.
	Backend string
	// Redis and SQL are the user's own servers, used but neither started nor stopped: a redis:// URL; a DSN of
	// go-sql-driver or "sqlite:" and a path. "" starts one.
	Redis, SQL string
	// Extras of the user's own, likewise. Redlock takes redis:// URLs, Etcd http:// URLs, ZooKeeper and Kafka host:port, several
	// comma-separated; Consul the http:// URL of an agent.
	Redlock, Etcd, ZooKeeper, Consul, Kafka string
	// KeepFailing keeps a replica that fails in the balancer's round, so that a fault under test is met and not avoided. Otherwise
	// it is left out for two seconds at a time.
	KeepFailing bool
	// Console is the address, host:port, of a console to which the balancer sends what begins with /console/; a browser that asks for / is
	// redirected there. "" = there is none.
	Console string
	// Restart starts replicas and the balancer again when they die, and a store whose data outlive it; the end of another part, and
	// without Restart of any, is the end of the stack.
	Restart bool
	// Replica is the shop that the replicas run; "" is Binary.
	Replica string
	// RedisConf are lines for the end of redis.conf, where a real Redis is started.
	RedisConf []string
	// RedisArgs are for the end of its command line, "--sentinel".
	RedisArgs []string
	// SQLConf are options for the end of the command line, "--log-bin=bin", where a real MySQL or MariaDB is started.
	SQLConf []string
	// SQLData is the data directory of a real MySQL or MariaDB, filled where it is empty and kept. "" = one of the stack's own. On one that
	// is not empty the accounts are those that were made before.
	SQLData string
	// EtcdArgs are for the end of the command line, "--quota-backend-bytes=4194304", where a real etcd is started.
	EtcdArgs []string
	// Schemas are databases to make beside "lastitem", where a real MySQL or MariaDB is started.
	Schemas []string
	// Only says which backends are started: Redis, MySQL, Redlock, Etcd, ZooKeeper, Consul, Kafka. The first two always are with
	// replicas. nil is these two, and with replicas also every extra that is installed: the log says which are not.
	Only []string
	// Extras narrows the extras of an Only that is nil to those that the modes in question need; an extra of the user's own stays. nil = all.
	Extras []string
	// All makes it an error, before anything is started, that a mode would lack a backend; the error says what to install.
	All bool
	// Token is the admin token of the replicas; "" makes a random one.
	Token string
	// Env is added to the environment of the replicas.
	Env []string
	// LastCommand is a command of the shop, with LastCommandEnv on top of its environment, that the keeper runs when everything
	// has ended, however that came: it cleans up what is not on this machine. It has half a minute.
	LastCommand, LastCommandEnv []string
	// Binary is the shop; "" is $SHOP_BINARY, or else the running program. It is started as 'keeper', 'serve',
	// 'embedded-redis', 'embedded-kafka' and 'balance'.
	Binary string
	// Advice says what the user can do, besides installing a program, where a backend is missing: "give your own with --etcd". It
	// ends the error or, where the stack does without, the reason that the replicas give. nil or "" = nothing.
	Advice func(backend string) string
	// Via returns the address, host:port, that a replica (from 1) must use for a server that has an address; nil = the server's own. It is
	// called once for each pair of replica and server, by several goroutines: a replica that is started again keeps its addresses. Its
	// error ends the start.
	Via func(server Service, replica int) (addr string, err error)
	// RTT is a round trip to add between the replicas and their servers, by a Via of our own, so that it excludes Via; 0 = none. Kafka and
	// SQLite, which have no address to put a proxy before, stay as near as they are: the log says so.
	RTT time.Duration
	// Log is told what was chosen and why, a line at a time; nil keeps quiet. It is called by several goroutines.
	Log func(format string, args ...any)
	// Lang is the language of what Log is told: "zh", else English. Errors, and the reasons that are errors, are English.
	Lang string

	unasked bool // nobody asked for the extras, so that a missing one is no error
}

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
	keeper  *keeperClient
	partsMu sync.Mutex
	parts   map[string]part // what runs, by name
	ports   sync.Map        // addresses handed out
	lacking sync.Map        // backend -> why, for the user
	instead sync.Map        // backend -> what stands in for it and why, for the user
	clocks  clockLibrary
	delays  delays
	done    chan struct{}
	once    sync.Once
	err     error // set before done is closed
}

// Start brings a stack up and returns when every part answers. ctx bounds the start only: the stack lives until Close, or
// until this process ends. When Start fails it has cleaned up after itself.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Stack{Token: o.Token, opts: o, done: make(chan struct{})}
	if o.RTT > 0 {
		s.opts.Via = s.delayed
	}
	var err error
	if s.keeper, err = newKeeperClient(o.Binary, s.died); err != nil {
		return nil, err
	}
	s.Dir = s.keeper.dir
	if err := s.keeper.lastCommand(o); err != nil {
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

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch o.Backend {
	case "":
		o.Backend = Auto
	case Auto, Embedded, Local:
	default:
		return fmt.Errorf("localstack: backend %q: want %s, %s or %s", o.Backend, Auto, Embedded, Local)
	}
	if o.Replicas < 0 {
		return fmt.Errorf("localstack: %d replicas", o.Replicas)
	}
	if err := o.completeOnly(); err != nil {
		return err
	}
	if o.Replicas > 0 && o.Listen != "" {
		if err := listenable(o.Listen); err != nil {
			return err
		}
	}
	if o.Token == "" {
		o.Token = secret()
	}
	if o.Binary == "" {
		o.Binary = os.Getenv(EnvBinary)
	}
	if o.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("localstack: which program is this: %w", err)
		}
		o.Binary = self
	}
	if o.Replica == "" {
		o.Replica = o.Binary
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.Log = inLanguage(o.Lang, o.Log)
	return nil
}

// completeOnly fills in what is to be started.
func (o *Options) completeOnly() error {
	for _, name := range o.Only {
		if name != Redis && name != MySQL && !slices.Contains(extras, name) {
			return fmt.Errorf("localstack: unknown backend %q", name)
		}
	}
	needed := []string{Redis, MySQL}
	switch {
	case o.Only == nil && o.Replicas > 0:
		o.Only, o.unasked = slices.Concat(needed, o.useful()), !o.All
	case o.Only == nil:
		o.Only = needed
	case o.Replicas > 0:
		o.Only = slices.Concat(needed, slices.DeleteFunc(slices.Clone(o.Only), func(name string) bool { return slices.Contains(needed, name) }))
	}
	if o.All {
		return o.missing()
	}
	return nil
}

// useful returns the extras of an Only that is nil.
func (o *Options) useful() []string {
	if o.Extras == nil {
		return extras
	}
	return slices.DeleteFunc(slices.Clone(extras), func(name string) bool { return !slices.Contains(o.Extras, name) && o.own(name) == "" })
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

// insteadOf notes that an installed store did not start and an embedded one replaces it: the user tests another server than expected.
func (s *Stack) insteadOf(backend, embedded, installed, why string) {
	s.instead.Store(backend, text.Of("%s is %s, not the installed %s, which does not start: %s").Errorf(backend, embedded, installed, firstLine(why)))
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
	return s.keeper.close()
}

// died is told by the client of the keeper that p, or with p nil the keeper, has ended.
func (s *Stack) died(p *process, how string) {
	var lost text.Text
	if p != nil && s.opts.Restart {
		x, ok := s.partNamed(p.name)
		switch {
		case ok && x.sv.loses.En == "":
			go s.revive(x, how)
			return
		case ok:
			lost = text.Of(" (not started again: %s)").With(x.sv.loses)
		}
	}
	s.once.Do(func() {
		if p == nil {
			s.err = fmt.Errorf("%w (%s)", errKeeperGone, how)
		} else {
			s.err = text.Of("localstack: %s has died: %s%s%s").Errorf(p.name, how, lost, tail(p.log))
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
var cannotListen = text.Of("localstack: cannot listen on %s: %w")

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

// grace is how long a replica or balancer may take to end; see spec.GraceMS. A replica may send its last traces for 3 s.
const grace = 4 * time.Second
