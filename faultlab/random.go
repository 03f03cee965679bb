package faultlab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/internal/api"
)

// Randomly says how random schedules are drawn.
type Randomly struct {
	// Seed decides on every schedule: the nth of an equipment is the same in every run on the same binary. How many are played is the
	// machine's affair.
	Seed uint64
	// For is how long schedules are begun.
	For time.Duration
	// Found is told of every schedule that was not exact, from one goroutine at a time; nil = nobody.
	Found func(Played)
}

// Drawn is what random schedules showed.
type Drawn struct {
	Seed      uint64               `json:"seed"`
	Cells     int                  `json:"cells"` // those that must be exact, of which schedules were drawn
	Schedules int                  `json:"schedules"`
	Pairs     int                  `json:"pairs"` // of them, with the rival held too
	Outcomes  map[api.Outcomes]int `json:"outcomes"`
	Broken    []Played             `json:"broken,omitempty"` // those with a letter, or that could not be played
	Servers   map[string]string    `json:"servers"`
	TTL       time.Duration        `json:"ttl_ns"`
	Took      time.Duration        `json:"took_ns"`
}

// Random plays random schedules of the cells that must be exact: a random mode, store, hazard, variant, position of the victim and often
// one of the rival, also after its last write. A rare interleaving needs luck here; the grid of [Explore] needs none, but it holds a rival
// only before a command.
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

// wander draws on all equipments. Where there are more of them than are used side by side, each gets its share of the time.
func (l *lab) wander(ctx context.Context, r Randomly, d *Drawn) error {
	for _, c := range l.cells(l.o) {
		f, _ := fault.Named(c.Fault)
		if c.Claim != api.Exact || slow(l.mode(c.Mode)) && !slices.Contains(l.o.Modes, c.Mode) {
			continue
		}
		g := l.group(f)
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

// draws is which schedules an equipment plays.
type draws struct {
	seed  uint64
	until time.Time
}

// wanderOn plays on all lanes of a group until the time is over.
func (l *lab) wanderOn(ctx context.Context, g *group, ds draws, done func(Played)) error {
	var n atomic.Uint64
	lanes := make([]int, len(g.lanes))
	return sideBySide(ctx, lanes, len(lanes), func(ctx context.Context, _ int) error {
		for time.Now().Before(ds.until) {
			rng := rand.New(rand.NewPCG(ds.seed, uint64(g.first)<<32|n.Add(1))) //nolint:gosec // it is to be repeated, not to be secret
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

// untraced is how often in a row a request may fail without any fault, as it may on a machine that is too busy for a service.
const untraced = 20

// draw is a random schedule of a group. A cell whose request cannot be traced just now is passed over.
func (l *lab) draw(ctx context.Context, g *group, rng *rand.Rand) (Schedule, error) {
	for failed := 0; ; {
		c := g.cells[rng.IntN(len(g.cells))]
		path, err := l.path(ctx, g, c)
		if err != nil {
			if failed++; ctx.Err() != nil || failed == untraced {
				return Schedule{}, err
			}
			l.o.Log("%v", err)
			continue
		}
		if s, ok := drawn(l.mode(c.Mode), c, path, rng); ok {
			return s, nil
		}
	}
}

// drawn is a random schedule of a cell; false where its hazard cannot strike so.
func drawn(m api.Mode, c Cell, path rig.Path, rng *rand.Rand) (Schedule, bool) {
	f, _ := fault.Named(c.Fault)
	s := Schedule{Mode: c.Mode, Store: c.Store, Fault: c.Fault}
	if f.Variants != nil {
		s.Variant = pick(rng, f.Variants(m))
	}
	victims := path.Steps
	if f.Finished {
		victims = path.Steps[path.Finished:]
	}
	victims = slices.DeleteFunc(slices.Clone(victims), func(at rig.Position) bool { return f.Skip != nil && f.Skip(s.Variant, at) })
	if f.AtEnd && rng.IntN(len(victims)+1) == 0 {
		return s, true
	}
	if len(victims) == 0 || len(f.Cuts) == 0 {
		return s, false
	}
	a := pick(rng, victims)
	a.Cut = pick(rng, f.Cuts)
	s.A = &a
	if f.Rival || f.Pairs && rng.IntN(2) == 0 {
		b := pick(rng, path.Steps)
		b.Cut = pick(rng, []rig.Cut{rig.Command, rig.Answer})
		s.B = &b
	}
	return s, true
}

func pick[T any](rng *rand.Rand, all []T) T { return all[rng.IntN(len(all))] }

// add takes in a schedule.
func (d *Drawn) add(r Randomly, p Played) {
	d.Schedules++
	d.Outcomes[p.Outcome]++
	if p.Schedule.B != nil {
		d.Pairs++
	}
	switch p.Outcome {
	case api.Exact:
		return
	case Vacuous, Diverged:
	default:
		d.Broken = append(d.Broken, p)
	}
	if r.Found != nil {
		r.Found(p)
	}
}
