package backend

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"lastitem/internal/store/etcddb"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// The services that the locks of some modes stand on; in etcd stock may live as well.

// openRedlock opens each node by itself: they must not know of each other.
func (s *Set) openRedlock(cfg Config) error {
	if cfg.Redlock == "" {
		return nil
	}
	addresses := strings.Split(cfg.Redlock, ",")
	if len(addresses) < 3 {
		return text.Of("backend: Redlock: want three or more redis:// URLs of independent masters (five are common), " +
			"comma-separated, not %d").Errorf(len(addresses))
	}
	named := map[string]bool{}
	for _, address := range addresses {
		address = strings.TrimSpace(address)
		c, err := openRedis(address, cfg.pool())
		if err != nil {
			return err
		}
		s.closing = append(s.closing, c.Close)
		if named := sentinelURL(address); named != "" {
			address = named
		}
		u, _ := url.Parse(address)                                     // openRedis has read it
		node := strings.ToLower(u.Host) + u.Query().Get("master_name") // the Sentinels of several masters may be the same
		if named[node] {
			return text.Of("backend: Redlock: %s is named twice: want independent masters, each of which grants one vote").
				Errorf(u.Host)
		}
		named[node] = true
		s.Redlock = append(s.Redlock, Node{Name: u.Host, Client: c})
	}
	return s.probeRedlock(cfg, addresses)
}

// ZooKeeperRoot is the node below which the locks of a shop have theirs.
const ZooKeeperRoot = "/lastitem"

// openZooKeeper begins to connect; the client goes on by itself until it succeeds.
func (s *Set) openZooKeeper(cfg Config) error {
	if cfg.ZooKeeper == "" {
		return nil
	}
	var servers []string
	for part := range strings.SplitSeq(cfg.ZooKeeper, ",") {
		server := strings.TrimSpace(part)
		if !hostPort(server) {
			return text.Of("backend: ZooKeeper address %q: want host:port, with no user, path or parameter").
				Errorf(redact.Address(server))
		}
		servers = append(servers, server)
	}
	var once sync.Once
	c, closing, err := dialGranting(servers, cfg.Session, func(err error) {
		once.Do(func() { s.log.Error("zookeeper cannot be used", "err", err) })
	})
	if err != nil {
		return err
	}
	s.ZooKeeper = c
	s.closing = append(s.closing, closing)
	return s.probeZooKeeper(cfg, servers)
}

// dialGranting begins to connect, to servers that grant the session time-out. For each server that grants less it calls
// refused, and the client tries the next server.
func dialGranting(servers []string, session time.Duration, refused func(error)) (c *zk.Conn, closing func() error,
	err error) {
	session = cmp.Or(session, 10*time.Second)
	ctx, stop := context.WithCancel(context.Background())
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := dialAny(ctx, network, address, timeout)
		if err != nil {
			return nil, err
		}
		return &granting{Conn: conn, least: session, refused: refused}, nil
	}
	c, events, err := zk.Connect(servers, session, zk.WithLogger(silent{}), zk.WithDialer(dial),
		zk.WithHostProvider(&ensemble{}))
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("backend: ZooKeeper: %w", err)
	}
	return c, func() error {
		stop() // a resolution of names that hangs
		c.Close()
		for range events { // until its last goroutine has ended
		}
		return nil
	}, nil
}

// ensemble hands the servers' names to the dialer, which resolves them each time. The client's own provider resolves
// them once: Open would fail while a name is unknown, and a server that came back with another address would never be
// found.
type ensemble struct {
	mu          sync.Mutex
	servers     []string
	current     int // the server that was handed out last
	established int // the one that was connected last, at first the first
	begun       bool
}

// nameServers bounds the resolution of a ZooKeeper's name.
const nameServers = 3 * time.Second

// dialAny connects to one of the addresses that a name has now, in random order: it may stand for a whole ensemble, of
// which one server accepts connections and cannot serve. timeout is that of all addresses together.
func dialAny(ctx context.Context, network, address string, timeout time.Duration) (conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nameServers)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, i := range rand.Perm(len(found)) {
		if conn, err = net.DialTimeout(network, net.JoinHostPort(found[i], port),
			timeout/time.Duration(len(found))); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Init takes the servers, in random order, so that clients spread over them.
func (e *ensemble) Init(servers []string) error {
	e.servers = slices.Clone(servers)
	rand.Shuffle(len(e.servers), func(i, k int) { e.servers[i], e.servers[k] = e.servers[k], e.servers[i] })
	return nil
}

// Len returns the number of servers.
func (e *ensemble) Len() int { return len(e.servers) }

// Next returns the server to try, and whether all of them have been tried since the last connection; then the client
// rests for a second.
func (e *ensemble) Next() (server string, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun {
		e.current = (e.current + 1) % len(e.servers)
		all = e.current == e.established
	}
	e.begun = true
	return e.servers[e.current], all
}

// Connected notes that the session is established.
func (e *ensemble) Connected() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.established = e.current
}

// granting is a connection to a ZooKeeper that must grant the session time-out. The client silently accepts a shorter
// one, but the lock trusts its session for the time-out that was asked for: a rival would enter before the holder is
// told. A longer one does no harm.
type granting struct {
	net.Conn
	least   time.Duration
	refused func(error)
	begun   []byte // the first bytes that the server sent: length, protocol version and time-out (0 = the session is over)
}

// zooKeeperBegin is the number of these bytes.
const zooKeeperBegin = 12

// Read fails once the server has granted a time-out that is too short.
func (g *granting) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if missing := zooKeeperBegin - len(g.begun); missing > 0 {
		g.begun = append(g.begun, p[:min(n, missing)]...)
	}
	if err != nil || len(g.begun) < zooKeeperBegin {
		return n, err
	}
	granted := time.Duration(binary.BigEndian.Uint32(g.begun[8:])) * time.Millisecond
	if granted == 0 || granted >= g.least {
		return n, nil
	}
	err = text.Of("backend: ZooKeeper at %s grants sessions of %s at most, and the locks need %s: shorten "+
		"SHOP_LOCK_TTL, or raise maxSessionTimeout at the server").Errorf(g.RemoteAddr(), granted, g.least)
	g.refused(err)
	return 0, err
}

// silent drops the client's log lines; the errors that matter are returned.
type silent struct{}

// Printf does nothing.
func (silent) Printf(string, ...any) {}

func (s *Set) openEtcd(cfg Config) error {
	if cfg.Etcd == "" {
		return nil
	}
	c, err := dialEtcd(cfg.Etcd, cfg.pool())
	if err != nil {
		return err
	}
	s.Etcd, s.EtcdStore = c, etcddb.New(c, cfg.Prefix)
	s.EtcdStore.AnswersWithin(cfg.Patience.orDefault().Etcd)
	s.closing = append(s.closing, c.Close)
	return s.probeEtcd(cfg)
}

// ownEtcd is [Config.OwnRedis] for etcd, whose server logs the name as user agent.
func (cfg Config) ownEtcd(job string) (*clientv3.Client, error) {
	return dialEtcd(cfg.Etcd, cfg.own(job))
}

// A connection to etcd that carries requests and has been silent for etcdPing is asked, and given up if it stays silent
// for etcdPong. Otherwise one whose server is unreachable would last for a quarter of an hour, until the kernel gives
// up. gRPC asks no sooner than after 10 seconds.
const (
	etcdPing = 10 * time.Second
	etcdPong = 3 * time.Second
)

func dialEtcd(addresses string, l link) (*clientv3.Client, error) {
	endpoints, user, err := endpoints("etcd", addresses)
	if err != nil {
		return nil, err
	}
	password, _ := user.Password()
	for _, e := range endpoints {
		if u, _ := url.Parse(e); strings.Trim(u.Path, "/") != "" || user != nil && (user.Username() == "" || password == "") {
			return nil, text.Of("backend: etcd address %q: want http://user:password@host:port, with no path").Errorf(e)
		}
	}
	o := clientv3.Config{
		Username: user.Username(), Password: password,
		Endpoints: endpoints, Logger: zap.NewNop(), DialKeepAliveTime: etcdPing, DialKeepAliveTimeout: etcdPong,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: leastBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: mostBackoff},
			MinConnectTimeout: l.patience.orDefault().Dial,
		}), grpc.WithChainUnaryInterceptor(signInLater())},
	}
	if l.name != "" {
		o.DialOptions = append(o.DialOptions, grpc.WithUserAgent(l.name))
	}
	c, err := clientv3.New(o)
	if err != nil {
		return nil, fmt.Errorf("backend: etcd: %w", err)
	}
	return c, nil
}

// signInLater answers the first request for a token itself, with none. clientv3.New sends it and would fail while the
// server is down; the server's refusal of the first command without a token makes the client ask again.
func signInLater() grpc.UnaryClientInterceptor {
	var begun atomic.Bool
	return func(ctx context.Context, method string, req, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		if method == "/etcdserverpb.Auth/Authenticate" && !begun.Swap(true) {
			return nil
		}
		return invoke(ctx, method, req, reply, c, opts...)
	}
}

// consulBlocks is the longest blocking query of a lock, with the sixteenth that Consul adds.
const consulBlocks = 11 * time.Second

func (s *Set) openConsul(cfg Config) error {
	if cfg.Consul == "" {
		return nil
	}
	endpoints, user, err := endpoints("Consul", cfg.Consul)
	if err != nil {
		return err
	}
	if user != nil {
		return text.Of("backend: Consul address: the user is not used; a token is given by CONSUL_HTTP_TOKEN, and a " +
			"proxy's user by CONSUL_HTTP_AUTH").Errorf()
	}
	if len(endpoints) > 1 {
		return text.Of("backend: Consul has one address, that of the agent beside this process").Errorf()
	}
	c, closing, err := dialConsul(endpoints[0], cfg.pool())
	if err != nil {
		return err
	}
	s.Consul = c
	s.closing = append(s.closing, closing)
	return s.probeConsul(cfg, endpoints[0])
}

func dialConsul(address string, l link) (c *consul.Client, closing func() error, err error) {
	o := consul.DefaultConfig()
	o.Address = address
	p := l.patience.orDefault()
	o.Transport.DialContext = (&net.Dialer{Timeout: p.Dial}).DialContext
	o.Transport.ResponseHeaderTimeout = consulBlocks + p.HTTP
	o.HttpClient = &http.Client{Transport: o.Transport}
	if c, err = consul.NewClient(o); err != nil {
		return nil, nil, fmt.Errorf("backend: Consul: %w", err)
	}
	if l.name != "" {
		c.AddHeader("User-Agent", l.name)
	}
	return c, func() error { o.Transport.CloseIdleConnections(); return nil }, nil
}

// hostPort says whether an address is host:port and nothing else.
func hostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	_, number := strconv.ParseUint(port, 10, 16)
	return err == nil && number == nil && host != "" && !strings.ContainsAny(address, "@/?#")
}

// endpoints reads the URLs of a service, and refuses what its client would ignore. The URLs that it returns have no
// user.
func endpoints(service, addresses string) (all []string, user *url.Userinfo, err error) {
	for i, part := range strings.Split(addresses, ",") {
		part = strings.TrimSpace(part)
		u, err := url.Parse(part)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(part, "?#") {
			return nil, nil, text.Of("backend: %s address %q: want http://host:port").Errorf(service, redact.Address(part))
		}
		if i > 0 && (!reflect.DeepEqual(u.User, user) || !strings.HasPrefix(all[0], u.Scheme+":")) {
			return nil, nil, text.Of("backend: %s: the scheme, the user and the password must be the same in the whole list").
				Errorf(service)
		}
		user, u.User = u.User, nil
		all = append(all, u.String())
	}
	return all, user, nil
}
