package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Etcd is the lock of etcd's concurrency package with repairs: a key per hold under the lock's name, attached to a
// lease. The oldest key holds the lock, and each of the others waits only for the one before it, first come first
// served.
//
// All holds of a process share one lease, so that a hold costs two round trips, and keeping it costs none. A key has a
// random name, so that two goroutines of a process exclude each other; with the lease's number as the name they would
// not.
//
// What breaks it: a process that stops as a whole for longer than the TTL. Its lease expires, a rival enters, and the
// process finishes its write when it continues. A write to etcd itself can be guarded with [EtcdLease.IsOwner], any
// other write with the fence.
type Etcd struct {
	c        *clientv3.Client
	ttl      time.Duration
	steps    *step.Stream
	sessions *lock.Sessions
}

// NewEtcd returns the lock on c, whose lease lives for ttl (whole seconds, at least what the server allows: one and a
// half election time-outs) when the process dies. Close it before c.
//
// To take the lock away from a holder, revoke its lease. If its key is deleted instead, the holder is not told, and a
// rival enters beside it.
//
// The fence goes back if etcd is restored from a snapshot without --bump-revision.
func NewEtcd(c *clientv3.Client, ttl time.Duration, steps *step.Stream) *Etcd {
	e := &Etcd{c: c, ttl: ttl, steps: steps}
	e.sessions = lock.NewSessions(e.open)
	return e
}

// Close revokes the process's lease; locks still held are lost, and none can be acquired any more.
func (e *Etcd) Close() error { return e.sessions.Close() }

// open gets a lease. It is renewed with KeepAliveOnce, because the client's KeepAlive only shows when an answer came,
// while a lease must be counted from the time its request was sent.
func (e *Etcd) open(ctx context.Context) (*lock.Session, error) {
	sent := time.Now()
	g, err := e.c.Grant(ctx, max(1, int64(e.ttl/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("%w: etcd: lease: %w", lock.ErrUnavailable, err)
	}
	s := &lock.Session{
		Num: int64(g.ID),
		Renew: func(ctx context.Context) error {
			_, err := e.c.KeepAliveOnce(ctx, g.ID)
			return noLease(err)
		},
		End: func(ctx context.Context) error {
			_, err := e.c.Revoke(ctx, g.ID)
			if err = noLease(err); errors.Is(err, lock.ErrLost) {
				return nil
			}
			return err
		},
	}
	return s.Start(sent, time.Duration(g.TTL)*time.Second), nil
}

// noLease tells a lease that is gone from a server that did not answer.
func noLease(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return lock.ErrLost
	}
	return err
}

// Acquire puts a new key and waits until it is the oldest.
func (e *Etcd) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "etcd"); err != nil {
		return nil, err
	}
	e.steps.At(ctx, step.Waiting, key)
	s, err := e.sessions.Get(ctx)
	if err != nil {
		return nil, err
	}
	h := &etcdHold{e: e, s: s, prefix: segment(key) + "/"}
	h.node = h.prefix + lock.NewOwner()
	if err := h.enter(ctx); err != nil {
		if !h.refused {
			s.Tidy(ctx, h.leave) // no other attempt has a key of this name
		}
		s.Leave()
		return nil, err
	}
	l := &EtcdLease{lock.SessionLease{Session: s, Kind: "etcd", Key: key, Num: uint64(h.revision), Steps: e.steps,
		Free: h.free}, h.node}
	l.Bind(ctx)
	e.steps.At(ctx, step.Locked, key)
	return l, nil
}

// etcdHold is a hold, or a place in the queue: a key and the revision that created it.
type etcdHold struct {
	e            *Etcd
	s            *lock.Session
	prefix, node string
	revision     int64
	over         <-chan struct{} // closed when the put is answered, or given up
	unanswered   bool            // the put may still arrive; valid once over is closed
	refused      bool            // the server refused the put
}

// enter puts the key, and in the same transaction reads the youngest key before it: the one to wait for.
func (h *etcdHold) enter(ctx context.Context) error {
	res, over, err := lock.Send(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		res, err := h.e.c.Txn(ctx).Then(
			clientv3.OpGet(h.prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...),
			clientv3.OpPut(h.node, "", clientv3.WithLease(clientv3.LeaseID(h.s.Num))),
		).Commit()
		h.unanswered = err != nil
		return res, err
	})
	h.over = over
	if err != nil {
		h.refused = errors.Is(err, rpctypes.ErrPermissionDenied)
		if errors.Is(noLease(err), lock.ErrLost) {
			h.s.Lose()
		}
		return h.s.Failed(ctx, ctx, "etcd", err)
	}
	h.revision = res.Header.Revision
	before := res.Responses[0].GetResponseRange().Kvs
	switch {
	case h.s.Lost(): // the answer came late, and the key may be gone with the lease
		return h.s.Failed(ctx, ctx, "etcd", lock.ErrLost)
	case len(before) == 0:
		return nil
	case !lock.MayWait(ctx):
		return lock.GaveUp(ctx)
	}
	return h.wait(ctx, string(before[0].Key))
}

// wait waits until no key is before ours, watching the last of them. When that key goes, its owner may only have been a
// waiter, so wait looks again. It watches first and then looks: a watch from now on starts at once, while one from a
// past revision is served by etcd's catch-up loop, every 100 ms.
func (h *etcdHold) wait(ctx context.Context, before string) error {
	limit, stop := h.s.Waiting(ctx)
	defer stop()
	for {
		watch, unwatch := context.WithCancel(clientv3.WithRequireLeader(limit))
		events := h.e.c.Watch(watch, before, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
		<-events // created, failed or, with limit, closed
		last, err := h.before(limit)
		if err == nil && last == before {
			<-events // it went; or limit ended, or the watch failed, which the next look notices
		}
		unwatch()
		switch {
		case err != nil || limit.Err() != nil || h.s.Lost():
			return h.s.Failed(ctx, limit, "etcd", err)
		case last == "":
			return nil
		}
		before = last
	}
}

// before returns the youngest key older than ours, "" when there is none. It is a transaction on condition that our own
// key still exists: if the lease ended during the wait, we hold nothing, even if no key is before ours (etcd issue
// 11456).
func (h *etcdHold) before(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lock.CommandTimeout)
	defer cancel()
	older := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(h.revision-1), clientv3.WithKeysOnly())
	res, err := h.e.c.Txn(ctx).If(h.isOwner()).Then(clientv3.OpGet(h.prefix, older...)).Commit()
	if err != nil {
		return "", err
	}
	if !res.Succeeded {
		return "", errors.New("our key vanished while waiting")
	}
	if kvs := res.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		return string(kvs[0].Key), nil
	}
	return "", nil
}

func (h *etcdHold) isOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(h.node), "=", h.revision)
}

// leave undoes an attempt whose revision may be unknown. It first waits for the end of the attempt's put, which it must
// not overtake. A put without an answer may arrive even later, and its key would live as long as the lease that it is
// attached to.
func (h *etcdHold) leave(ctx context.Context) error {
	err := lock.Await(ctx, h.over)
	if err == nil {
		err = h.remove(ctx)
	}
	if err == nil && h.unanswered {
		h.s.Retire(h.remove)
	}
	return h.denied(err)
}

// denied serves cleanups, with their error. If the permission to delete the key was taken away meanwhile, the key goes
// with its lease: the session is retired, and the cleanup is not repeated.
func (h *etcdHold) denied(err error) error {
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return err
	}
	h.s.Retire(func(context.Context) error { return nil }) // a delete would be refused again
	return fmt.Errorf("%w: %w", lock.ErrRefused, err)
}

func (h *etcdHold) remove(ctx context.Context) error {
	_, err := h.e.c.Delete(ctx, h.node)
	return err
}

// free deletes the key if it is the one that this hold created.
func (h *etcdHold) free(ctx context.Context) error {
	res, err := h.e.c.Txn(ctx).If(h.isOwner()).Then(clientv3.OpDelete(h.node)).Commit()
	if err != nil {
		return h.denied(err)
	}
	if !res.Succeeded {
		return lock.ErrLost
	}
	return nil
}

// EtcdLease is the [lock.Lease] of an [Etcd]. Its fence is the revision that created its key: etcd counts them over all
// keys, so it rises with every hold.
type EtcdLease struct {
	lock.SessionLease
	node string
}

// IsOwner is true at the server while this lease holds the lock. In the If of a transaction it guards a write to etcd
// against a holder whose lease has ended unnoticed; a client's check before the write cannot do that.
func (l *EtcdLease) IsOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.node), "=", int64(l.Num))
}
