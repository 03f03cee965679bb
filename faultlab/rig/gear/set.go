package gear

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/stack"
)

// Set is what a lane has besides its replicas. Some of it, as [Equipment] says, is the lane's own.
type Set struct {
	*Place
	Own    Own
	Clocks Clocks
	SQL    SQL
	Pair   *Pair // nil = no server has replicas
	Edge   Edge

	redis Node // the lane's own Redis, if it has one
	spare Node // a Redis that may replace a node of a Redlock
}

// SetOptions configures a set.
type SetOptions struct {
	Number int           // unique among the lanes, and less than Options.Lanes
	TTL    time.Duration // of the locks that have one
	// Alone gives the lane a Redis of its own; Open leaves that one without a password.
	Alone, Open bool
	Equipment   Equipment
	// Name is what the service calls the lane's product, if it is no number.
	Name string
}

// NewSet starts the servers that a lane has for itself. The caller closes the set.
func (s *Servers) NewSet(ctx context.Context, o SetOptions) (*Set, error) {
	p := &Place{Number: o.Number, TTL: o.TTL, Stack: s.Stack, alone: o.Alone, links: slices.Clone(s.links)}
	for i := range p.links {
		p.links[i].codec = named(p.links[i].codec, o.Name)
	}
	set := &Set{Place: p, Own: Own{place: p}, SQL: SQL{place: p},
		Edge: Edge{place: p, resend: o.Equipment.Nginx == Resends}}
	set.Clocks = Clocks{&set.Own, &set.SQL, map[*stack.Clock]time.Duration{}}
	if err := set.start(ctx, o); err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

func (s *Set) start(ctx context.Context, o SetOptions) (err error) {
	if s.Pair, err = newPair(ctx, s.Place, o.Equipment, o.Open); err != nil {
		return err
	}
	if o.Alone && o.Equipment.Pair == "" {
		if s.redis, err = s.replaceRedis(ctx, stack.Redis, o.Open); err != nil {
			return err
		}
	}
	if err := s.SQL.start(ctx, o.Equipment); err != nil {
		return err
	}
	return s.Own.start(ctx, o.Equipment)
}

// nodes returns the lane's own Redis servers and its sentinel, whether or not they run.
func (s *Set) nodes() []Node {
	all := append([]Node{s.redis, s.spare}, s.Pair.nodes()...)
	for _, n := range s.Own.servers {
		all = append(all, *n)
	}
	return slices.DeleteFunc(all, func(n Node) bool { return n.run == nil })
}

// Redis returns the lane's own Redis; if it is a pair, the current master.
func (s *Set) Redis() Node {
	if s.Pair != nil && s.Pair.server == stack.Redis {
		return s.Pair.master
	}
	return s.redis
}

// Close ends the lane's own servers.
func (s *Set) Close() {
	s.Edge.end()
	s.SQL.close()
	if s.Pair != nil && s.Pair.link != nil {
		s.Pair.link.Close()
	}
	for _, n := range s.nodes() {
		n.run.Kill()
	}
}

// Restore undoes what a schedule has done: it restarts dead servers, continues stopped ones, sets clocks forward that
// were set back, and lets everything pass the wires. The Pair follows with [Pair.Reset], when the replicas of the
// service run.
func (s *Set) Restore(ctx context.Context) error {
	if err := errors.Join(s.Clocks.restore(), s.Own.restore(ctx), s.SQL.heal(ctx)); err != nil {
		return err
	}
	paired := ""
	if s.Pair != nil {
		paired = s.Pair.server
	}
	for _, w := range s.wires {
		w.reset(paired)
	}
	s.Edge.release()
	return nil
}

// Forget replaces a server of all replicas by the lane's spare, which is empty, until the lane is reset.
func (s *Set) Forget(ctx context.Context, server string) error {
	link := s.linkTo(server)
	if link == nil {
		return fmt.Errorf("faultlab: no server %q", server)
	}
	var err error
	if s.spare.run == nil {
		if s.spare, err = s.startRedis(ctx, fmt.Sprintf("lane %d spare", s.Number), passwordOf(link.url), nil); err != nil {
			return err
		}
	}
	if _, err := redisDo(ctx, s.spare.run.Addr, passwordOf(link.url), "FLUSHALL"); err != nil {
		return err
	}
	for _, w := range s.wires {
		w.proxies[server].Turn(s.spare.run.Addr)
		w.turned = true
	}
	return nil
}
