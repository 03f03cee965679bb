package faultlab

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// lab is the servers and the lanes of an exploration.
type lab struct {
	o       Options
	servers *rig.Servers
	free    map[kind]chan *rig.Lane
	lanes   []*rig.Lane
	modes   []api.Mode
	told    bool // stories are kept
	matrix  Matrix
	stalls  stalls
	again   atomic.Int64 // schedules that were played again because of a stall

	paths map[string]rig.Path // of the requests, by mode and store
}

// kind of lane: what its replicas and servers are good for.
type kind int

const (
	expiring kind = iota // a short TTL, for what waits for expiry
	lasting              // a long TTL
	paired               // a long TTL, and a Redis with a replica
	kinds
)

// kindFor says which lanes a fault is played on.
func kindFor(name api.Hazard) kind {
	switch f, _ := fault.Named(name); {
	case f.Pair:
		return paired
	case f.Expiry:
		return expiring
	default:
		return lasting
	}
}

// fewLanes is how many lanes there are of a kind that waits for nothing: they keep the processors busy by themselves.
const fewLanes = 2

// open starts the servers and the lanes.
func open(ctx context.Context, o Options) (*lab, error) {
	l := &lab{o: o, free: map[kind]chan *rig.Lane{}, paths: map[string]rig.Path{}}
	wanted := map[kind]int{}
	for _, f := range fault.All {
		if selected(o.Faults, f.Name) {
			wanted[kindFor(f.Name)] = fewLanes
		}
	}
	wanted[lasting] = fewLanes // requests are traced on these
	if wanted[expiring] > 0 {
		wanted[expiring] = o.Lanes
	}
	var all []kind
	for k := range kinds {
		l.free[k] = make(chan *rig.Lane, wanted[k])
		for range wanted[k] {
			all = append(all, k)
		}
	}
	var err error
	l.servers, err = rig.Start(ctx, rig.Options{Lanes: len(all), Binary: o.Binary, Log: o.Log, Extras: o.Extras})
	if err != nil {
		return nil, err
	}
	if err := l.openLanes(ctx, all); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) openLanes(ctx context.Context, all []kind) error {
	service := rig.Shop(l.o.Binary)
	l.lanes = make([]*rig.Lane, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	limit := make(chan struct{}, 4)
	for i, k := range all {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			o := rig.LaneOptions{Number: i, Service: service, TTL: LongTTL, Pair: k == paired}
			if k == expiring {
				o.TTL = l.o.TTL
			}
			l.lanes[i], errs[i] = l.servers.NewLane(ctx, o)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, k := range all {
		l.free[k] <- l.lanes[i]
	}
	l.o.Log("%d lanes of three replicas", len(l.lanes))
	var err error
	l.modes, err = rig.Modes(ctx, l.lanes[0].C.URL)
	return err
}

func (l *lab) close() error {
	for _, lane := range l.lanes {
		if lane != nil {
			lane.Close()
		}
	}
	return l.servers.Close()
}

// lane takes a free lane of the kind that the fault wants.
func (l *lab) lane(ctx context.Context, name api.Hazard) (*rig.Lane, chan *rig.Lane, error) {
	free := l.free[kindFor(name)]
	select {
	case lane := <-free:
		return lane, free, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// mode is a mode by its name, or none.
func (l *lab) mode(name string) api.Mode {
	for _, m := range l.modes {
		if m.Name == name {
			return m
		}
	}
	return api.Mode{}
}
