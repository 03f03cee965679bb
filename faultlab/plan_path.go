package faultlab

import (
	"context"
	"fmt"
	"sync"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/target"
)

// paths keeps the traced request of each mode and store. Groups whose replicas have the same settings share it.
type paths struct {
	mu    sync.Mutex
	known map[pathKey]*tracing
}

type pathKey struct {
	mode     string
	store    api.Store
	settings string
	about    rig.About
}

// tracing is a path that has been traced (done), or is being traced under the mutex.
type tracing struct {
	mu   sync.Mutex
	done bool
	path rig.Path
}

// of returns the tracing of a key; a new one is empty.
func (p *paths) of(key pathKey) *tracing {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.known[key]
	if t == nil {
		t = new(tracing)
		p.known[key] = t
	}
	return t
}

// rival returns the path on which the rival of a pair is held in a variant; path is the victim's. Without a step there
// are no pairs.
func (l *lab) rival(ctx context.Context, g *group, c Cell, variant string, path rig.Path) (rig.Path, error) {
	f, _ := fault.Named(c.Fault)
	switch {
	case f.Pairs && f.Rivals == nil && f.About(variant).Kind != "": // the rival is held in deductions only
		return rig.Path{}, nil
	case !f.Pairs || f.Rivals == nil:
		return path, nil
	case f.Rivals(variant).Kind == "":
		return rig.Path{}, nil
	}
	return l.path(ctx, g, c, f.Rivals(variant))
}

// path returns the path of a cell's request. The first call traces the request on a lane of the group.
func (l *lab) path(ctx context.Context, g *group, c Cell, about rig.About) (rig.Path, error) {
	t := l.paths.of(pathKey{c.Mode, c.Store, g.equipment.Settings, about})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return t.path, nil
	}
	lane, err := g.lane(ctx)
	if err != nil {
		return rig.Path{}, err
	}
	defer func() { g.free <- lane }()
	m := l.mode(c.Mode)
	t.path, err = lane.Trace(ctx, rig.Ask{
		Ask: target.Ask{Mode: c.Mode, Store: c.Store}, Stock: rig.Stock, About: about, Set: setting(m),
		PerBuyer: perBuyer(m, about), ReserveFirst: reserveFirst(m, c.Store), Outlive: outlive(m, lane.TTL),
	})
	if err != nil {
		return rig.Path{}, fmt.Errorf("faultlab: trace %s %s: %w", c.Mode, c.Store, err)
	}
	t.done = true
	return t.path, nil
}
