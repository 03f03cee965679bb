package faultlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// lab has the servers and the lanes of an exploration.
type lab struct {
	o       Options
	service rig.Service // what the lanes' replicas run
	servers *gear.Servers
	groups  []*group
	modes   []api.Mode
	told    bool // keep the stories
	matrix  Matrix
	stalls  stalls
	again   atomic.Int64 // schedules that were played again because of a stall
	tally   tallying
	paths   paths

	leases  []rig.Lease // locks seen in the Redis of a foreign service
	ends    bool        // the TTL of its locks was given
	leftOut []string    // selected faults that cannot be injected here, each with the reason
}

// group holds the lanes with the same equipment, and the cells that are played on them.
type group struct {
	equipment gear.Equipment
	patient   bool // for the modes whose locks outlive their holders for very long
	first     int  // number of its first lane
	size      int
	lanes     []*rig.Lane
	free      chan *rig.Lane
	cells     []Cell
	// ends and until are when no more schedules of the group, and of its cell, begin; see Options.For.
	ends, until time.Time
}

// fewLanes is the number of lanes of a group whose schedules do not wait: so few lanes keep the processors busy. pairs
// is the number if schedules wait for the lane's own servers to start, or for a deadline, patientLanes if they wait
// tens of seconds for a session to end.
const (
	fewLanes     = 2
	pairs        = 4
	patientLanes = 6
)

// lanesFor returns the number of lanes with an equipment.
func lanesFor(e gear.Equipment, o Options) int {
	switch {
	case e.Expiry:
		return o.Lanes
	case e.Pair != "", e.SQL != "", e.Own != "", e.Sweep, e.Consume:
		return min(pairs, o.Lanes)
	default:
		return min(fewLanes, o.Lanes)
	}
}

// open starts the servers and the lanes of the first group, and reads the list of modes from a replica.
func open(ctx context.Context, o Options) (*lab, error) {
	l := &lab{o: o, paths: paths{known: map[pathKey]*tracing{}}, tally: tallying{tell: o.Tally},
		service: rig.Shop(o.Binary)}
	if o.Serve != nil {
		l.service = rig.Foreign(o.Serve)
	}
	lanes := 0
	add := func(g *group) {
		g.first = lanes
		l.groups = append(l.groups, g)
		lanes += g.size
	}
	for _, f := range fault.All() {
		for _, m := range []api.Mode{{}, {Tickets: true}} { // which modes there are, the first lane says
			ours := o.Serve == nil && !f.Lane.Sweep
			if selectedFault(o, f) && l.group(f, m) == nil && (m.Tickets && ours || !m.Tickets && !f.Lane.Consume) {
				e := l.equipment(f, m)
				add(&group{equipment: e, size: lanesFor(e, o)})
			}
		}
	}
	for _, g := range slices.Clone(l.groups) {
		if g.equipment.Expiry && o.Serve == nil && slices.Contains(o.Extras, stack.Consul) {
			add(&group{equipment: g.equipment, patient: true, size: min(patientLanes, o.Lanes)})
		}
	}
	var err error
	l.servers, err = gear.Start(ctx, gear.Options{Lanes: lanes, Binary: o.Binary, Log: o.Log, Extras: o.Extras,
		Only: o.only()})
	if err != nil {
		return nil, err
	}
	l.leaveOutClocks(ctx)
	if len(l.groups) == 0 {
		return nil, errors.Join(l.nothing(), l.close())
	}
	if err := l.openLanes(ctx, l.groups[0]); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if o.Serve != nil {
		err = l.meet(ctx)
	} else {
		l.modes, err = l.groups[0].lanes[0].Modes(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// leaveOutClocks removes the faults that set the clock of a server, if this machine cannot do that.
func (l *lab) leaveOutClocks(ctx context.Context) {
	needs := func(g *group) bool { return g.equipment.Clock }
	if !slices.ContainsFunc(l.groups, needs) {
		return
	}
	why := l.servers.Clocks(ctx)
	if why == nil {
		return
	}
	l.groups = slices.DeleteFunc(l.groups, needs)
	l.o.Faults = slices.DeleteFunc(slices.Clone(l.o.Faults), func(name api.Hazard) bool {
		f, _ := fault.Named(name)
		if f.Lane.Clock {
			l.leftOut = append(l.leftOut, fmt.Sprintf("%s: %v", name, why))
			l.o.Log("%s is left out: %v", name, why)
		}
		return f.Lane.Clock
	})
}

// group returns the group on whose lanes a fault of a mode is played; nil = none yet.
func (l *lab) group(f fault.Fault, m api.Mode) *group {
	e := l.equipment(f, m)
	for _, g := range l.groups {
		if g.equipment == e && g.patient == (slow(m) && e.Expiry) {
			return g
		}
	}
	return nil
}

// openLanes starts the lanes of a group unless they are running.
func (l *lab) openLanes(ctx context.Context, g *group) error {
	if g.lanes != nil {
		return nil
	}
	g.lanes, g.free = make([]*rig.Lane, g.size), make(chan *rig.Lane, g.size)
	errs := make([]error, g.size)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 4)
	for i := range g.size {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			o := rig.LaneOptions{Service: l.service, SetOptions: gear.SetOptions{Number: g.first + i, TTL: LongTTL,
				Equipment: g.equipment}}
			if g.equipment.Expiry || l.o.Serve != nil && !l.o.Serve.TakesTTL() {
				o.TTL = l.o.TTL
			}
			g.lanes[i], errs[i] = rig.NewLane(ctx, l.servers, o)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, lane := range g.lanes {
		g.free <- lane
	}
	l.o.Log("%s", text.Sprintf("%d [lane|lanes] of three replicas%s", g.size, g.equipment))
	return nil
}

// close closes the lanes of a group.
func (g *group) close() {
	for _, lane := range g.lanes {
		if lane != nil {
			lane.Close()
		}
	}
	g.lanes = nil
}

func (l *lab) close() error {
	for _, g := range l.groups {
		g.close()
	}
	return l.servers.Close()
}

// lane waits for a free lane and takes it.
func (g *group) lane(ctx context.Context) (*rig.Lane, error) {
	select {
	case lane := <-g.free:
		return lane, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// mode returns the mode with a name.
func (l *lab) mode(name string) api.Mode {
	for _, m := range l.modes {
		if m.Name == name {
			return m
		}
	}
	return api.Mode{}
}
