package main

import (
	"context"
	"net/url"

	"lastitem/stack/wire"
)

// reached has the servers that a window's workers connect to.
type reached struct {
	url     string
	masters []string // of a cluster
	servers []int    // their processes
	strike  *strike  // nil = no fault
	closing func() error
}

func (r reached) close() error {
	if r.closing == nil {
		return nil
	}
	return r.closing()
}

// reach finds or starts the servers of a window.
func (b *bench) reach(ctx context.Context, s scenario, c contender) (r reached, err error) {
	r = reached{url: b.server.URL, servers: []int{b.server.PID}}
	switch {
	case s.kind == kindFailover:
		p, err := b.startPair(ctx)
		if err != nil {
			return r, err
		}
		return reached{url: p.url(), servers: p.pids(), closing: p.close, strike: &strike{after: strikeAt, do: p.failOver}},
			nil
	case c.single != "":
		if b.cluster == nil {
			if b.cluster, err = b.startCluster(ctx); err != nil {
				return r, err
			}
		}
		r.url, r.servers = b.cluster.stacks[0].Redis.URL, b.cluster.pids()
		for i := range b.cluster.stacks {
			r.masters = append(r.masters, b.cluster.addr(i))
		}
	case s.delay > 0:
		u, err := url.Parse(b.server.URL)
		if err != nil {
			return r, err
		}
		d, err := wire.NewDelayed("redis", u.Host, wire.Raw, s.delay)
		if err != nil {
			return r, err
		}
		u.Host = d.Addr
		r.url, r.closing = u.String(), func() error { d.Close(); return nil }
	}
	return r, nil
}
