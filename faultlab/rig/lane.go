package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig/gear"
	"lastitem/stack/wire"
)

// Lane is three replicas of a service, with their own keys, schema and product. It plays one schedule at a time.
type Lane struct {
	Service Service
	// A is the victim, B the rival, C the prober, which also sets the stock and reads the ledger.
	A, B, C *Actor

	*gear.Set

	settings []string
	turns    gear.Work // what A and C do by themselves, see gear.Equipment.Sweep; nil = nothing
	everyone bool      // B does it too
	refuses  bool      // its database refuses an order, see Tickets.Win
	client   *http.Client
	patience time.Duration // see LaneOptions.Patience
	initial  int64         // the stock that the product was last reset to
}

// LaneOptions configures a lane. The service decides on Alone and Open.
type LaneOptions struct {
	gear.SetOptions
	Service Service
	// Patience is how long clients wait for an answer, both the service's clients and those of its servers; 0 =
	// [Patience].
	Patience time.Duration
}

// NewLane starts the replicas of a lane.
func NewLane(ctx context.Context, servers *gear.Servers, o LaneOptions) (*Lane, error) {
	o.Alone, o.Open = o.Service.Alone, o.Service.Open
	if o.Service.ProductName != nil {
		o.Name = o.Service.ProductName((&gear.Place{Number: o.Number}).Product())
	}
	set, err := servers.NewSet(ctx, o.SetOptions)
	if err != nil {
		return nil, err
	}
	l := &Lane{
		Set: set, Service: o.Service, patience: cmp.Or(o.Patience, Patience), turns: workOf(o.Equipment),
		everyone: o.Equipment.Everyone,
		settings: strings.Fields(strings.ReplaceAll(o.Equipment.Settings, "{{ttl}}", o.TTL.String())),
		// Each request gets a new connection: a kept one might lead to a process that is dead by now.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: cmp.Or(o.Patience, Patience)},
	}
	if err := l.start(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// start starts the proxies and the replicas.
func (l *Lane) start(ctx context.Context) error {
	if setup := l.Service.Setup; setup != nil {
		if err := setup(ctx, Site{Set: l.Set}); err != nil {
			return err
		}
	}
	if err := l.wire(); err != nil {
		return err
	}
	return l.startAll(ctx)
}

// wire creates the actors and their proxies.
func (l *Lane) wire() error {
	for name, a := range map[string]**Actor{"A": &l.A, "B": &l.B, "C": &l.C} {
		wires, err := l.NewWires(name)
		if err != nil {
			return err
		}
		*a = &Actor{Name: name, Wires: wires, place: l.Place, service: &l.Service, patience: l.patience, settings: l.settings}
		if l.turns != nil && (name != "B" || l.everyone) {
			(*a).turns = l.turns
			(*a).settings = append(slices.Clone(l.settings), map[bool]string{true: "SHOP_SWEEP=" + sweepEvery.String(),
				false: "SHOP_TICKET_CONSUME=true"}[l.Sweeps()])
		}
	}
	return nil
}

// workOf is what A and C do by themselves.
func workOf(e gear.Equipment) gear.Work {
	switch {
	case e.Sweep:
		return gear.Sweeping
	case e.Consume:
		return gear.Consuming
	}
	return nil
}

// sweepEvery is the mean time between two sweeps of an actor that sweeps, while the lab does not hold it.
const sweepEvery = 20 * time.Millisecond

// startAll starts the replicas: first A alone, which creates the tables, then B and C.
func (l *Lane) startAll(ctx context.Context) error {
	if err := l.A.start(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var errs [2]error
	for i, a := range []*Actor{l.B, l.C} {
		wg.Go(func() { errs[i] = a.start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (l *Lane) actors() []*Actor { return []*Actor{l.A, l.B, l.C} }

// Sweeps says that A and C end overdue reservations.
func (l *Lane) Sweeps() bool { return l.turns[gear.Database] != nil }

// consumes says that A and C write the orders of tickets, see [Tickets].
func consumes(l *Lane) bool { return l.turns != nil && !l.Sweeps() }

// Close ends the replicas, the proxies and the lane's own servers.
func (l *Lane) Close() {
	for _, a := range l.actors() {
		if a == nil {
			continue
		}
		if a.run != nil {
			a.Kill()
		}
		a.Close()
	}
	l.Set.Close()
}

// Abandon kills the replicas after a schedule that did not end: a request that is still in flight would meddle with the
// next schedule, for which [Lane.Reset] starts new ones.
func (l *Lane) Abandon() {
	for _, a := range l.actors() {
		a.Kill()
	}
}

// Heal restarts dead servers and replicas, and lets stopped ones go on.
func (l *Lane) Heal(ctx context.Context) error {
	if err := l.Restore(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(l.actors()))
	for i, a := range l.actors() {
		switch {
		case a.Alive() && !a.stopped:
		case a.Alive():
			errs[i] = a.Resume()
		default:
			l.Warm = ""
			wg.Go(func() { errs[i] = errors.Join(a.Discard(ctx), a.start(ctx)) })
		}
	}
	wg.Wait()
	return errors.Join(append(errs, l.Pair.Reset(ctx))...)
}

// Quiesce waits until no server owes a replica an answer and, where replicas work for requests after the answer, until
// they are quiet.
func (l *Lane) Quiesce(ctx context.Context) error {
	err := l.answered(ctx)
	if rest := l.Service.learnt.rest(); err == nil && rest > 0 {
		err = cmp.Or(l.quiet(ctx, rest, time.Now().Add(workWithin)), l.answered(ctx))
	}
	return err
}

// answered waits until no server owes a replica an answer.
func (l *Lane) answered(ctx context.Context) error {
	owed := ""
	err := gear.Until(ctx, "the servers' answers", func() bool {
		for _, a := range l.actors() {
			if calls := a.Unanswered(); len(calls) > 0 {
				owed = fmt.Sprintf("%s: %s", a.Name, calls[0].Text)
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, owed)
	}
	return nil
}

// unread returns the errors of proxies that could not read a connection: they cannot have held its commands.
func (l *Lane) unread() error {
	var errs []error
	for _, a := range l.actors() {
		errs = append(errs, a.Err())
	}
	return errors.Join(errs...)
}

// site is where the lab reads and resets the service: C answers, else B, else A.
func (l *Lane) site() Site {
	for _, a := range []*Actor{l.C, l.B} {
		if a.Alive() && !a.stopped {
			return Site{l.Set, a.URL, l.initial}
		}
	}
	return Site{l.Set, l.A.URL, l.initial}
}

// Ledger reads the stock and the orders.
func (l *Lane) Ledger(ctx context.Context) (*api.Ledger, error) {
	return l.Service.Ledger(ctx, l.site())
}

// Modes asks the lane for the modes of the shop.
func (l *Lane) Modes(ctx context.Context) ([]api.Mode, error) { return l.site().shop().Modes(ctx) }

// inOrder gives the replicas their roles by their names again.
func (l *Lane) inOrder() {
	all := l.actors()
	slices.SortFunc(all, func(a, b *Actor) int { return cmp.Compare(a.Name, b.Name) })
	l.A, l.B, l.C = all[0], all[1], all[2]
}

// idle notes for so long what B and C, whom nobody asks, send by themselves.
func (l *Lane) idle(ctx context.Context, long time.Duration) error {
	since := wire.LastID()
	if err := wait(ctx, long); err != nil {
		return err
	}
	x := l.Service.learnt
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.idle == nil {
		x.idle = map[[2]string]bool{}
	}
	for _, c := range append(l.B.Calls(since), l.C.Calls(since)...) {
		x.idle[[2]string{c.Server, c.Pattern}] = true
	}
	return nil
}

// OutlastJobs waits until end where replicas work for requests after the answer.
func OutlastJobs(ctx context.Context, l *Lane, end time.Time) error {
	if l.Service.learnt.rest() == 0 {
		return nil
	}
	return wait(ctx, time.Until(end))
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// own returns what a replica has sent since a call, less what replicas also send though nobody asks them.
func (l *Lane) own(a *Actor, since int64) []wire.Call {
	x := l.Service.learnt
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(a.Calls(since), func(c wire.Call) bool {
		return c.Setup || c.Poll || x.idle[[2]string{c.Server, c.Pattern}]
	})
}

// helped says whether another replica than a has sent anything of its own since a call.
func (l *Lane) helped(a *Actor, since int64) bool {
	return slices.ContainsFunc(l.actors(), func(b *Actor) bool { return b != a && len(l.own(b, since)) > 0 })
}

// worksAlone says whether replicas send anything though nobody asks them, for so long: a relay, a sweeper, a worker
// that polls. It is watched once.
func (l *Lane) worksAlone(ctx context.Context, long time.Duration) bool {
	x := l.Service.learnt
	x.watching.Lock()
	defer x.watching.Unlock()
	if x.works != nil || !l.B.Alive() && !l.C.Alive() {
		return x.works != nil && *x.works
	}
	works, since := false, wire.LastID()
	for end := time.Now().Add(long); !works && time.Now().Before(end) && wait(ctx, settling) == nil; {
		works = slices.ContainsFunc(l.actors(), func(a *Actor) bool {
			return slices.ContainsFunc(a.Calls(since), func(c wire.Call) bool { return !c.Setup && !c.Poll })
		})
	}
	x.works = &works
	return works
}

// quiet returns when no replica has sent anything of its own for so long, at the latest at end.
func (l *Lane) quiet(ctx context.Context, long time.Duration, end time.Time) error {
	for busy := true; busy && time.Now().Before(end); {
		since := wire.LastID()
		if err := wait(ctx, long); err != nil {
			return err
		}
		busy = slices.ContainsFunc(l.actors(), func(a *Actor) bool { return len(l.own(a, since)) > 0 })
	}
	return nil
}
