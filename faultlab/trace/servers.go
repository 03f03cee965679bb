package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"lastitem/internal/backend"
	"lastitem/internal/replica"
	"lastitem/internal/step"
	"lastitem/internal/stock"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// Options configures a [Tracer].
type Options struct {
	Modes   []stock.Mode                // the modes that are to be traced: their servers are started
	Backend string                      // stack.Auto, Embedded or Local
	Log     func(string, ...any)        // is told which servers are started
	Advice  func(backend string) string // says what to do about a missing backend
	Lang    string                      // of the descriptions of the servers, and of Advice: "en" or "zh"
	TTL     time.Duration               // of the locks; 0 = that of a replica without settings
}

// Tracer is one replica on private servers, with a tap before each server and a log of what the servers themselves see.
type Tracer struct {
	stacks     []*stack.Stack
	recorder   wire.Recorder
	taps       []*wire.Proxy
	redises    []*redisObserver
	mysql      *sqlObserver // nil where the database is SQLite
	notes      []text.Text
	kinds      map[string]string // what each server is, by its name
	replica    *replica.Replica  // in this process, so that it has the same clock as the taps
	server     *http.Server
	serving    sync.WaitGroup
	client     http.Client
	url, token string
	ttl        time.Duration // of the locks
}

// redlockNodes is how many masters the mode redlock is given.
const redlockNodes = 5

// nodePrefix begins the name of a master of the Redlock in a trace; the Redis of the shop has no number.
const nodePrefix = "redis "

// nodeName is the name of the i-th master of the Redlock, counted from 0.
func nodeName(i int) string { return fmt.Sprint(nodePrefix, i+1) }

// New starts the servers that the modes need, and the replica. The caller closes it.
func New(ctx context.Context, o Options) (*Tracer, error) {
	t := &Tracer{kinds: map[string]string{}, client: http.Client{Transport: &http.Transport{}}}
	err := t.start(ctx, o)
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tracer) start(ctx context.Context, o Options) error {
	needs := map[stock.Backend]bool{}
	for _, m := range o.Modes {
		for _, b := range m.Needs {
			needs[b] = true
		}
	}
	servers := stack.Options{Backend: o.Backend, Log: o.Log, Advice: o.Advice, Lang: o.Lang}
	// What every replica has, and then what the modes need besides.
	servers.Only = []string{stack.Redis, stack.MySQL}
	for _, name := range []string{stack.Etcd, stack.ZooKeeper, stack.Consul} {
		if needs[stock.Backend(name)] {
			servers.Only = append(servers.Only, name)
		}
	}
	running, err := t.stack(ctx, servers)
	if err != nil {
		return err
	}
	c, err := settings(running, o.TTL)
	if err != nil {
		return err
	}
	t.token, t.ttl = c.Token, c.LockTTL
	if err := errors.Join(
		t.tapRedis(ctx, &c, running), t.tapSQL(ctx, &c, running), t.tapCoordination(&c, running),
	); err != nil {
		return err
	}
	if needs[stock.NeedRedlock] {
		if err := t.tapRedlock(ctx, &c, servers); err != nil {
			return err
		}
	}
	if needs[stock.NeedKafka] {
		if err := t.broker(ctx, &c, servers); err != nil {
			return err
		}
	}
	if t.replica, err = replica.New(c, replica.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	if needs[stock.NeedKafka] {
		t.replica.Steps.Subscribe(t.step)
	}
	return t.serve(ctx)
}

// settings are those of the traced replica, but for the addresses of its servers: the taps add theirs. ttl is of the
// locks; 0 = the default.
func settings(s *stack.Stack, ttl time.Duration) (replica.Config, error) {
	usual, err := replica.Defaults()
	missing := map[stock.Backend]string{}
	for name, why := range s.Missing() {
		missing[stock.Backend(name)] = why
	}
	return replica.Config{
		Replica: usual.Replica, Token: s.Token, DefaultMode: usual.DefaultMode, Prefix: usual.Prefix,
		LockTTL: cmp.Or(ttl, usual.LockTTL),
		Conns:   16, Missing: missing,
	}, err
}

// stack starts servers, which end with the tracer.
func (t *Tracer) stack(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	s, err := stack.Start(ctx, o)
	if err == nil {
		t.stacks = append(t.stacks, s)
	}
	return s, err
}

// tap puts a proxy before a server, and returns its address.
func (t *Tracer) tap(name, kind, addr string, codec wire.Codec) (string, error) {
	tap, err := t.recorder.Tap(name, addr, codec)
	if err != nil {
		return "", err
	}
	t.taps = append(t.taps, tap)
	t.kinds[name] = kind
	return tap.Addr, nil
}

func (t *Tracer) tapRedis(ctx context.Context, c *replica.Config, s *stack.Stack) (err error) {
	c.Redis, err = t.tapOneRedis(ctx, "redis", s)
	return err
}

// tapOneRedis puts a tap before a stack's Redis, observes the Redis itself if it can, and returns the URL of the tap.
func (t *Tracer) tapOneRedis(ctx context.Context, name string, s *stack.Stack) (string, error) {
	addr, err := t.tap(name, s.Redis.Kind, s.Redis.Addr, codec.Redis)
	if err != nil {
		return "", err
	}
	eye, err := watchRedis(ctx, name, s.Redis.URL)
	switch {
	case errors.Is(err, errNoMonitor):
		t.notes = append(t.notes, text.Of("%s is %s, which has no MONITOR: only the client's side is seen.").With(name,
			s.Redis.Kind))
	case err != nil:
		return "", err
	default:
		t.redises = append(t.redises, eye)
	}
	return strings.Replace(s.Redis.URL, s.Redis.Addr, addr, 1), nil
}

func (t *Tracer) tapRedlock(ctx context.Context, c *replica.Config, o stack.Options) error {
	o.Only = []string{stack.Redis}
	var urls []string
	for i := range redlockNodes {
		s, err := t.stack(ctx, o)
		if err != nil {
			return err
		}
		node, err := t.tapOneRedis(ctx, nodeName(i), s)
		if err != nil {
			return err
		}
		urls = append(urls, node)
	}
	c.Redlock = strings.Join(urls, ",")
	return nil
}

func (t *Tracer) tapSQL(ctx context.Context, c *replica.Config, s *stack.Stack) error {
	if strings.HasPrefix(s.SQL.URL, "sqlite:") {
		c.SQL = s.SQL.URL
		t.kinds["sql"] = s.SQL.Kind
		return nil // a file has no wire; see watchSQLite
	}
	dsn, err := driver.ParseDSN(s.SQL.URL)
	if err != nil {
		return err
	}
	addr, err := t.tap("sql", s.SQL.Kind, dsn.Addr, codec.MySQL)
	if err != nil {
		return err
	}
	dsn.Addr = addr
	c.SQL = dsn.FormatDSN()
	t.mysql, err = watchMySQL(ctx, s.SQL.URL)
	return err
}

func (t *Tracer) tapCoordination(c *replica.Config, s *stack.Stack) error {
	for _, one := range []struct {
		service stack.Service
		codec   wire.Codec
		into    *string
	}{{s.Etcd, codec.GRPC, &c.Etcd}, {s.ZooKeeper, codec.ZooKeeper, &c.ZooKeeper}, {s.Consul, codec.HTTP, &c.Consul}} {
		if one.service.Addr == "" {
			continue
		}
		addr, err := t.tap(one.service.Name, one.service.Kind, one.service.Addr, one.codec)
		if err != nil {
			return err
		}
		*one.into = strings.Replace(one.service.URL, one.service.Addr, addr, 1)
	}
	return nil
}

// broker starts the broker of the mode kafka, an embedded one. A broker tells its clients its own address, so that they
// go past a proxy: a trace has the steps of the deduction in its place.
func (t *Tracer) broker(ctx context.Context, c *replica.Config, o stack.Options) error {
	o.Backend, o.Only = stack.Embedded, []string{stack.Kafka}
	s, err := t.stack(ctx, o)
	if err != nil {
		return err
	}
	c.Kafka = s.Kafka.URL
	t.kinds[asker] = text.Of("steps of the replica that answers the client").In(o.Lang)
	t.kinds[consumer] = text.Of("steps of the replica that executes the product's partition, here the same one").In(o.Lang)
	t.notes = append(t.notes, text.Of("Kafka (%s) is not seen: a broker tells its clients its own address, so that they "+
		"go past a proxy. The steps that\nthe deduction reports stand in its place: the request is on its way through Kafka "+
		"before the consumer's first step, and the\nanswer after its last.").With(s.Kafka.Kind))
	return nil
}

// The names of the two that report the steps of a deduction through Kafka, in the place of servers.
const asker, consumer = "asker", "consumer"

// step notes a step of a deduction, for the mode kafka. A consumer does not know whose deductions it executes.
func (t *Tracer) step(_ context.Context, e step.Event) {
	by := asker
	if e.Trace == nil {
		by = consumer
	}
	name := e.Point.String()
	t.recorder.Add(wire.Call{Server: by, Text: name, Pattern: name, Sent: e.At, Answered: e.At})
}

// serve makes the replica answer on a socket, like any other replica.
func (t *Tracer) serve(ctx context.Context) error {
	_, err := backend.Migrate(ctx, t.replica.Backends.DB)
	if err != nil {
		return err
	}
	if t.mysql == nil {
		t.watchSQLite()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.url = (&url.URL{Scheme: "http", Host: l.Addr().String()}).String()
	t.server = &http.Server{Handler: t.replica, ReadHeaderTimeout: 5 * time.Second}
	t.serving.Go(func() { _ = t.server.Serve(l) })
	return nil
}

// Close ends everything, the replica before its servers.
func (t *Tracer) Close() {
	t.client.CloseIdleConnections()
	if t.server != nil {
		_ = t.server.Close()
		t.serving.Wait()
	}
	if t.replica != nil {
		t.replica.Close()
	}
	for _, eye := range t.redises {
		eye.close()
	}
	if t.mysql != nil {
		t.mysql.close()
	}
	for _, tap := range t.taps {
		tap.Close()
	}
	for _, s := range t.stacks {
		_ = s.Close()
	}
}
