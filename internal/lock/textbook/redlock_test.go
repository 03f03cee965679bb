package textbook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/lock"
	"lastitem/internal/lock/textbook"
	"lastitem/testkit"
	"lastitem/testkit/locktest"
	"lastitem/testkit/testenv"
)

// masters are the nodes of a Redlock as one process sees them, with clients of its own.
func masters(t *testing.T, nodes []*testenv.RedisNode) (all []textbook.RedlockNode, clients []*redis.Client) {
	t.Helper()
	for i, n := range nodes {
		c := locktest.RedisClient(t, &testenv.RedisServer{URL: n.URL})
		clients = append(clients, c)
		all = append(all, textbook.RedlockNode{Name: fmt.Sprint("n", i), Client: c})
	}
	return all, clients
}

// seeing returns a Redlock whose process is cut off from all nodes but these.
func seeing(t *testing.T, nodes []*testenv.RedisNode, guard time.Duration, visible ...int) (*textbook.Redlock,
	[]*redis.Client) {
	t.Helper()
	all, clients := masters(t, nodes)
	for i, c := range clients {
		if !slices.Contains(visible, i) {
			c.AddHook(locktest.SendHook{Name: "", Send: func(context.Context, func() error) error {
				return &net.OpError{Op: "dial", Err: errors.New("cut off")}
			}})
		}
	}
	return textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: locktest.TTL, RestartGuard: guard,
		NodeTimeout: locktest.TTL / 2}, nil), clients
}

// patient returns a Redlock that waits long for each node.
func patient(nodes []textbook.RedlockNode) *textbook.Redlock {
	return textbook.NewRedlock(textbook.RedlockOptions{Nodes: nodes, TTL: locktest.TTL, NodeTimeout: locktest.TTL / 2},
		nil)
}

func holders(t *testing.T, clients []*redis.Client, key string) (n int) {
	t.Helper()
	for _, c := range clients {
		n += int(c.Exists(context.Background(), key).Val())
	}
	return n
}

var nodeName = regexp.MustCompile(`node (n\d):`)

// nodesIn returns the names of the nodes that an error speaks of.
func nodesIn(err error) (names []string) {
	for _, m := range nodeName.FindAllStringSubmatch(err.Error(), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// Five real servers. The subtests are in this order because the last ones restart one.
func TestRedlockOverFive(t *testing.T) {
	t.Parallel()
	nodes := testenv.RedisNodes(t, 5)
	t.Run("late grant", func(t *testing.T) { redlockLateGrant(t, nodes) })
	t.Run("late grant of an abandoned acquire", func(t *testing.T) { redlockAbandoned(t, nodes) })
	t.Run("lost answers", func(t *testing.T) { redlockLostAnswers(t, nodes) })
	t.Run("lost on a majority", func(t *testing.T) { redlockLost(t, nodes) })
	t.Run("restart without guard", func(t *testing.T) { redlockRestart(t, nodes) })
	t.Run("restart with guard", func(t *testing.T) { redlockGuarded(t, nodes) })
}

// landLate holds back the acquires of some clients, and returns what lets them through.
func landLate(t *testing.T, clients ...*redis.Client) (land func()) {
	gate, landed := make(chan struct{}), make(chan error, len(clients))
	for _, c := range clients {
		c.AddHook(locktest.SendHook{Name: "set", Send: func(_ context.Context, send func() error) error {
			<-gate
			err := send()
			landed <- err
			return err
		}})
	}
	return func() {
		close(gate)
		for range clients {
			if err := <-landed; err != nil {
				t.Fatalf("a late acquire was not granted (%v): nothing is shown", err)
			}
		}
	}
}

// Three of five answer and the lock is held; the request to the fourth node is still on its way when the lock is
// released.
func redlockLateGrant(t *testing.T, nodes []*testenv.RedisNode) {
	all, clients := masters(t, nodes)
	land := landLate(t, clients[4])
	clients[3].AddHook(locktest.SendHook{Name: "set", Send: func(context.Context, func() error) error {
		return errors.New("refused")
	}})
	locktest.Release(t, locktest.Take(t, patient(all), "late"))
	land()
	testkit.Until(t, "the late grant is taken back", func() bool { return holders(t, clients, "late") == 0 })
}

// Two of five answer in time, so the acquire fails; the others grant after that.
func redlockAbandoned(t *testing.T, nodes []*testenv.RedisNode) {
	all, clients := masters(t, nodes)
	land := landLate(t, clients[2:]...)
	l := textbook.NewRedlock(textbook.RedlockOptions{Nodes: all, TTL: locktest.TTL, NodeTimeout: 2 * time.Second}, nil)
	_, err := l.Acquire(t.Context(), "abandoned")
	if !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want ErrUnavailable because of time-outs", err)
	}
	if got, want := nodesIn(err), []string{"n2", "n3", "n4"}; !slices.Equal(got, want) {
		t.Errorf("the error names %v, want %v: %v", got, want, err)
	}
	if node := (*textbook.NodeError)(nil); !errors.As(err, &node) {
		t.Errorf("Acquire = %v, want a NodeError in it", err)
	}
	if n := holders(t, clients[:2], "abandoned"); n != 0 {
		t.Errorf("%d of the two grants in time were left behind", n)
	}
	land()
	testkit.Until(t, "the late grants are taken back", func() bool { return holders(t, clients, "abandoned") == 0 })
}

func redlockLostAnswers(t *testing.T, nodes []*testenv.RedisNode) {
	all, clients := masters(t, nodes)
	l := patient(all)
	for _, c := range clients[:3] {
		lost := &locktest.LostAnswers{Name: "set"}
		lost.Left.Store(1)
		c.AddHook(lost)
	}
	locktest.WantUnavailable(t.Context(), t, l, "lost", "Acquire with three answers lost")
	testkit.Until(t, "the grants whose answers were lost are taken back", func() bool {
		return holders(t, clients, "lost") == 0
	})

	lease := locktest.Take(t, l, "lost release")
	testkit.Until(t, "all five granted", func() bool { return holders(t, clients, "lost release") == 5 })
	for _, c := range clients[:3] {
		release := &locktest.LostAnswers{Name: "evalsha"}
		release.Left.Store(1)
		c.AddHook(release)
	}
	locktest.ReleaseUnknown(t, lease, "Release with three answers lost")
	locktest.Release(t, lease)
}

func redlockLost(t *testing.T, nodes []*testenv.RedisNode) {
	all, clients := masters(t, nodes)
	l := patient(all)
	for lost := range 5 {
		key := fmt.Sprint("gone", lost)
		lease := locktest.Take(t, l, key)
		testkit.Until(t, "all five granted", func() bool { return holders(t, clients, key) == 5 })
		for _, c := range clients[:lost] {
			c.Del(t.Context(), key)
		}
		if err := lease.Release(t.Context()); errors.Is(err, lock.ErrLost) != (lost >= 3) {
			t.Errorf("Release with %d of five lost = %v", lost, err)
		}
	}
}

// One holder has the majority {0, 1, 2}. Node 2 comes back empty, and a rival gets the majority {2, 3, 4}.
func redlockRestart(t *testing.T, nodes []*testenv.RedisNode) {
	a, _ := seeing(t, nodes, 0, 0, 1, 2)
	held := locktest.Take(t, a, "restart")
	before, _ := seeing(t, nodes, 0, 2, 3, 4)
	if locktest.Enters(t, before, "restart") {
		t.Fatal("the rival entered before the restart: nothing is shown")
	}
	nodes[2].Kill()
	nodes[2].Start()
	after, _ := seeing(t, nodes, 0, 2, 3, 4)
	if !locktest.Enters(t, after, "restart") || held.Context().Err() != nil {
		t.Error("not two holders: this exhibit no longer shows its flaw")
	}
}

func redlockGuarded(t *testing.T, nodes []*testenv.RedisNode) {
	const (
		mark = "lock:redlock:boot"
		ttl  = 4 * time.Minute // the restarts of nodes take long on a busy machine
	)
	_, clients := masters(t, nodes)
	everybody, _ := seeing(t, nodes, ttl, 0, 1, 2, 3, 4)
	if _, err := everybody.Acquire(t.Context(), "guarded"); !errors.Is(err, lock.ErrUnavailable) ||
		!errors.Is(err, textbook.ErrRestarted) {
		t.Fatalf("Acquire on nodes never met before = %v, want ErrRestarted", err)
	}
	for i, c := range clients { // let the longest TTL pass
		testkit.Until(t, "every node has a boot mark", func() bool { return c.Exists(t.Context(), mark).Val() == 1 })
		run, _, found := strings.Cut(c.Get(t.Context(), mark).Val(), " ")
		if !found || len(run) != 40 {
			t.Fatalf("node %d: boot mark %q has no run id", i, c.Get(t.Context(), mark).Val())
		}
		old := time.Now().Add(-ttl - time.Second).UnixMilli()
		c.Set(t.Context(), mark, fmt.Sprint(run, " ", old), 0)
	}
	a, _ := seeing(t, nodes, ttl, 0, 1, 2)
	held := locktest.Take(t, a, "guarded")
	stale := clients[2].Get(t.Context(), mark).Val()
	for _, c := range []struct {
		name string
		data string // the boot mark that the restarted node comes back with
	}{{"empty", ""}, {"with the data of before the lock", stale}} {
		nodes[2].Kill()
		nodes[2].Start()
		b, clients := seeing(t, nodes, ttl, 2, 3, 4)
		if c.data != "" {
			clients[2].Set(t.Context(), mark, c.data, 0)
		}
		_, err := b.Acquire(lock.WithWait(t.Context(), 0), "guarded")
		if !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, textbook.ErrRestarted) {
			t.Errorf("node restarted %s: the rival's Acquire = %v, want ErrRestarted", c.name, err)
		}
		testkit.Until(t, "the rival's grants are taken back", func() bool { return holders(t, clients[2:], "guarded") == 0 })
	}
	testkit.Is(t, held.Context().Err(), nil, "the holder's lease has ended meanwhile")
	free, _ := seeing(t, nodes, ttl, 0, 1, 3, 4)
	if locktest.Enters(t, free, "guarded") {
		t.Error("a rival entered that sees the four other nodes")
	}
	locktest.Warm(t, free, "another key") // the four other nodes are a quorum
}

// A deleted lock is free, whoever held it. Keys on a minority do not matter, and an unreachable majority is an error.
func TestRedlockDelete(t *testing.T) {
	t.Parallel()
	nodes := testenv.RedisNodes(t, 3)
	a, clients := seeing(t, nodes, 0, 0, 1, 2)
	lease := locktest.Obtain(t, a, "k")
	testkit.Until(t, "the last grant has arrived", func() bool { return holders(t, clients, "k") == 3 })
	all, _ := seeing(t, nodes, 0, 0, 1)
	testkit.Is(t, all.Delete(t.Context(), "k"), nil, "Delete() on two of three nodes")
	if n := holders(t, clients, "k"); n > 1 {
		t.Errorf("%d nodes still hold it, want one at most", n)
	}
	locktest.ReleaseLost(t, lease, "Release() of a deleted lock")
	alone, _ := seeing(t, nodes, 0, 0)
	testkit.IsError(t, alone.Delete(t.Context(), "k"), lock.ErrUnavailable, "Delete() on one of three nodes")
}
