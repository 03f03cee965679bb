package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
	"lastitem/internal/store/redisdb"
)

// After MOVED the client of a Redis Cluster asks again which master has which slot. A dead master never says MOVED, and
// no command is sent again to another node, because it might deduct twice: without the reloads below a failover would
// stay unnoticed for reloadEvery.
const (
	reloadEvery  = 5 * time.Second
	reloadRest   = 250 * time.Millisecond // between two reloads after failures
	reloadWithin = 300 * time.Millisecond // the node that is asked may be the one that hangs
	reloadTries  = 3
)

// reloader reloads the slots of a client whose connection fails.
type reloader struct {
	c       atomic.Pointer[redis.ClusterClient] // nil = there is no cluster
	resting atomic.Bool
	conns   sync.Map // net.Conn -> the address that it was dialed by
}

func (r *reloader) failed() {
	c := r.c.Load()
	if c == nil || !r.resting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		_, _, _ = reload(c, known)
		time.AfterFunc(reloadRest, func() { r.resting.Store(false) })
	}()
}

// cut closes the connections to all but the masters. Whoever waits there for one that was replaced learns at once that
// no answer will come, instead of when its time is over: a hung master would hold up its products for longer than it
// takes to replace it.
func (r *reloader) cut(masters []string) {
	r.conns.Range(func(conn, addr any) bool {
		if !slices.Contains(masters, addr.(string)) {
			_ = conn.(net.Conn).Close()
		}
		return true
	})
}

// known is what [reload] does with a master that is only to be known.
func known(*redis.Client) error { return nil }

// reload has a client ask one of the nodes which master has which slot, and calls each for every master that the client
// knows then. It returns what each has returned, by the addresses of the masters, and whether the node that was asked
// has answered; the error is that of a client which knows no master.
func reload(c *redis.ClusterClient, each func(*redis.Client) error) (all map[string]error, fresh bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), reloadWithin)
	defer cancel()
	var mu sync.Mutex
	all, fresh = map[string]error{}, true
	err = c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		late := ctx.Err() != nil
		err := each(node)
		mu.Lock()
		defer mu.Unlock()
		all[node.Options().Addr], fresh = err, fresh && !late
		return nil
	})
	return all, fresh, err
}

// masters are the masters of a cluster. Each is probed by itself, so that one that is out takes only its own products
// with it.
type masters struct {
	c        *redis.ClusterClient // of the probes
	requests *reloader
	mark     *mark
	followed []string                         // the masters that the client of the requests knows
	last     map[string]error                 // by address: what the last probe found
	out      atomic.Pointer[map[string]error] // why masters are out; nil = none was asked yet
	every    atomic.Bool                      // all are
}

// ask has each master write. Its error names those that do not. One that was silent before gets less time: while it is
// waited for nobody notices that it was replaced.
func (m *masters) ask(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 2*reloadWithin)
	defer cancel()
	for try, fresh := 0, false; try < reloadTries && !fresh; try++ {
		_, fresh, _ = reload(m.c, known)
	}
	all, _, err := reload(m.c, func(node *redis.Client) error {
		if last := m.last[node.Options().Addr]; last != nil && !redisdb.Answered(last) {
			return m.mark.writeSlot(short, node)
		}
		return m.mark.writeSlot(ctx, node)
	})
	if err != nil {
		return err
	}
	m.follow(slices.Sorted(maps.Keys(all)))
	out := map[string]error{}
	var errs []error
	for _, addr := range slices.Sorted(maps.Keys(all)) {
		err := all[addr]
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		if redisdb.Answered(err) || m.last[addr] != nil {
			out[addr] = err
		}
	}
	m.last = all
	m.every.Store(len(out) == len(all))
	m.out.Store(&out)
	return errors.Join(errs...)
}

// follow has the client of the requests know the masters that the probes have found: it must not send to one that was
// replaced, which may hang.
func (m *masters) follow(found []string) {
	for try := 0; try < reloadTries && !slices.Equal(found, m.followed); try++ {
		all, _, _ := reload(m.requests.c.Load(), known)
		if m.followed = slices.Sorted(maps.Keys(all)); slices.Equal(found, m.followed) {
			m.requests.cut(found)
		}
	}
}

// down says why the master of a key is out; without a key, why all masters are. It is nil where Redis itself answers
// that the cluster is down: asking costs nothing, and only Redis knows when that ends.
func (m *masters) down(keys ...string) error {
	out := m.out.Load()
	switch {
	case out == nil:
		return nil
	case len(keys) == 0 && m.every.Load():
		return outage(slices.Collect(maps.Values(*out))...)
	}
	for _, key := range keys {
		node, err := m.c.MasterForKey(context.Background(), key) // from memory: a probe has asked
		if err != nil {
			continue
		}
		addr := node.Options().Addr
		if err := outage((*out)[addr]); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
	}
	return nil
}

// outage joins the errors of masters for a request that would be sent to one of them; nil if it may be sent.
func outage(all ...error) error {
	err := errors.Join(all...)
	switch {
	case redis.IsClusterDownError(err):
		return nil
	case redisdb.Answered(err):
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	return err
}
