package coord

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/lock"
)

// zkClient is a connection whose calls end with a context: those of the library know none, and while there is no connection
// they may wait for one.
type zkClient struct{ *zk.Conn }

// zkCall runs f, one call of a client that knows no context, and stops waiting for it when ctx ends.
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

// zkTransient says that a connection broke, which the client mends by itself; the session may live on.
func zkTransient(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// zkSteady repeats f, a question without effects, over broken connections until ctx ends.
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

// zkRetry is the time between two questions while there is no connection.
const zkRetry = 50 * time.Millisecond

// ping asks a question that only the leader answers, who also ends sessions. What is read comes from the server at hand, which goes
// on answering for as long as it has not noticed that the leader is gone: by default for ten seconds.
func (c zkClient) ping(ctx context.Context) error {
	_, err := zkSteady(ctx, func() (string, error) { return c.Sync("/") })
	return err
}

// sync has a server catch up that lags behind the others. Where it fails what is asked next fails too, or is tried again.
func (c zkClient) sync(ctx context.Context) {
	_, _ = zkCall(ctx, func() (string, error) { return c.Sync("/") })
}

// makeParents makes parent a container, which its server deletes when it has become empty, and what is above it.
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

// watch tells when a node goes, or the session does; nil without an error = look again, the node is gone or the connection.
// It reads the node, as Curator does: a question whether it exists would leave a watch behind where it does not, for a node
// whose name never comes again, for as long as the session lives.
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

// remove deletes a node of ours; ErrLost when it is not there. After a connection that broke, "not there" may be our own doing.
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
