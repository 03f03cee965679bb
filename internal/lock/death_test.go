package lock_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/testenv"
)

// What a process leaves behind that dies, which here means that nothing it sends arrives any more: while it holds, while it
// waits, and after each command of its acquire. And what one leaves behind that lives on while its callers come and go.

// world is a lock's store with one key, and processes.
type world struct {
	key string
	// lives makes a process that lives on.
	lives func(t *testing.T) lock.Locker
	// mortal makes one with a short TTL, on a network of its own.
	mortal func(t *testing.T) (lock.Locker, *relay)
	// dying makes processes that die in their next acquire, by the last thing that the server did for them.
	dying map[string]func(t *testing.T) lock.Locker
	// traces counts what holders and waiters have at the server.
	traces func(t *testing.T, key string) int
	// queue says that a waiter leaves a trace.
	queue bool
}

func TestDeaths(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) *world{
		"etcd": etcdWorld, "zookeeper": zooKeeperWorld, "consul": consulWorld,
		"sql-lease":      func(t *testing.T) *world { return leaseWorld(t, testenv.MySQL(t)) },
		"sql-for-update": func(t *testing.T) *world { return forUpdateWorld(t, testenv.MySQL(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(name string, f func(w *world, t *testing.T)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f(make(t), t)
				})
			}
			run("holding", (*world).diesHolding)
			run("waiting", (*world).diesWaiting)
			run("acquiring", (*world).diesAcquiring)
			run("callers leave", (*world).callersLeave)
		})
	}
}

func (w *world) none(t *testing.T, key string) {
	t.Helper()
	eventually(t, "nothing is left at the server", func() bool { return w.traces(t, key) == 0 })
}

func (w *world) diesHolding(t *testing.T) {
	l, net := w.mortal(t)
	lease := obtain(t, l, w.key)
	net.cut.Store(true)
	next := obtain(t, w.lives(t), w.key)
	wantLost(t, lease, 0)
	letGo(t, next)
	w.none(t, w.key)
}

// The dead waiter admits nobody while the holder lives, and blocks nobody after that.
func (w *world) diesWaiting(t *testing.T) {
	holder := obtain(t, w.lives(t), w.key)
	l, net := w.mortal(t)
	warm(t, l, w.key+" before") // so that all it asks from here on is for this lock
	asked := net.asked.Load()
	died := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), w.key)
		died <- err
	}()
	eventually(t, "the mortal waits", func() bool { return net.asked.Load() > asked+1 && (!w.queue || w.traces(t, w.key) == 2) })
	got := make(chan lock.Lease, 1)
	behind := w.lives(t)
	go func() {
		lease, err := behind.Acquire(t.Context(), w.key)
		if err != nil {
			t.Errorf("the waiter behind the dead one: %v", err)
		}
		got <- lease
	}()
	if w.queue {
		eventually(t, "another waits behind it", func() bool { return w.traces(t, w.key) == 3 })
	}
	net.cut.Store(true)
	if err := <-died; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("the dead waiter's Acquire = %v, want ErrUnavailable", err)
	}
	if w.queue {
		eventually(t, "the dead one's place is gone", func() bool { return w.traces(t, w.key) == 2 })
	}
	wantBusy(t, w.lives(t), w.key, "after the death of a waiter")
	select {
	case <-got:
		t.Fatal("the death of a waiter admitted the one behind it")
	default:
	}
	letGo(t, holder)
	letGo(t, <-got)
	w.none(t, w.key)
}

func (w *world) diesAcquiring(t *testing.T) {
	for name, dying := range w.dying {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := w.key + " " + name
			if lease, err := dying(t).Acquire(t.Context(), key); err == nil {
				t.Fatalf("acquired with fence %d: it did not die", lease.Fence())
			}
			warm(t, w.lives(t), key)
			w.none(t, key)
		})
	}
}

// Contexts end at any moment of an acquire, of a lock that is free and of one that is held; the process lives on.
func (w *world) callersLeave(t *testing.T) {
	l, other := w.lives(t), w.lives(t)
	start := time.Now()
	warm(t, l, w.key)
	usual := time.Since(start)
	for i := range 60 {
		var holder lock.Lease
		if i%2 == 1 {
			holder = obtain(t, other, w.key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*usual))
		lease, err := l.Acquire(ctx, w.key)
		switch {
		case err == nil && holder != nil:
			t.Fatal("two holders")
		case err == nil:
			letGo(t, lease)
		case !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Acquire = %v, want ErrBusy with the cause", err)
		}
		cancel()
		if holder != nil {
			letGo(t, holder)
		}
	}
	warm(t, other, w.key)
	w.none(t, w.key)
}

// after cuts the network when the server has done what a call asks, whose answer is lost.
func after(r *relay, name string) meddle {
	return func(ctx context.Context, call string, send func(context.Context) error) error {
		err := send(ctx)
		if call == name && err == nil {
			r.cut.Store(true)
			err = status.Error(codes.Unavailable, "the process died")
		}
		return err
	}
}

const mortalTTL = 2 * time.Second

func etcdWorld(t *testing.T) *world {
	s := testenv.Etcd(t)
	c := s.EtcdClient(t)
	far := func(t *testing.T, call string) (lock.Locker, *relay) {
		r := newRelay(t, s.Addr)
		l := newEtcd(t, meddledEtcd(t, &testenv.Coordination{Addr: r.Addr().String()}, after(r, call)), mortalTTL, nil)
		t.Cleanup(r.heal)
		return l, r
	}
	dying := func(call string) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return &world{
		key: s.Prefix + "k", queue: true,
		lives:  func(t *testing.T) lock.Locker { return newEtcd(t, s.EtcdClient(t), time.Minute, nil) },
		mortal: func(t *testing.T) (lock.Locker, *relay) { return far(t, "") },
		dying:  map[string]func(*testing.T) lock.Locker{"lease": dying("LeaseGrant"), "key": dying("Txn")},
		traces: func(t *testing.T, key string) int { return len(etcdLeases(t, c, key+"/")) },
	}
}

func zooKeeperWorld(t *testing.T) *world {
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, time.Minute)
	far := func(t *testing.T) (lock.Locker, *relay) {
		r := newRelay(t, s.Addr)
		l := zooKeeperLock(t, &testenv.Coordination{Addr: r.Addr().String(), Prefix: s.Prefix}, mortalTTL)
		t.Cleanup(r.heal)
		return l, r
	}
	dying := func(operation uint32) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker {
			l, r := far(t)
			r.losing(true, zkAnswerTo(operation))
			return l
		}
	}
	const ping, list = 3, 12 // Exists and GetChildren2
	return &world{
		key: "k", queue: true,
		lives:  func(t *testing.T) lock.Locker { return zooKeeperLock(t, s, 30*time.Second) },
		mortal: far,
		dying: map[string]func(*testing.T) lock.Locker{
			"session": dying(ping), "node": dying(zkCreate), "look at the others": dying(list),
		},
		traces: func(t *testing.T, key string) int {
			names, _, err := see.Children(path.Join(s.Prefix, key))
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			return len(names)
		},
	}
}

func consulWorld(t *testing.T) *world {
	s := testenv.Consul(t)
	c, key := s.ConsulClient(t), s.Prefix+"k"
	far := func(t *testing.T, call string) (lock.Locker, *relay) {
		r := newRelay(t, s.Addr)
		o := lock.ConsulOptions{TTL: mortalTTL, LockDelay: time.Millisecond}
		l := newConsul(t, meddledConsul(t, &testenv.Coordination{Addr: r.Addr().String()}, after(r, call)), o, nil)
		t.Cleanup(r.heal)
		return l, r
	}
	dying := func(call string) func(*testing.T) lock.Locker {
		return func(t *testing.T) lock.Locker { l, _ := far(t, call); return l }
	}
	return &world{
		key:    key,
		lives:  func(t *testing.T) lock.Locker { return newConsul(t, s.ConsulClient(t), long, nil) },
		mortal: func(t *testing.T) (lock.Locker, *relay) { return far(t, "") },
		dying:  map[string]func(*testing.T) lock.Locker{"session": dying("create"), "key": dying("txn")},
		traces: func(t *testing.T, key string) int {
			keys, _, err := c.KV().Keys(key, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(keys)
		},
	}
}

// rowLock makes a lock of rows with a TTL.
type rowLock func(*testing.T, *gorm.DB, time.Duration) lock.Locker

// sqlWorld is the part that the locks of rows share. In dying are pieces of statements.
func sqlWorld(t *testing.T, dsn string, locker rowLock, dying map[string]string) *world {
	openSQL(t, dsn, 1)
	far := func(t *testing.T) (lock.Locker, *relay) {
		far, r := throughRelay(t, dsn)
		l := locker(t, openSQL(t, far, 4), mortalTTL)
		t.Cleanup(r.heal)
		return l, r
	}
	w := &world{
		key:    "k",
		lives:  func(t *testing.T) lock.Locker { return locker(t, openSQL(t, dsn, 4), time.Minute) },
		mortal: far,
		dying:  map[string]func(*testing.T) lock.Locker{},
	}
	for name, statement := range dying {
		w.dying[name] = func(t *testing.T) lock.Locker {
			l, r := far(t)
			r.losing(true, answerTo(statement))
			return l
		}
	}
	return w
}

// answerTo finds the answer to a statement by a piece of its text.
func answerTo(statement string) func(sent []byte) func([]byte) bool {
	return func(sent []byte) func([]byte) bool {
		if bytes.Contains(sent, []byte(statement)) {
			return func([]byte) bool { return true }
		}
		return nil
	}
}

func leaseWorld(t *testing.T, dsn string) *world {
	w := sqlWorld(t, dsn, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker { return sqlLease(t, db, ttl, nil) },
		map[string]string{"row made": "INSERT INTO record_lock", "row taken": "fence = fence + 1", "look": "SELECT owner"})
	db := openSQL(t, dsn, 1)
	w.traces = func(t *testing.T, key string) (n int) { // the row stays, with its fence
		held := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? AND owner <> ''", []byte(key))
		if err := held.Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	return w
}

func forUpdateWorld(t *testing.T, dsn string) *world {
	w := sqlWorld(t, dsn, func(t *testing.T, db *gorm.DB, ttl time.Duration) lock.Locker { return forUpdate(t, db, ttl, nil) },
		map[string]string{"connection": "autocommit = 0", "row made": "INSERT INTO record_lock", "row locked": "FOR UPDATE"})
	db := openSQL(t, dsn, 1)
	w.traces = func(t *testing.T, key string) (n int) { // nobody has the row: it can be locked at once
		err := db.Raw("SELECT COUNT(*) FROM record_lock WHERE lock_key = ? FOR UPDATE NOWAIT", []byte(key)).Scan(&n).Error
		if err != nil {
			return 1
		}
		return 0
	}
	return w
}
