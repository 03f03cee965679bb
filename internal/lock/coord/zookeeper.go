package coord

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// ZooKeeper is the lock of ZooKeeper's recipes: an ephemeral sequential node per hold under the lock's node; the lowest
// number holds the lock, and each of the others waits only for the one before it, first come first served.
// https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks
//
// All holds of a process share its connection's session. A node's name begins with a random value, like Curator's
// "protected" nodes: if the answer to a create is lost, the node is found by that value. Otherwise it would block the
// lock for as long as this process lives.
//
// The lock's node is a container (ZooKeeper 3.5): the server deletes it some time after the last hold.
//
// The fence is the number of the transaction that created the node: ZooKeeper counts them over all nodes, so it rises
// with every hold.
//
// What breaks it: a process that stops as a whole for longer than the session time-out. Its nodes go, a rival enters,
// and the process finishes its write when it continues. Only a fence that is checked at the data refuses that write.
type ZooKeeper struct {
	c        zkClient
	root     string
	timeout  time.Duration
	steps    *step.Stream
	sessions *lock.Sessions
}

// NewZooKeeper returns the lock on c, whose nodes are made below root ("/locks", made when missing). timeout is the
// session time-out that c was made with; the server must grant it, which by default it does between two and twenty of
// its ticks: 4 to 40 s. The client accepts a shorter one from the server without an error, and then a rival would enter
// before the holder is told. Close the lock before c.
//
// To take the lock away from a holder, end its session. If its node is deleted instead, the holder is not told, and a
// rival enters beside it.
//
// The fence goes back if the servers get older data (a backup), or other data: new servers count from the beginning.
func NewZooKeeper(c *zk.Conn, root string, timeout time.Duration, steps *step.Stream) *ZooKeeper {
	l := &ZooKeeper{c: zkClient{c}, root: path.Clean("/" + root), timeout: timeout, steps: steps}
	l.sessions = lock.NewSessions(l.open)
	return l
}

// Close stops watching the session; its locks count as lost from here on, and none can be acquired any more. The
// session itself ends with the connection.
func (l *ZooKeeper) Close() error { return l.sessions.Close() }

// open waits for the connection to have a session. The client pings by itself, but it reports a lost session only once
// it reaches a server again, and then it opens another by itself. So we send a request of our own, and check the
// session's number after the answer, to know until when this session can be trusted.
//
// The leader ends sessions. It answers our request, but counts it only with the next report of the server that we are
// connected to: servers report twice in a tick which sessions they have heard. Reports and requests reach the leader in
// order. So its answer proves that it has counted what had been answered half a tick before we sent, which is at most a
// quarter of the time-out, since that is two ticks or more.
func (l *ZooKeeper) open(ctx context.Context) (*lock.Session, error) {
	sent := time.Now()
	if err := l.c.ping(ctx); err != nil {
		return nil, fmt.Errorf("%w: zookeeper: session: %w", lock.ErrUnavailable, err)
	}
	s := &lock.Session{Num: l.c.SessionID(), Lag: l.timeout / 4}
	s.Renew = func(ctx context.Context) error {
		err := l.c.ping(ctx)
		if id := l.c.SessionID(); errors.Is(err, zk.ErrSessionExpired) || err == nil && id != s.Num {
			return lock.ErrLost
		}
		return err
	}
	return s.Start(sent, l.timeout), nil
}

// Acquire makes a node and waits until it is the lowest.
func (l *ZooKeeper) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "zookeeper"); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	s, err := l.sessions.Get(ctx)
	if err != nil {
		return nil, err
	}
	h := &zkHold{l: l, s: s, parent: path.Join(l.root, zkSegment(key)), id: lock.NewOwner()}
	fence, err := h.enter(ctx)
	if err != nil {
		if h.made {
			s.Tidy(ctx, h.leave)
		}
		s.Leave()
		return nil, err
	}
	lease := &lock.SessionLease{Session: s, Kind: "zookeeper", Key: key, Num: fence, Steps: l.steps, Free: h.free}
	lease.Bind(ctx)
	l.steps.At(ctx, step.Locked, key)
	return lease, nil
}

// zkHold is a hold, or a place in the queue.
type zkHold struct {
	l      *ZooKeeper
	s      *lock.Session
	parent string
	id     string // random, the beginning of the node's name
	node   string // the path of the node
	made   bool   // there may be a node

	answered <-chan struct{} // closed when the client has finished our last create
}

// enter makes the node, waits for those before it, and returns the fence.
func (h *zkHold) enter(ctx context.Context) (uint64, error) {
	limit, stop := h.s.Waiting(ctx)
	defer stop()
	ask, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	if err := h.create(ask); err != nil {
		return 0, h.s.Failed(ctx, ctx, "zookeeper", err)
	}
	before, err := h.before(ask)
	if err != nil {
		return 0, h.s.Failed(ctx, ctx, "zookeeper", err)
	}
	if before != "" {
		if !lock.MayWait(ctx) {
			return 0, lock.GaveUp(ctx)
		}
		if err := h.wait(limit, before); err != nil {
			return 0, h.s.Failed(ctx, limit, "zookeeper", err)
		}
	}
	return h.confirm(ctx)
}

// wait waits until no node is before ours, watching the last of them. When that node goes, its owner may only have been
// a waiter, so wait looks again: the death of a waiter admits nobody.
func (h *zkHold) wait(ctx context.Context, before string) error {
	for before != "" {
		events, err := h.l.c.watch(ctx, before)
		if err != nil {
			return err
		}
		if events != nil {
			select {
			case <-events:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if before, err = h.before(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create makes the node, and missing parents. After a broken connection it first looks for a node made by an unanswered
// create.
func (h *zkHold) create(ctx context.Context) error {
	for {
		err := h.send(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode): // never used, or emptied a moment ago
			err = h.l.c.makeParents(ctx, h.parent)
		case zkTransient(err):
			var found []string
			if found, err = h.find(ctx); len(found) > 0 {
				h.node = found[0]
				return nil
			}
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// send sends one create. If ctx ends before the answer, leave must wait for the answer: the client may not even have
// sent the create.
func (h *zkHold) send(ctx context.Context) error {
	answered := make(chan struct{})
	h.answered = answered
	node, err := zkCall(ctx, func() (string, error) {
		defer close(answered)
		return h.l.c.Create(path.Join(h.parent, h.id+"-"), nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	})
	h.node = node
	h.made = h.made || !zkRefused(err)
	return err
}

// zkRefused reports whether the server, or its client, refused a create, and so made no node.
func zkRefused(err error) bool {
	for _, refusal := range []error{zk.ErrNoNode, zk.ErrNoAuth, zk.ErrInvalidPath, zk.ErrBadArguments, zk.ErrInvalidACL} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// find returns the nodes of this attempt. The sync comes first because this server may lag behind the one that made the
// nodes.
func (h *zkHold) find(ctx context.Context) ([]string, error) {
	h.l.c.sync(ctx)
	names, err := h.l.c.children(ctx, h.parent)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, h.id) {
			found = append(found, path.Join(h.parent, name))
		}
	}
	return found, err
}

// zkSequence is the number that the server has appended to a node's name.
func zkSequence(name string) (n int, ok bool) {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n, err == nil
}

// before returns the node with the highest number below ours, "" when there is none.
func (h *zkHold) before(ctx context.Context) (string, error) {
	names, err := h.l.c.children(ctx, h.parent)
	if err != nil {
		return "", err
	}
	mine, _ := zkSequence(h.node)
	best, before, present := -1, "", false
	for _, name := range names {
		n, ok := zkSequence(name)
		switch {
		case strings.HasPrefix(name, h.id):
			present = true
		case ok && n < mine && n > best:
			best, before = n, path.Join(h.parent, name)
		}
	}
	if !present {
		return "", errors.New("our node vanished while waiting")
	}
	return before, nil
}

// confirm returns the fence of our node once it is the lowest. The node must belong to the session that is watched: the
// client may have opened another meanwhile (Curator issue 604).
func (h *zkHold) confirm(ctx context.Context) (uint64, error) {
	ask, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	stat, err := h.l.c.stat(ask, h.node)
	if err == nil && (stat.EphemeralOwner != h.s.Num || h.s.Lost()) {
		err = errors.New("the session has changed")
	}
	if err != nil {
		return 0, h.s.Failed(ctx, ctx, "zookeeper", err)
	}
	return uint64(stat.Czxid), nil
}

// leave undoes an attempt: it deletes every node with the attempt's name, after the last create has ended.
func (h *zkHold) leave(ctx context.Context) error {
	if err := lock.Await(ctx, h.answered); err != nil {
		return err
	}
	found, err := h.find(ctx)
	if errors.Is(err, zk.ErrNoAuth) && h.node != "" { // we may create and delete, and not list
		found, err = []string{h.node}, nil
	}
	for _, node := range found {
		if failed := h.l.c.remove(ctx, node); !errors.Is(failed, lock.ErrLost) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// free deletes the node. Its path is unique, so a late or repeated release harms no other hold.
func (h *zkHold) free(ctx context.Context) error { return h.l.c.remove(ctx, h.node) }
