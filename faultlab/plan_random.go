package faultlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
)

// Randomly configures the drawing of random schedules.
type Randomly struct {
	// Seed decides which schedules are drawn: with the same binary and seed, the nth schedule of an equipment is the same
	// in every run. How many are played depends on the machine.
	Seed uint64
	// For is how long new schedules are started. A schedule that has started is finished.
	For time.Duration
	// Found is called with every schedule that was not exact, by one goroutine at a time; nil = not called.
	Found func(Played)
}

// Drawn is the result of random schedules.
type Drawn struct {
	Seed      uint64               `json:"seed"`
	Cells     int                  `json:"cells"` // how many cells schedules were drawn from: all that must be exact
	Schedules int                  `json:"schedules"`
	Pairs     int                  `json:"pairs"`  // how many schedules held the rival too
	Thirds    int                  `json:"thirds"` // how many of the Pairs held a third request as well
	Outcomes  map[api.Outcomes]int `json:"outcomes"`
	Broken    []Played             `json:"broken,omitempty"` // the schedules that showed a letter
	Servers   map[string]string    `json:"servers"`
	TTL       time.Duration        `json:"ttl_ns"`
	Took      time.Duration        `json:"took_ns"`
}

// Keep writes each broken schedule to a file of a directory, random-SEED-N.json, from which it can be played again, and
// returns the files.
func (d *Drawn) Keep(dir string) (files []string, err error) {
	for i := range d.Broken {
		told, err := json.MarshalIndent(Result{Worst: &d.Broken[i], Servers: d.Servers, TTL: d.TTL}, "", "  ")
		if err != nil {
			return files, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return files, err
		}
		name := filepath.Join(dir, fmt.Sprintf("random-%d-%d.json", d.Seed, i+1))
		if err := os.WriteFile(name, told, 0o644); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// Random plays random schedules of the cells that must be exact. It draws a mode, a store, a hazard, a variant and a
// position of the victim; often also a position of the rival; and sometimes one of a third request, with the order in
// which the three go on. It finds a rare interleaving only by luck. [Explore] plays every position, but it holds the
// rival only before a command and never holds a third request; Random also holds them before an answer. Drawn is nil if
// the lab could not be started.
func Random(ctx context.Context, o Options, r Randomly) (*Drawn, error) {
	o.complete()
	began := time.Now()
	if o.Faults == nil {
		o.Faults = fault.Names()
	}
	matrix, err := Committed()
	if err != nil {
		return nil, err
	}
	l, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	l.matrix, l.told = matrix, true
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go l.stalls.watch(watching)
	d := &Drawn{Seed: r.Seed, Outcomes: map[api.Outcomes]int{}, Servers: l.servers.Kinds(), TTL: o.TTL}
	err = errors.Join(l.wander(ctx, r, d), l.close())
	d.Took = time.Since(began)
	return d, err
}

// wander plays random schedules on every group. If there are more groups than run in parallel, each gets an equal share
// of the time.
func (l *lab) wander(ctx context.Context, r Randomly, d *Drawn) error {
	for _, c := range l.cells(l.o) {
		f, _ := fault.Named(c.Fault)
		if c.Claim != api.Exact || slow(l.mode(c.Mode)) && !slices.Contains(l.o.Modes, c.Mode) {
			continue
		}
		g := l.group(f, l.mode(c.Mode))
		g.cells = append(g.cells, c)
		d.Cells++
	}
	if d.Cells == 0 {
		return l.nothing()
	}
	groups := slices.DeleteFunc(slices.Clone(l.groups), func(g *group) bool { return len(g.cells) == 0 })
	share := r.For
	if n := len(groups); n > groupsAtOnce {
		share = r.For * groupsAtOnce / time.Duration(n)
	}
	var mu sync.Mutex
	return sideBySide(ctx, groups, groupsAtOnce, func(ctx context.Context, g *group) error {
		defer g.close()
		if err := l.openLanes(ctx, g); err != nil {
			return err
		}
		return l.wanderOn(ctx, g, draws{seed: r.Seed, until: time.Now().Add(share)}, func(p Played) {
			mu.Lock()
			defer mu.Unlock()
			d.add(r, p)
		})
	})
}

// draws says which schedules a group plays, and until when.
type draws struct {
	seed  uint64
	until time.Time
}

// wanderOn plays random schedules on all lanes of a group until ds.until.
func (l *lab) wanderOn(ctx context.Context, g *group, ds draws, done func(Played)) error {
	var n atomic.Uint64
	lanes := make([]int, len(g.lanes))
	return sideBySide(ctx, lanes, len(lanes), func(ctx context.Context, _ int) error {
		for time.Now().Before(ds.until) {
			rng := rand.New(rand.NewPCG(ds.seed, uint64(g.first)<<32|n.Add(1)))
			s, err := l.draw(ctx, g, rng)
			if err != nil {
				return err
			}
			played, err := l.play(ctx, g, []Schedule{s})
			if err != nil {
				return err
			}
			done(played[0])
		}
		return nil
	})
}

// untraced is how many traces may fail in a row; a trace, a request without any fault, may fail if the machine is too
// busy.
const untraced = 20

// draw returns a random schedule of a group. It skips a cell whose request cannot be traced.
func (l *lab) draw(ctx context.Context, g *group, rng *rand.Rand) (Schedule, error) {
	for failed := 0; ; {
		c := g.cells[rng.IntN(len(g.cells))]
		f, _ := fault.Named(c.Fault)
		variant := ""
		if f.Variants != nil {
			variant = pick(rng, f.Variants(l.mode(c.Mode)))
		}
		path, err := l.path(ctx, g, c, f.About(variant))
		rival := path
		if err == nil {
			rival, err = l.rival(ctx, g, c, variant, path)
		}
		if err != nil {
			failed++
			if ctx.Err() != nil || failed == untraced {
				return Schedule{}, err
			}
			l.o.Log("%v", err)
			continue
		}
		if s, ok := drawn(c, variant, path, rival, rng); ok {
			return s.expiring(l.o.Expiry), nil
		}
	}
}

// drawn returns a random schedule of a cell's variant; false if the hazard has no such schedule.
func drawn(c Cell, variant string, path, rival rig.Path, rng *rand.Rand) (Schedule, bool) {
	f, _ := fault.Named(c.Fault)
	s := Schedule{Mode: c.Mode, Store: c.Store, Fault: c.Fault, Variant: variant}
	victims := path.Steps
	if f.Finished {
		victims = path.Steps[path.Finished:]
	}
	victims = slices.DeleteFunc(slices.Clone(victims), func(at rig.Position) bool {
		return f.Skip != nil && f.Skip(s.Variant, at)
	})
	if f.AtEnd && rng.IntN(len(victims)+1) == 0 {
		return s, true
	}
	if len(victims) == 0 || len(f.Cuts) == 0 {
		return s, false
	}
	a := pick(rng, victims)
	a.Cut = pick(rng, f.Cuts)
	s.A = &a
	if f.Rival || f.Pairs && len(rival.Steps) > 0 && rng.IntN(2) == 0 {
		s.B = rivalAt(rival, rng)
		if f.ThirdHeld() && rng.IntN(3) == 0 {
			s.C, s.Order = rivalAt(rival, rng), pick(rng, fault.Orders)
		}
	}
	return s, true
}

// rivalAt draws where the rival or the third request is held.
func rivalAt(path rig.Path, rng *rand.Rand) *rig.Position {
	at := pick(rng, path.Steps)
	at.Cut = pick(rng, rivalCuts)
	return &at
}

func pick[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

// add counts a schedule.
func (d *Drawn) add(r Randomly, p Played) {
	d.Schedules++
	d.Outcomes[p.Outcome]++
	if p.Schedule.B != nil {
		d.Pairs++
	}
	if p.Schedule.C != nil {
		d.Thirds++
	}
	switch p.Outcome {
	case api.Exact, Idle:
		return
	case Vacuous, Diverged, Failed:
	default:
		d.Broken = append(d.Broken, p)
	}
	if r.Found != nil {
		r.Found(p)
	}
}
