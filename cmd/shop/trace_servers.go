package main

import (
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
	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/wire"
	"lastitem/loadtest"
)

// tracer is one replica on private servers, with a tap before each of them and a look at what the servers themselves see.
type tracer struct {
	stacks   []*localstack.Stack
	recorder wire.Recorder
	taps     []*wire.Proxy
	redises  []*redisEye
	sql      *sqlEye // nil where the database is SQLite
	notes    []traceNote
	kinds    map[string]string // what each server is, by its name
	shop     *replica
	server   *http.Server
	serving  sync.WaitGroup
	url      string
	control  *loadtest.Control
}

// traceNote is something that the reader of a trace should know.
type traceNote struct{ en, zh string }

// redlockNodes is how many masters the mode redlock is given.
const redlockNodes = 5

// newTracer starts the servers that the modes need, and the replica. The caller closes it.
func newTracer(ctx context.Context, modes []stock.Mode, backendKind string, log func(string, ...any)) (*tracer, error) {
	t := &tracer{kinds: map[string]string{}}
	err := t.start(ctx, modes, localstack.Options{Backend: backendKind, Log: log, Advice: adviser("trace", backendKind, false)})
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tracer) start(ctx context.Context, modes []stock.Mode, o localstack.Options) error {
	needs := map[stock.Backend]bool{}
	for _, m := range modes {
		for _, b := range m.Needs {
			needs[b] = true
		}
	}
	// What every replica has, and then what the modes need besides.
	o.Only = []string{localstack.Redis, localstack.MySQL}
	for _, name := range []string{localstack.Etcd, localstack.ZooKeeper, localstack.Consul} {
		if needs[stock.Backend(name)] {
			o.Only = append(o.Only, name)
		}
	}
	stack, err := t.stack(ctx, o)
	if err != nil {
		return err
	}
	c := config{
		Replica: "1", Token: stack.Token, DefaultMode: "lease-seq", Prefix: "lastitem:", LockTTL: 10 * time.Second, Conns: 16,
		Missing: reasons{},
	}
	for name, why := range stack.Missing() {
		c.Missing[stock.Backend(name)] = why
	}
	if err := errors.Join(
		t.tapRedis(ctx, &c, stack), t.tapSQL(ctx, &c, stack), t.tapCoordination(&c, stack), t.tapKafka(ctx, &c, o, needs[stock.NeedKafka]),
	); err != nil {
		return err
	}
	if needs[stock.NeedRedlock] {
		if err := t.tapRedlock(ctx, &c, o); err != nil {
			return err
		}
	}
	return t.serve(ctx, c)
}

// stack starts servers, which end with the tracer.
func (t *tracer) stack(ctx context.Context, o localstack.Options) (*localstack.Stack, error) {
	s, err := localstack.Start(ctx, o)
	if err == nil {
		t.stacks = append(t.stacks, s)
	}
	return s, err
}

// tap puts a proxy before a server, and returns its address.
func (t *tracer) tap(name, kind, addr string, codec wire.Codec) (string, error) {
	tap, err := t.recorder.Tap(name, addr, codec)
	if err != nil {
		return "", err
	}
	t.taps = append(t.taps, tap)
	t.kinds[name] = kind
	return tap.Addr, nil
}

func (t *tracer) tapRedis(ctx context.Context, c *config, s *localstack.Stack) (err error) {
	c.Redis, err = t.tapOneRedis(ctx, "redis", s)
	return err
}

// tapOneRedis puts a tap before a stack's Redis, has a look at what it sees, and returns the URL of the tap.
func (t *tracer) tapOneRedis(ctx context.Context, name string, s *localstack.Stack) (string, error) {
	addr, err := t.tap(name, s.Redis.Kind, s.Redis.Addr, wire.Redis)
	if err != nil {
		return "", err
	}
	eye, err := watchRedis(ctx, name, s.Redis.URL)
	switch {
	case errors.Is(err, errNoMonitor):
		t.notes = append(t.notes, traceNote{
			name + " is " + s.Redis.Kind + ", which has no MONITOR: only the client's side is seen.",
			name + " 是 " + s.Redis.Kind + "，没有 MONITOR 命令：只能看到客户端这一侧。",
		})
	case err != nil:
		return "", err
	default:
		t.redises = append(t.redises, eye)
	}
	return strings.Replace(s.Redis.URL, s.Redis.Addr, addr, 1), nil
}

func (t *tracer) tapRedlock(ctx context.Context, c *config, o localstack.Options) error {
	o.Only = []string{localstack.Redis}
	var urls []string
	for i := range redlockNodes {
		s, err := t.stack(ctx, o)
		if err != nil {
			return err
		}
		node, err := t.tapOneRedis(ctx, fmt.Sprintf("redis %d", i+1), s)
		if err != nil {
			return err
		}
		urls = append(urls, node)
	}
	c.Redlock = strings.Join(urls, ",")
	return nil
}

func (t *tracer) tapSQL(ctx context.Context, c *config, s *localstack.Stack) error {
	if strings.HasPrefix(s.SQL.URL, "sqlite:") {
		c.SQL = s.SQL.URL
		t.kinds["sql"] = s.SQL.Kind
		return nil // a file has no wire; see watchSQLite
	}
	dsn, err := driver.ParseDSN(s.SQL.URL)
	if err != nil {
		return err
	}
	addr, err := t.tap("sql", s.SQL.Kind, dsn.Addr, wire.MySQL)
	if err != nil {
		return err
	}
	dsn.Addr = addr
	c.SQL = dsn.FormatDSN()
	t.sql, err = watchMySQL(ctx, s.SQL.URL)
	return err
}

func (t *tracer) tapCoordination(c *config, s *localstack.Stack) error {
	for _, one := range []struct {
		service localstack.Service
		codec   wire.Codec
		into    *string
	}{{s.Etcd, wire.GRPC, &c.Etcd}, {s.ZooKeeper, wire.ZooKeeper, &c.ZooKeeper}, {s.Consul, wire.HTTP, &c.Consul}} {
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

// tapKafka has the replica dial the tap, whatever address the broker gives of itself: that is where a client of Kafka turns. The broker
// is the embedded one: a trace is the same wherever it is taken.
func (t *tracer) tapKafka(ctx context.Context, c *config, o localstack.Options, needed bool) error {
	if !needed {
		return nil
	}
	s, err := t.stack(ctx, localstack.Options{Backend: localstack.Embedded, Only: []string{localstack.Kafka}, Log: o.Log})
	if err != nil {
		return err
	}
	addr, err := t.tap(s.Kafka.Name, s.Kafka.Kind, s.Kafka.Addr, wire.Kafka)
	if err != nil {
		return err
	}
	t.notes = append(t.notes, traceNote{
		"A Fetch waits in the broker until there is a record: it stands where its answer came. Where sent is negative, it was waiting\n" +
			"before the request. Nobody waits for the OffsetCommit: it may pass after the answer to the client. Left out: heartbeats,\n" +
			"metadata, and fetches that bring nothing.",
		"Fetch 是长轮询，在 broker 端挂起到有消息为止：按应答返回的时刻排列；发出时间为负，表示请求到来之前它已经在等。\n" +
			"没有谁在等 OffsetCommit：它可能晚于返回给客户端的应答。未列出：心跳、元数据，以及没有取到消息的 Fetch。",
	})
	c.Kafka = s.Kafka.URL
	c.kafkaDial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: traceTimeout}).DialContext(ctx, network, addr)
	}
	return nil
}

// serve runs the replica in this process, so that its clock is that of the taps, behind a socket like any other.
func (t *tracer) serve(ctx context.Context, c config) (err error) {
	if t.shop, err = newReplica(c, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if _, err := backend.Migrate(ctx, t.shop.set.DB); err != nil {
		return err
	}
	if t.sql == nil {
		t.watchSQLite()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.url = (&url.URL{Scheme: "http", Host: l.Addr().String()}).String()
	t.server = &http.Server{Handler: t.shop, ReadHeaderTimeout: 5 * time.Second}
	t.serving.Go(func() { _ = t.server.Serve(l) })
	t.control, err = loadtest.NewControl(t.url, c.Token)
	return err
}

// close ends everything, the replica before what it stands on.
func (t *tracer) close() {
	if t.control != nil {
		t.control.Close()
	}
	if t.server != nil {
		_ = t.server.Close()
		t.serving.Wait()
	}
	if t.shop != nil {
		t.shop.close()
	}
	for _, eye := range t.redises {
		eye.close()
	}
	if t.sql != nil {
		t.sql.close()
	}
	for _, tap := range t.taps {
		tap.Close()
	}
	for _, s := range t.stacks {
		_ = s.Close()
	}
}
