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
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

func TestDeaths(t *testing.T) {
	testenv.Slow(t, "sessions of 15 s end")
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *locktest.World{
		"zookeeper": zooKeeperWorld,
		"etcd": func(t *testing.T) *locktest.World {
			return keyWorld(t, stores["etcd"], true, map[string]string{"lease": "LeaseGrant", "key": "Txn"})
		},
		"consul": func(t *testing.T) *locktest.World {
			return keyWorld(t, stores["consul"], false, map[string]string{"session": "create", "key": "txn"})
		},
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

// keyWorld is the world of a lock whose keys' sessions a test can meddle with; dying has the calls after which a process dies.
func keyWorld(t *testing.T, of store, queue bool, dying map[string]string) *locktest.World {
	s := of.server(t)
	far := func(t *testing.T, call string) (lock.Locker, *locktest.Relay) {
		far, r := relayed(t, s)
		l := of.lock(t, far, locktest.MortalTTL, after(r, call))
		t.Cleanup(r.Heal)
		return l, r
	}
	keys := of.keys(t, s)
	w := &locktest.World{
		Key: s.Prefix + "k", Queue: queue,
		Lives:  func(t *testing.T) lock.Locker { return of.lock(t, s, time.Minute, straight) },
		Mortal: func(t *testing.T) (lock.Locker, *locktest.Relay) { return far(t, "") },
		Dying:  map[string]func(*testing.T) lock.Locker{},
		Traces: func(t *testing.T, key string) int {
			if queue {
				key += "/"
			}
			return keys(key)
		},
	}
	for name, call := range dying {
		w.Dying[name] = func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return w
}

func zooKeeperWorld(t *testing.T) *locktest.World {
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, time.Minute)
	far := func(t *testing.T) (lock.Locker, *locktest.Relay) {
		far, r := relayed(t, s)
		l := zooKeeperLock(t, far, locktest.MortalTTL)
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
	return &locktest.World{
		Key: "k", Queue: true,
		Lives:  func(t *testing.T) lock.Locker { return zooKeeperLock(t, s, 30*time.Second) },
		Mortal: far,
		Dying: map[string]func(*testing.T) lock.Locker{
			"session": dying(zkSync), "node": dying(zkCreate), "look at the others": dying(zkGetChildren), "fence": dying(zkExists),
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
