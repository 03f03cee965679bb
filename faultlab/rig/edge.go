package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// The rules of a lane's nginx; see [Equipment.Nginx].
const (
	// Resends: proxy_next_upstream error timeout non_idempotent.
	Resends = "resends"
	// SendsOnce is the shop's own rule: a request that was sent to a replica is not sent again.
	SendsOnce = "sends-once"
)

// edge is the lane's nginx. It sends every request to A, through a proxy, and has B as the next replica.
type edge struct {
	lane   *Lane
	resend bool
	run    *stack.Running
	proxy  *wire.Proxy // in front of A
	before [2]string   // the URLs of A and B with which it was started
	starts int
}

// ReadTimeout is how long the lane's nginx waits for a replica's answer.
const ReadTimeout = 2 * time.Second

// url returns the URL of the lane's nginx. It starts nginx again if A or B has a new address.
func (e *edge) url(ctx context.Context) (string, error) {
	if now := [2]string{e.lane.A.URL, e.lane.B.URL}; e.before != now {
		if err := e.start(ctx, now); err != nil {
			return "", err
		}
	}
	return "http://" + e.run.Addr, nil
}

func (e *edge) start(ctx context.Context, replicas [2]string) (err error) {
	e.end()
	first, next := strings.TrimPrefix(replicas[0], "http://"), strings.TrimPrefix(replicas[1], "http://")
	if e.proxy, err = wire.NewProxy("replica A", first, codec.HTTP); err != nil {
		return err
	}
	e.starts++
	e.run, err = e.lane.servers.Stack.SpawnNginx(ctx, stack.NginxServer{
		Name: fmt.Sprintf("lane %d nginx %d", e.lane.number, e.starts), First: e.proxy.Addr, Next: next,
		Resend: e.resend, Read: ReadTimeout,
	})
	if err == nil {
		e.before = replicas
	}
	return err
}

// end ends nginx and the proxy.
func (e *edge) end() {
	if e.run != nil {
		e.run.Kill()
	}
	if e.proxy != nil {
		e.proxy.Close()
	}
	*e = edge{lane: e.lane, resend: e.resend, starts: e.starts}
}

// AskEdge sends the lane's nginx a request that waits for a lock.
func (s *Scene) AskEdge(ctx context.Context, key string, wait time.Duration) (*Pending, error) {
	edge, err := s.Lane.edge.url(ctx)
	if err != nil {
		return nil, err
	}
	return s.askAt(edge, s.Lane.A, key, wait), nil
}

// HoldEdge sends a request to the lane's nginx and returns when A is held at the position. ErrNotReached: it was
// answered before that.
func (s *Scene) HoldEdge(ctx context.Context, at Position, key string, wait time.Duration) (*Pending, *wire.Hold,
	error) {
	hold, err := s.Lane.A.Arm(at)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.AskEdge(ctx, key, wait)
	if err != nil {
		return nil, nil, err
	}
	hold, err = s.reached(ctx, s.Lane.A, at.String(), p, hold)
	return p, hold, err
}

// HoldEdgeAnswer sends a request to the lane's nginx and returns when A has answered it and the answer is held on its
// way to nginx.
func (s *Scene) HoldEdgeAnswer(ctx context.Context, key string, wait time.Duration) (*Pending, *wire.Hold, error) {
	if _, err := s.Lane.edge.url(ctx); err != nil {
		return nil, nil, err
	}
	hold := s.Lane.edge.proxy.Add(wire.Rule{Answer: true})
	s.Lane.A.holds = append(s.Lane.A.holds, hold)
	p, err := s.AskEdge(ctx, key, wait)
	if err != nil {
		return nil, nil, err
	}
	hold, err = s.reached(ctx, s.Lane.A, "on the way of the answer", p, hold)
	return p, hold, err
}

// Touched says whether the actor has sent a command of a request in this schedule.
func (s *Scene) Touched(a *Actor) bool {
	return slices.ContainsFunc(a.Calls(s.since), func(c wire.Call) bool { return !c.Setup && !c.Poll })
}
