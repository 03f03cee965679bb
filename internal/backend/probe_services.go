package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/store/etcddb"
)

// The probes of the services that keep a log by consensus. Each is a write under a condition that never holds: it goes
// through the log of a majority like any other, and is refused like any other, and it leaves nothing behind. A read
// would not do: an etcd that has no space left answers reads, and so does a follower whose leader is away.

// probeEtcd sends a transaction that would put a key. Where there is an alarm etcd refuses it before it looks at the
// condition.
func (s *Set) probeEtcd(cfg Config) error {
	c, err := cfg.ownEtcd(job)
	if err != nil {
		return err
	}
	mark := cfg.Prefix + job
	never := clientv3.Compare(clientv3.Version(mark), "<", 0)
	s.watch(cfg, "etcd", probe{
		ask: func(ctx context.Context) error {
			_, err := c.Txn(ctx).If(never).Then(clientv3.OpPut(mark, "")).Commit()
			return err
		},
		refused: etcddb.Answered,
		close:   c.Close,
	})
	return nil
}

// probeConsul sets a key if it was last changed by the first entry of Consul's log, which is the cluster's own.
func (s *Set) probeConsul(cfg Config, address string) error {
	c, closing, err := dialConsul(address, cfg.own(job))
	if err != nil {
		return err
	}
	s.watch(cfg, "consul", probe{
		ask: func(ctx context.Context) error {
			_, _, err := c.KV().CAS(&consul.KVPair{Key: cfg.Prefix + job, ModifyIndex: 1},
				(&consul.WriteOptions{}).WithContext(ctx))
			return err
		},
		refused: func(err error) bool { // what the agent could not do (500) may be an election
			var answered consul.StatusError
			return errors.As(err, &answered) && answered.Code == http.StatusForbidden
		},
		close: closing,
	})
	return nil
}

// markNode is the node that the probes of ZooKeeper would set, if it were there.
const markNode = "/lastitem-" + job

// probeZooKeeper sets a node that is not there, over a session of its own; the session of the locks must be there as
// well. The client knows no context: a request without an answer is waited for by the next probes as well, until the
// client gives its connection up.
func (s *Set) probeZooKeeper(cfg Config, servers []string) error {
	own, closing, err := dialGranting(servers, cfg.Session, func(error) {})
	if err != nil {
		return err
	}
	var asked chan error // nil = none is under way
	s.watch(cfg, "zookeeper", probe{
		ask: func(ctx context.Context) error {
			for _, c := range []*zk.Conn{s.ZooKeeper, own} {
				if state := c.State(); state != zk.StateHasSession {
					return fmt.Errorf("%s: %s", cfg.ZooKeeper, strings.TrimPrefix(state.String(), "State"))
				}
			}
			if asked == nil {
				asked = make(chan error, 1)
				go func(answer chan<- error) {
					_, err := own.Set(markNode, nil, math.MaxInt32)
					answer <- err
				}(asked)
			}
			select {
			case err := <-asked:
				asked = nil
				if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
					return nil
				}
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		close: closing,
	})
	return nil
}
