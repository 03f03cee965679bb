package coord_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/lock"
	"lastitem/internal/lock/coord"
	"lastitem/internal/step"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// newZooKeeper returns a lock, and its own connection.
func newZooKeeper(t *testing.T, s *testenv.Coordination, session time.Duration, st *step.Stream) (*coord.ZooKeeper,
	*zk.Conn) {
	t.Helper()
	c := s.ZooKeeperConn(t, session)
	l := testkit.Closing(t, coord.NewZooKeeper(c, s.Prefix, session, st))
	return l, c
}

func zooKeeperLock(t *testing.T, s *testenv.Coordination, session time.Duration) *coord.ZooKeeper {
	t.Helper()
	l, _ := newZooKeeper(t, s, session, nil)
	return l
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	locktest.Run(t, locktest.Kind{
		Name: "zookeeper", Key: locktest.KeysUnder("a/b."),
		Process: func(t *testing.T, st *step.Stream) lock.Locker {
			l, _ := newZooKeeper(t, s, 30*time.Second, st)
			return l
		},
		Late: &locktest.Late{TTL: time.Second, Process: func(t *testing.T, through func(string) string) lock.Locker {
			far := *s
			far.Addr = through(s.Addr)
			return zooKeeperLock(t, &far, time.Second)
		}},
	})
}

// zkNodes returns the nodes of the only lock below the test's root.
func zkNodes(t *testing.T, c *zk.Conn, root string) []string {
	t.Helper()
	locks, _, err := c.Children(root)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(locks) == 0 {
		return nil
	}
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks %v, %v, want one", locks, err)
	}
	names, _, err := c.Children(path.Join(root, locks[0]))
	testkit.Must(t, err)
	return names
}

// closeSession ends another client's session: it joins the session with the number and password from the server's first
// answer to that client, and closes it. hello is that answer: length, protocol, time-out, number, length of the
// password, password.
func closeSession(t *testing.T, addr string, hello []byte) {
	t.Helper()
	c := testkit.Dial(t, addr)
	be := binary.BigEndian
	join := be.AppendUint32(nil, 44)                    // length
	join = be.AppendUint32(join, 0)                     // protocol
	join = be.AppendUint64(join, 0)                     // last transaction seen
	join = append(join, hello[8:12]...)                 // time-out
	join = append(join, hello[12:40]...)                // number and password
	join = append(join, 0, 0, 0, 8, 0, 0, 0, 1)         // a request of 8 bytes, number 1
	join = be.AppendUint32(join, uint32(0xffffffff-10)) // closeSession is -11
	_, err := c.Write(join)
	testkit.Must(t, err)
	if _, err := io.ReadAll(c); err != nil { // until the server closes the connection
		t.Logf("read: %v", err)
	}
}

func TestZooKeeperSessionClosed(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	const session = 20 * time.Second
	holder, rival := zooKeeperLock(t, far, session), zooKeeperLock(t, s, 30*time.Second)
	locktest.SessionEnds(t, holder, rival, "k", session, func() { closeSession(t, s.Addr, <-r.Hello) })
}

func TestZooKeeperCutOff(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	holder, rival := zooKeeperLock(t, far, 10*time.Second), zooKeeperLock(t, s, 30*time.Second)
	lease := locktest.Obtain(t, holder, "k")
	r.Cut.Store(true)
	second := locktest.Obtain(t, rival, "k")
	locktest.WantLost(t, lease, 0)
	if err := lease.Release(t.Context()); err == nil {
		t.Error("Release without a network = nil")
	}
	locktest.WantBusy(t, rival, "k", "after a release that could not be sent")
	locktest.Release(t, second)
	r.Heal() // so that the connection can be closed
}

// The numbers of ZooKeeper's operations.
const (
	zkCreate      = 1
	zkDelete      = 2
	zkExists      = 3
	zkGetData     = 4
	zkSync        = 9
	zkGetChildren = 12
	zkSetWatches  = 101
)

// zkFrames splits the content of one write. Each frame begins with its length; then a request has its number and
// operation, and an answer the number of its request.
func zkFrames(b []byte) (frames [][]byte) {
	for len(b) >= 4 {
		n := min(4+int(binary.BigEndian.Uint32(b)), len(b))
		frames, b = append(frames, b[4:n]), b[n:]
	}
	return frames
}

// zkAnswerTo finds the answer to the next operation of a kind.
func zkAnswerTo(operation uint32) func(sent []byte) func(received []byte) bool {
	be := binary.BigEndian
	return func(sent []byte) func([]byte) bool {
		for _, q := range zkFrames(sent) {
			if len(q) >= 8 && be.Uint32(q) != 0 && be.Uint32(q[4:]) == operation {
				number := be.Uint32(q)
				return func(received []byte) bool {
					return slices.ContainsFunc(zkFrames(received), func(a []byte) bool {
						return len(a) >= 4 && be.Uint32(a) == number
					})
				}
			}
		}
		return nil
	}
}

// zkAsked tells whether an operation is asked for from now on.
func zkAsked(r *locktest.Relay, operation uint32) *atomic.Bool {
	var asked atomic.Bool
	r.Losing(false, func(sent []byte) func([]byte) bool { // loses nothing
		if zkAnswerTo(operation)(sent) != nil {
			asked.Store(true)
		}
		return nil
	})
	return &asked
}

// The answer to the create is lost with its connection: the node exists, but its name is not known.
func TestZooKeeperFindsItsOrphan(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	l, see := zooKeeperLock(t, far, 20*time.Second), s.ZooKeeperConn(t, 20*time.Second)
	locktest.Warm(t, l, "k")
	create := r.Losing(false, zkAnswerTo(zkCreate))
	lease := locktest.Obtain(t, l, "k")
	create.Happened(t)
	if left := zkNodes(t, see, s.Prefix); len(left) != 1 {
		t.Errorf("nodes %v, want one", left)
	}
	locktest.Release(t, lease)
	if left := zkNodes(t, see, s.Prefix); len(left) != 0 {
		t.Errorf("nodes %v left behind", left)
	}
}

// The same, but there is no connection for longer than a caller may wait: the session deletes the node later.
func TestZooKeeperDeletesItsOrphan(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	l, see := zooKeeperLock(t, far, 30*time.Second), s.ZooKeeperConn(t, 30*time.Second)
	locktest.Warm(t, l, "k")
	create := r.Losing(true, zkAnswerTo(zkCreate))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := locktest.Attempt(ctx, l, "k")
	create.Happened(t)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want it to end with its context", err)
	}
	if left := zkNodes(t, see, s.Prefix); len(left) != 1 {
		t.Errorf("nodes %v, want the orphan: this test shows nothing", left)
	}
	r.Heal()
	testkit.Until(t, "the orphan is gone", func() bool { return len(zkNodes(t, see, s.Prefix)) == 0 })
	locktest.Warm(t, zooKeeperLock(t, s, 20*time.Second), "k")
}

func TestZooKeeperFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, 20*time.Second)
	fifo(t, zooKeeperLock(t, s, 20*time.Second), "k", func() int { return len(zkNodes(t, see, s.Prefix)) })
}

// A waiter dies. The next one watches its node, and must not mistake its end for the holder's.
func TestZooKeeperDeadWaiterAdmitsNobody(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, 20*time.Second)
	holder := locktest.Obtain(t, zooKeeperLock(t, s, 20*time.Second), "k")
	dead, conn := newZooKeeper(t, s, 20*time.Second, nil)
	queued := func(n int) {
		testkit.Until(t, "the queue has another length", func() bool { return len(zkNodes(t, see, s.Prefix)) == n })
		locktest.Say(t, "%d nodes in the queue", n)
	}
	died := locktest.Attempt(t.Context(), dead, "k")
	queued(2)
	next := zooKeeperLock(t, s, 20*time.Second)
	got := locktest.Waiter(t, next, "k")
	queued(3)
	conn.Close()
	testkit.IsError(t, <-died, lock.ErrUnavailable, "the waiter without a session")
	queued(2)
	select {
	case <-got:
		t.Fatal("the death of a waiter admitted the next one")
	case <-time.After(200 * time.Millisecond):
	}
	locktest.Say(t, "the waiter in front has died, and the next one does not have the lock: its holder lives")
	locktest.Release(t, holder)
	locktest.Release(t, <-got)
}

// The lock's node is a container, which the server deletes: numbers start again with the next one, fences do not.
func TestZooKeeperFencesRise(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, 20*time.Second)
	l := zooKeeperLock(t, s, 20*time.Second)
	locktest.FencesRise(t, "k", l, zooKeeperLock(t, s, 20*time.Second))
	before := locktest.Obtain(t, l, "k")
	locktest.Release(t, before)
	locks, _, err := see.Children(s.Prefix)
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks %v, %v, want one", locks, err)
	}
	if err := see.Delete(path.Join(s.Prefix, locks[0]), -1); err != nil { // as the server will
		t.Fatal(err)
	}
	after := locktest.Obtain(t, l, "k")
	locktest.WantHigher(t, before, after)
	locktest.Release(t, after)
}

// The answer to the delete is lost with its connection: the lock asks again, and knows that its own delete removed the
// node.
func TestZooKeeperLostRelease(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	lease := locktest.Obtain(t, zooKeeperLock(t, far, 20*time.Second), "k")
	remove := r.Losing(false, zkAnswerTo(zkDelete))
	if err := lease.Release(t.Context()); errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want nil, or unknown and then nil", err)
	}
	locktest.Release(t, lease)
	remove.Happened(t)
	locktest.Warm(t, zooKeeperLock(t, s, 20*time.Second), "k")
}

// The predecessor's node goes just before it is watched. No watch may remain: the name never comes again, and client
// and server would keep every such watch and set it again after each reconnect.
func TestZooKeeperLeavesNoWatches(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	l := zooKeeperLock(t, far, 30*time.Second)
	locktest.Warm(t, l, "k")
	held := locktest.Obtain(t, zooKeeperLock(t, s, 30*time.Second), "k")
	var gone, left atomic.Bool
	r.Losing(false, func(sent []byte) func([]byte) bool { // loses nothing; it sees the requests before the server does
		for _, q := range zkFrames(sent) {
			if len(q) < 8 {
				continue
			}
			switch op := binary.BigEndian.Uint32(q[4:]); {
			case op == zkSetWatches:
				left.Store(true)
			case (op == zkExists || op == zkGetData) && q[len(q)-1] == 1 && gone.CompareAndSwap(false, true): // 1 = and watch
				testkit.Is(t, held.Release(context.Background()), nil, "Release")
			}
		}
		return nil
	})
	locktest.Warm(t, l, "k")
	if !gone.Load() {
		t.Fatal("nothing was watched: this test shows nothing")
	}
	r.CloseAll()
	locktest.Warm(t, l, "k")
	if left.Load() {
		t.Error("a watch was left behind")
	}
}

// Only an answer of the leader shows that a session is alive: a server that is cut off from the leader still answers
// reads.
func TestZooKeeperAsksTheLeader(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	far, r := relayed(t, s)
	lease := locktest.Obtain(t, zooKeeperLock(t, far, 20*time.Second), "k")
	asked := zkAsked(r, zkSync)
	testkit.Until(t, "a renewal by the leader", asked.Load)
	locktest.Release(t, lease)
}

// Every key can be locked, also one with characters that ZooKeeper refuses in a path, and two keys are two locks.
func TestZooKeeperKeys(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	l := zooKeeperLock(t, s, 30*time.Second)
	keys := []string{"a", "a\x00", "a\x1f", "a\x7f", "a\u0085", "a\ue000", "a\uffff", "a\U0001f600", "a\xff", "a\ufffd",
		"a%FF", ".", "..", "锁"}
	var leases []lock.Lease
	for _, key := range keys {
		leases = append(leases, locktest.Obtain(t, l, key))
		locktest.WantBusy(t, l, key, "it is held")
	}
	for _, lease := range leases {
		locktest.Release(t, lease)
	}
}

// The server refuses the create, so there is nothing to undo: no cleanup is repeated, which would never succeed either.
func TestZooKeeperRefusedCreate(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	see := s.ZooKeeperConn(t, 20*time.Second)
	node := s.Prefix + "/k"
	_, err := see.Create(s.Prefix, nil, 0, zk.WorldACL(zk.PermAll))
	if err == nil {
		_, err = see.Create(node, nil, 0, zk.WorldACL(zk.PermAdmin)) // nobody may list or make children
	}
	testkit.Must(t, err)
	t.Cleanup(func() {
		_, err := see.SetACL(node, zk.WorldACL(zk.PermAll), -1)
		testkit.Check(t, err)
	})
	far, r := relayed(t, s)
	l := zooKeeperLock(t, far, 30*time.Second)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, zk.ErrNoAuth) {
		t.Fatalf("Acquire = %v, want ErrUnavailable with the reason", err)
	}
	asked := zkAsked(r, zkGetChildren)
	time.Sleep(time.Second) // five turns of a cleanup
	if asked.Load() {
		t.Error("a cleanup is repeated")
	}
}
