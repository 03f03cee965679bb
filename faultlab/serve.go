package faultlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// Unclaimed is the claim of a service that makes none: every letter that is found is reported, and none is expected.
const Unclaimed api.Outcomes = "?"

// only are the stores that the exploration needs; nil = all.
func (o Options) only() []string {
	if o.Serve == nil {
		return nil
	}
	return o.Serve.Needs()
}

// service is what the replicas of the lanes run.
func (l *lab) service() rig.Service {
	if l.o.Serve != nil {
		return l.o.Serve.Service()
	}
	return rig.Shop(l.o.Binary)
}

// equipment is what the lanes of a fault must have. A service whose locks have the TTL that it pleases has the same lanes for all.
func (l *lab) equipment(f fault.Fault) rig.Equipment {
	e := f.Lane
	if l.o.Serve != nil && !l.o.Serve.TakesTTL() && !e.Pair {
		e.Expiry = true
	}
	return e
}

// meet tries a service that is not ours without any fault, finds out how long its locks live, and makes a mode of it.
func (l *lab) meet(ctx context.Context) error {
	f, lane := l.o.Serve, l.groups[0].lanes[0]
	if err := f.Try(ctx, lane); err != nil {
		return err
	}
	l.modes = []api.Mode{theirs(f)}
	switch {
	case f.LockTTL > 0:
		l.o.TTL = f.LockTTL
	case !f.TakesTTL():
		if err := l.readTTL(ctx, lane); err != nil {
			return err
		}
	default:
		return nil
	}
	for _, lane := range l.groups[0].lanes {
		lane.TTL = l.o.TTL
	}
	return nil
}

// readTTL finds the locks of a service, and takes the longest TTL of them.
func (l *lab) readTTL(ctx context.Context, lane *rig.Lane) error {
	ask := rig.Ask{Mode: rig.ServiceName, Stock: rig.Stock}
	path, err := lane.Trace(ctx, ask)
	if err != nil {
		return err
	}
	if l.leases, err = lane.Leases(ctx, ask, path.Steps); err != nil {
		return err
	}
	var seen []string
	longest := l.o.TTL
	for _, x := range l.leases {
		seen = append(seen, x.String())
		longest = max(longest, x.TTL)
	}
	if len(seen) == 0 {
		l.o.Log("no lock was seen in Redis while a request was held; --lock-ttl says how long others live")
		return nil
	}
	l.o.TTL = longest
	l.o.Log("locks seen while a request was held: %s", strings.Join(seen, ", "))
	return nil
}

// theirs is a mode of a service that is not ours: it has no claims, so that everything is tried that can happen to it.
func theirs(f *rig.Foreign) api.Mode {
	claims := map[api.Hazard]api.Outcomes{}
	for _, x := range fault.Ladder {
		switch {
		case x.Name == api.Retry && !f.HasKey():
		case x.Lane.Pair && !f.UsesRedis():
		default:
			claims[x.Name] = Unclaimed
		}
	}
	needs := f.Needs()
	for i, n := range needs {
		if n == localstack.MySQL {
			needs[i] = "mysql"
		}
	}
	return api.Mode{
		Name: rig.ServiceName, Available: true, Needs: needs, Stores: []api.Store{""}, Claims: map[api.Store]map[api.Hazard]api.Outcomes{"": claims},
	}
}

// Broken counts the cells in which something broke.
func (r *Result) Broken() int {
	n := 0
	for _, c := range r.Cells {
		if strings.Trim(string(c.Found), string(api.Exact)) != "" {
			n++
		}
	}
	return n
}

// ofAll picks the schedule that broke most of those of several cells.
func ofAll(worsts []*Played, cells []Cell) *Played {
	at := func(p *Played) int {
		return slices.IndexFunc(cells, func(c Cell) bool { return c.Fault == p.Schedule.Fault })
	}
	worsts = slices.DeleteFunc(worsts, func(p *Played) bool { return p == nil })
	slices.SortStableFunc(worsts, func(a, b *Played) int { return at(a) - at(b) })
	var all []Played
	for _, p := range worsts {
		all = append(all, *p)
	}
	return worst(all)
}

// CheckFaults says which of the selected faults cannot happen to a service.
func CheckFaults(f *rig.Foreign, selected []api.Hazard) error {
	can := theirs(f).Claims[""]
	for _, name := range selected {
		switch {
		case can[name] != "":
		case name == api.Retry:
			return errors.New("--fault retry needs --key-header, or {{key}} in --request: without a key nobody can tell a repetition from a second order")
		case name == api.Failover:
			return errors.New("--fault failover needs a service that uses Redis")
		default:
			return fmt.Errorf("--fault %s is not for a service that is not ours", name)
		}
	}
	return nil
}
