package faultlab

import (
	"context"
	"fmt"
	"sync"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// paths keeps the paths of the requests that were traced. Groups that give their replicas the same settings share them.
type paths struct {
	mu    sync.Mutex
	known map[pathKey]*tracing
}

type pathKey struct {
	mode     string
	store    api.Store
	settings string
}

// tracing is a path that somebody is tracing, or has traced.
type tracing struct {
	mu   sync.Mutex
	done bool
	path rig.Path
}

// of returns the tracing of a key, which may be still empty.
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

// path is the request of a mode, traced once on a lane of the group.
func (l *lab) path(ctx context.Context, g *group, c Cell) (rig.Path, error) {
	t := l.paths.of(pathKey{c.Mode, c.Store, g.equipment.Settings})
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
		Mode: c.Mode, Store: c.Store, Stock: rig.Stock, Segments: segments(m), Outlive: outlive(m, lane.TTL),
	})
	if err != nil {
		return rig.Path{}, fmt.Errorf("faultlab: trace %s %s: %w", c.Mode, c.Store, err)
	}
	t.done = true
	return t.path, nil
}
