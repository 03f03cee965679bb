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
	"lastitem/judge"
	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/target"
)

// firstProduct is the product of lane 0; each lane has its own product.
const firstProduct = 1001

// Lane is three replicas of a service, with their own keys, schema and product. It plays one schedule at a time.
type Lane struct {
	Service Service
	TTL     time.Duration
	// A is the victim, B the rival, C the prober, which also sets the stock and reads the ledger.
	A, B, C *Actor

	Own  Own
	SQL  SQL
	Pair *Pair // nil = no server has replicas

	number    int
	settings  []string
	sweeps    bool // see Equipment.Sweep
	servers   *Servers
	links     []link
	pace      time.Duration // the longest time that a replica took for its first request
	warm      string        // the mode and store whose requests all actors have served
	laneRedis node          // the lane's own Redis, if it has one
	edge      edge          // its nginx
	spare     node          // a Redis that may replace a node of a Redlock
	client    *http.Client
	patience  time.Duration // see LaneOptions.Patience
	initial   int64         // the stock that a foreign service was last reset to
}

// LaneOptions configures a lane.
type LaneOptions struct {
	// Number is unique among the lanes, and less than Options.Lanes.
	Number  int
	Service Service
	TTL     time.Duration // of the locks that have one
	// Patience is how long clients wait for an answer, both the service's clients and those of its servers; 0 =
	// [Patience].
	Patience  time.Duration
	Equipment Equipment
}

// NewLane starts the replicas of a lane.
func (s *Servers) NewLane(ctx context.Context, o LaneOptions) (*Lane, error) {
	l := &Lane{
		settings: strings.Fields(strings.ReplaceAll(o.Equipment.Settings, "{{ttl}}", o.TTL.String())),
		edge:     edge{resend: o.Equipment.Nginx == Resends},
		sweeps:   o.Equipment.Sweep,
		Service:  o.Service, TTL: o.TTL, patience: cmp.Or(o.Patience, Patience), number: o.Number, servers: s,
		links: slices.Clone(s.links),
		// Each request gets a new connection: a kept one might lead to a process that is dead by now.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: cmp.Or(o.Patience, Patience)},
	}
	l.Own.lane, l.SQL.lane, l.edge.lane = l, l, l
	if err := l.start(ctx, o.Equipment); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// start starts the lane's own servers, the proxies and the replicas.
func (l *Lane) start(ctx context.Context, e Equipment) error {
	if err := l.startRedis(ctx, e); err != nil {
		return err
	}
	if e.SQL != "" {
		if err := l.SQL.start(ctx, e); err != nil {
			return err
		}
	}
	if setup := l.Service.Setup; setup != nil {
		if err := setup(ctx, l); err != nil {
			return err
		}
	}
	if err := l.Own.start(ctx, e); err != nil {
		return err
	}
	for name, a := range map[string]**Actor{"A": &l.A, "B": &l.B, "C": &l.C} {
		var err error
		if *a, err = newActor(l, name); err != nil {
			return err
		}
	}
	return l.startAll(ctx)
}

// startRedis starts the lane's own Redis servers, except those of [Equipment.Own].
func (l *Lane) startRedis(ctx context.Context, e Equipment) (err error) {
	switch {
	case e.Pair != "":
		return l.startPair(ctx, e)
	case l.Service.Alone:
		l.laneRedis, err = l.replaceRedis(ctx, stack.Redis)
	}
	return err
}

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
func (l *Lane) Sweeps() bool { return l.sweeps }

// Product returns the product of the lane.
func (l *Lane) Product() int64 { return firstProduct + int64(l.number) }

// Close ends the replicas, the proxies and the lane's own servers.
func (l *Lane) Close() {
	if l.SQL.db != nil {
		_ = l.SQL.db.Close()
	}
	for _, a := range l.actors() {
		if a == nil {
			continue
		}
		if a.run != nil {
			a.Kill()
		}
		a.close()
	}
	l.edge.end()
	if l.SQL.run != nil {
		l.SQL.run.Kill()
	}
	if l.Pair != nil && l.Pair.link != nil {
		l.Pair.link.Close()
	}
	for _, n := range l.nodes() {
		n.run.Kill()
	}
}

// Reset sets the stock and clears the history. Before that it restarts dead replicas and has every replica serve one
// request of the same kind, so that connections are open and scripts are loaded.
func (l *Lane) Reset(ctx context.Context, ask Ask) error {
	if err := l.Heal(ctx); err != nil {
		return err
	}
	if kind := ask.Mode + " " + string(ask.Store); l.warm != kind || ask.Session {
		if err := l.warmUp(ctx, ask); err != nil {
			// A command that came late may have left a lock that lives as long as its process does.
			l.Abandon()
			if err := errors.Join(l.Heal(ctx), l.warmUp(ctx, ask)); err != nil {
				return err
			}
		}
		l.warm = kind
	}
	last := wire.LastID()
	for _, a := range l.actors() {
		if a.sweeps() {
			if err := a.rest(ctx); err != nil {
				return err
			}
		}
		for _, p := range a.proxies {
			p.Forget(last)
		}
	}
	return l.set(ctx, ask)
}

// set sets the stock of the product.
func (l *Lane) set(ctx context.Context, ask Ask) error {
	to := target.Setting(ask.Stock, ask.Segments)
	if to.PerBuyer = ask.PerBuyer; ask.About.Rehold {
		to.Late = "rehold"
	}
	err := l.Service.Reset(ctx, l, to)
	if err != nil || !ask.ReserveFirst || ask.About.Kind != "" {
		return err
	}
	return l.reserveOnce(ctx, ask)
}

// warmWithin is how long the first answer of a replica may take, in addition to twice the lane's TTL: an old lock or
// session may have to expire first.
const warmWithin = 5 * time.Second

// warmUp has every replica serve one request.
func (l *Lane) warmUp(ctx context.Context, ask Ask) error {
	ask.Stock, ask.PerBuyer = Stock, 0
	if err := l.set(ctx, ask); err != nil {
		return err
	}
	s := l.scene(ask)
	for _, a := range l.actors() {
		for end := time.Now().Add(warmWithin + 2*l.TTL + ask.Outlive); ; {
			asked := time.Now()
			p := s.Ask(a, s.NewKey())
			if err := p.Wait(ctx); err != nil {
				return err
			}
			if p.op.Outcome == judge.OK {
				l.pace = max(l.pace, time.Since(asked))
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("faultlab: %s does not serve %s without any fault: %s %s", a.Name, ask.Mode, p.op.Outcome,
					p.op.Code)
			}
			time.Sleep(50 * time.Millisecond) // a new session may have to begin, or an old one to end
		}
	}
	return l.Quiesce(ctx)
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
	if err := errors.Join(l.Own.restore(ctx), l.SQL.heal(ctx)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(l.actors()))
	for i, a := range l.actors() {
		a.release()
		a.turnBack()
		a.join()
		switch {
		case a.alive() && !a.stopped:
		case a.alive():
			errs[i] = a.Resume()
		default:
			l.warm = ""
			wg.Go(func() { errs[i] = errors.Join(a.Discard(ctx), a.start(ctx)) })
		}
	}
	wg.Wait()
	return errors.Join(append(errs, l.Pair.reset(ctx))...)
}

// Quiesce waits until no server owes a replica an answer.
func (l *Lane) Quiesce(ctx context.Context) error {
	owed := ""
	err := until(ctx, "the servers' answers", func() bool {
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
		for _, p := range a.proxies {
			errs = append(errs, p.Err())
		}
	}
	return errors.Join(errs...)
}

// Ledger reads the stock and the orders, through C.
func (l *Lane) Ledger(ctx context.Context) (*api.Ledger, error) {
	return l.Service.Ledger(ctx, l)
}
