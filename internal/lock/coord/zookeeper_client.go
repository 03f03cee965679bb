package coord

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/lock"
)

// zkClient is a connection whose calls end with a context. The library's own calls take no context, and may wait until
// there is a connection.
type zkClient struct{ *zk.Conn }

// zkCall runs f, one call of the library, and stops waiting for it when ctx ends.
func zkCall[T any](ctx context.Context, f func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		defer close(done)
		got, failed = f()
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// zkTransient reports whether a connection broke. The client reconnects by itself, and the session may still be alive.
func zkTransient(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// zkSteady repeats f, a read, over broken connections until ctx ends.
func zkSteady[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := zkCall(ctx, f)
		if !zkTransient(err) {
			return v, err
		}
		select {
		case <-time.After(zkRetry):
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// zkRetry is the time between two tries while there is no connection.
const zkRetry = 50 * time.Millisecond

// ping sends a request that only the leader answers, because the leader also ends sessions. Any server answers reads,
// even one that has not yet noticed that the leader is gone: by default for up to ten seconds. The answer shows that
// the session is alive; see [ZooKeeper.open] for how long.
func (c zkClient) ping(ctx context.Context) error {
	_, err := zkSteady(ctx, func() (string, error) { return c.Sync("/") })
	return err
}

// sync lets a server that lags behind the others catch up. If it fails, the next request fails too, or is retried.
func (c zkClient) sync(ctx context.Context) {
	_, _ = zkCall(ctx, func() (string, error) { return c.Sync("/") })
}

// makeParents makes parent, a container that the server deletes when it has become empty, and the nodes above it.
func (c zkClient) makeParents(ctx context.Context, parent string) error {
	open := zk.WorldACL(zk.PermAll)
	_, err := zkCall(ctx, func() (string, error) {
		for i := 1; i < len(parent); i++ {
			if parent[i] != '/' {
				continue
			}
			if _, err := c.Create(parent[:i], nil, zk.FlagPersistent, open); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return "", err
			}
		}
		return c.CreateContainer(parent, nil, zk.FlagContainer, open)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// children lists the nodes below a node.
func (c zkClient) children(ctx context.Context, node string) ([]string, error) {
	return zkSteady(ctx, func() ([]string, error) {
		names, _, err := c.Children(node)
		return names, err
	})
}

// watch returns a channel that signals when a node or the session is gone; nil without an error = the node or the
// connection is gone already, look again. It reads the node, as Curator does: an Exists on a missing node would leave a
// watch for a name that never comes again, for as long as the session lives.
func (c zkClient) watch(ctx context.Context, node string) (<-chan zk.Event, error) {
	events, err := zkCall(ctx, func() (<-chan zk.Event, error) {
		_, _, events, err := c.GetW(node)
		return events, err
	})
	if zkTransient(err) || errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return events, err
}

// stat describes a node; ErrNoNode when it is not there.
func (c zkClient) stat(ctx context.Context, node string) (*zk.Stat, error) {
	return zkSteady(ctx, func() (*zk.Stat, error) {
		exists, stat, err := c.Exists(node)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// remove deletes a node of ours; ErrLost when it is not there. After a broken connection, "not there" may be the result
// of our own delete.
func (c zkClient) remove(ctx context.Context, node string) error {
	first, mine := true, false
	_, err := zkSteady(ctx, func() (struct{}, error) {
		err := c.Delete(node, -1)
		mine = errors.Is(err, zk.ErrNoNode) && !first
		first = false
		return struct{}{}, err
	})
	switch {
	case !errors.Is(err, zk.ErrNoNode):
		return err
	case mine:
		return nil
	}
	return lock.ErrLost
}
