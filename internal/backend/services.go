package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"lastitem/internal/store"
)

// The services that the locks of some modes stand on; in etcd stock may live as well.

// openRedlock opens each node by itself: they must not know of each other.
func (s *Set) openRedlock(cfg Config) error {
	if cfg.Redlock == "" {
		return nil
	}
	addresses := strings.Split(cfg.Redlock, ",")
	if len(addresses) < 3 {
		return fmt.Errorf("backend: Redlock: want three or more redis:// URLs of independent masters (five are common), comma-separated, not %d",
			len(addresses))
	}
	var probes []redis.UniversalClient
	for _, address := range addresses {
		address = strings.TrimSpace(address)
		c, err := OpenRedis(address, cfg.Conns)
		if err != nil {
			return err
		}
		s.closing = append(s.closing, c.Close)
		u, _ := url.Parse(address) // OpenRedis has read it
		s.Redlock = append(s.Redlock, Node{Name: u.Host, Client: c})
		probe, err := OpenRedis(address, 1)
		if err != nil {
			return err
		}
		probes = append(probes, probe)
	}
	s.watch("redlock", func(ctx context.Context) error { return majority(ctx, probes) }, func() error {
		var errs []error
		for _, p := range probes {
			errs = append(errs, p.Close())
		}
		return errors.Join(errs...)
	})
	return nil
}

// majority pings all at once: one that hangs must not hide the others.
func majority(ctx context.Context, nodes []redis.UniversalClient) error {
	answers := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { answers <- n.Ping(ctx).Err() }()
	}
	var up int
	var errs []error
	for range nodes {
		if err := <-answers; err != nil {
			errs = append(errs, err)
		} else if up++; up > len(nodes)/2 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d nodes answer: %w", up, len(nodes), errors.Join(errs...))
}

// openZooKeeper begins to connect; the client goes on by itself until it succeeds.
func (s *Set) openZooKeeper(cfg Config) error {
	if cfg.ZooKeeper == "" {
		return nil
	}
	var servers []string
	for part := range strings.SplitSeq(cfg.ZooKeeper, ",") {
		server := strings.TrimSpace(part)
		if _, port, found := strings.Cut(server, ":"); server == "" || !found || port == "" || strings.Contains(server, "/") {
			return fmt.Errorf("backend: ZooKeeper address %q: want host:port", server)
		}
		servers = append(servers, server)
	}
	c, events, err := zk.Connect(servers, cmp.Or(cfg.Session, 10*time.Second), zk.WithLogger(silent{}))
	if err != nil {
		return fmt.Errorf("backend: ZooKeeper: %w", err)
	}
	s.ZooKeeper = c
	s.closing = append(s.closing, func() error {
		c.Close()
		for range events { // until its last goroutine has ended
		}
		return nil
	})
	s.watch("zookeeper", func(context.Context) error {
		if state := c.State(); state != zk.StateHasSession {
			return fmt.Errorf("%s: %s", cfg.ZooKeeper, strings.TrimPrefix(state.String(), "State"))
		}
		return nil
	}, func() error { return nil })
	return nil
}

// silent drops what the client says by itself; what matters of it is returned as an error.
type silent struct{}

// Printf does nothing.
func (silent) Printf(string, ...any) {}

func (s *Set) openEtcd(cfg Config) error {
	if cfg.Etcd == "" {
		return nil
	}
	endpoints, err := endpoints("etcd", cfg.Etcd)
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("backend: etcd: %w", err)
	}
	s.Etcd, s.EtcdStore = c, store.NewEtcd(c, cfg.Prefix)
	s.closing = append(s.closing, c.Close)
	s.watch("etcd", func(ctx context.Context) error {
		_, err := c.Get(ctx, "\x00") // by consensus: a member without a leader does not answer
		return err
	}, func() error { return nil })
	return nil
}

func (s *Set) openConsul(cfg Config) error {
	if cfg.Consul == "" {
		return nil
	}
	endpoints, err := endpoints("Consul", cfg.Consul)
	if err != nil {
		return err
	}
	if len(endpoints) > 1 {
		return errors.New("backend: Consul has one address, that of the agent beside this process")
	}
	o := consul.DefaultConfig()
	o.Address = endpoints[0]
	o.HttpClient = &http.Client{Transport: o.Transport}
	c, err := consul.NewClient(o)
	if err != nil {
		return fmt.Errorf("backend: Consul: %w", err)
	}
	s.Consul = c
	s.closing = append(s.closing, func() error { o.Transport.CloseIdleConnections(); return nil })
	s.watch("consul", func(ctx context.Context) error {
		_, err := c.Status().LeaderWithQueryOptions((&consul.QueryOptions{}).WithContext(ctx))
		return err
	}, func() error { return nil })
	return nil
}

// endpoints reads the URLs of a service.
func endpoints(service, addresses string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(addresses, ",") {
		part = strings.TrimSpace(part)
		u, err := url.Parse(part)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("backend: %s address %q: want http://host:port", service, Redact(part))
		}
		all = append(all, part)
	}
	return all, nil
}
