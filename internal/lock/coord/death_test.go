package coord_test

import (
	"context"
	"errors"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

func TestDeaths(t *testing.T) {
	testenv.Slow(t, "sessions of 15 s end")
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *locktest.World{
		"etcd": etcdWorld, "zookeeper": zooKeeperWorld, "consul": consulWorld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Deaths(t, make)
		})
	}
}

// after cuts the network when the server has carried out a call, so that the answer is lost.
func after(r *locktest.Relay, name string) meddle {
	return func(ctx context.Context, call string, send func(context.Context) error) error {
		err := send(ctx)
		if call == name && err == nil {
			r.Cut.Store(true)
			err = status.Error(codes.Unavailable, "the process died")
		}
		return err
	}
}

func etcdWorld(t *testing.T) *locktest.World {
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	far := func(t *testing.T, call string) (lock.Locker, *locktest.Relay) {
		r := locktest.NewRelay(t, s.Addr)
		l := newEtcd(t, meddledEtcd(t, &testenv.Coordination{Addr: r.Addr().String()}, after(r, call)), locktest.MortalTTL, nil)
		t.Cleanup(r.Heal)
		return l, r
	}
	dying := func(call string) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return &locktest.World{
		Key: s.Prefix + "k", Queue: true,
		Lives:  func(t *testing.T) lock.Locker { return newEtcd(t, s.EtcdClient(t), time.Minute, nil) },
		Mortal: func(t *testing.T) (lock.Locker, *locktest.Relay) { return far(t, "") },
		Dying:  map[string]func(*testing.T) lock.Locker{"lease": dying("LeaseGrant"), "key": dying("Txn")},
		Traces: func(t *testing.T, key string) int { return len(etcdLeases(t, c, key+"/")) },
	}
}

func zooKeeperWorld(t *testing.T) *locktest.World {
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, time.Minute)
	far := func(t *testing.T) (lock.Locker, *locktest.Relay) {
		r := locktest.NewRelay(t, s.Addr)
		l := zooKeeperLock(t, &testenv.Coordination{Addr: r.Addr().String(), Prefix: s.Prefix}, locktest.MortalTTL)
		t.Cleanup(r.Heal)
		return l, r
	}
	dying := func(operation uint32) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker {
			l, r := far(t)
			r.Losing(true, zkAnswerTo(operation))
			return l
		}
	}
	const list = 12 // GetChildren2
	return &locktest.World{
		Key: "k", Queue: true,
		Lives:  func(t *testing.T) lock.Locker { return zooKeeperLock(t, s, 30*time.Second) },
		Mortal: far,
		Dying: map[string]func(*testing.T) lock.Locker{
			"session": dying(zkSync), "node": dying(zkCreate), "look at the others": dying(list), "fence": dying(zkExists),
		},
		Traces: func(t *testing.T, key string) int {
			names, _, err := see.Children(path.Join(s.Prefix, key))
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			return len(names)
		},
	}
}

func consulWorld(t *testing.T) *locktest.World {
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	far := func(t *testing.T, call string) (lock.Locker, *locktest.Relay) {
		r := locktest.NewRelay(t, s.Addr)
		o := coord.ConsulOptions{TTL: locktest.MortalTTL, LockDelay: time.Millisecond}
		l := newConsul(t, meddledConsul(t, &testenv.Coordination{Addr: r.Addr().String()}, after(r, call)), o, nil)
		t.Cleanup(r.Heal)
		return l, r
	}
	dying := func(call string) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return &locktest.World{
		Key:    key,
		Lives:  func(t *testing.T) lock.Locker { return newConsul(t, s.ConsulClient(t), long, nil) },
		Mortal: func(t *testing.T) (lock.Locker, *locktest.Relay) { return far(t, "") },
		Dying:  map[string]func(*testing.T) lock.Locker{"session": dying("create"), "key": dying("txn")},
		Traces: func(t *testing.T, key string) int {
			keys, _, err := c.KV().Keys(key, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(keys)
		},
	}
}
