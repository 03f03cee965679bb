package faultlab

import (
	"context"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
	"lastitem/target"
)

// only returns the servers that the exploration needs; nil = all.
func (o Options) only() []string {
	if o.Serve == nil {
		return nil
	}
	return serversOf(o.Serve)
}

// serversOf returns the servers that a foreign service uses, by the names of stack.
func serversOf(f *target.Foreign) (all []string) {
	if f.UsesRedis() {
		all = append(all, stack.Redis)
	}
	if f.UsesMySQL() {
		all = append(all, stack.MySQL)
	}
	if f.UsesPostgres() {
		all = append(all, stack.Postgres)
	}
	return all
}

// equipment returns what the lanes of a fault and mode must have. If the lab cannot set the TTL of a foreign service's
// locks, all its faults share lanes, except those that need a pair of Redis servers.
func (l *lab) equipment(f fault.Fault, m api.Mode) gear.Equipment {
	e := f.Lane
	e.Sweep, e.Consume = e.Sweep && l.o.Serve == nil, m.Tickets
	if l.o.Serve != nil && !l.o.Serve.TakesTTL() && e.Pair == "" {
		e.Expiry = true
	}
	return e
}

// untested says why a fault was not played at every position of a foreign service: its commands are not always the same
// or, where a fault interleaves two requests, some command does several things inside the database. Zero = every
// position can be held. A dead or stopped process does not interrupt such a command.
func untested(f fault.Fault, path rig.Path) text.Text {
	if len(path.Differs) > 0 {
		at := path.Differs[0]
		return text.Of("the commands of a request differ from one to the next: %q of %s came in some only").With(at.Pattern,
			at.Server)
	}
	if f.Name != api.Threads && f.Name != api.Replicas {
		return text.Text{}
	}
	for _, at := range path.Steps {
		if why := at.Inside(); why != (text.Text{}) {
			return text.Of("%q %s: no schedule can stop inside it, where another request may come between; put load on it "+
				"with 'shop loadtest --url --request'").With(at.Pattern, why)
		}
	}
	return text.Text{}
}

// meet sends a foreign service requests without any fault, finds out the TTL of its locks, and describes it as a mode.
func (l *lab) meet(ctx context.Context) error {
	f, lane := l.o.Serve, l.groups[0].lanes[0]
	if err := rig.Try(ctx, lane, f); err != nil {
		return err
	}
	l.modes, l.ends = []api.Mode{foreignMode(f)}, f.LockTTL > 0 || f.TakesTTL()
	switch {
	case f.LockTTL > 0:
		l.o.TTL = f.LockTTL
	case !f.UsesRedis() || f.TakesTTL(): // there is none to look for locks in, or it is known
		return nil
	default:
		if err := l.readTTL(ctx, lane); err != nil {
			return err
		}
	}
	for _, lane := range l.groups[0].lanes {
		lane.TTL = l.o.TTL
	}
	return nil
}

// readTTL finds the locks of a service in Redis and takes the longest TTL as the TTL of the lab.
func (l *lab) readTTL(ctx context.Context, lane *rig.Lane) error {
	ask := rig.Ask{Ask: target.Ask{Mode: target.ServiceName}, Stock: rig.Stock}
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
		l.o.Log("no lock was seen in Redis while a request was held; if your locks are elsewhere, give their TTL by " +
			"--lock-ttl")
		return nil
	}
	l.o.TTL = longest
	l.o.Log("locks seen while a request was held: %s", strings.Join(seen, ", "))
	return nil
}

// leftOpen notes why schedules of a foreign service that broke nothing prove too little. A paused holder renews no
// lease: one whose TTL was seen has ended, and something else has kept the rival out.
func (l *lab) leftOpen(c Cell, played []Played) Cell {
	kept, longest, unsettled := 0, time.Duration(0), 0
	seen := len(l.leases) > 0 && !slices.ContainsFunc(l.leases, func(x rig.Lease) bool { return x.TTL == 0 })
	for _, p := range played {
		if p.keptOut > 0 && !l.ends && (!seen || c.Fault == api.Pause) {
			kept, longest = kept+1, max(longest, p.keptOut)
		}
		if p.unsettled {
			unsettled++
		}
	}
	if kept > 0 {
		c = c.untestedAs(text.Of("in %d of %d [schedule|schedules] the rival was kept out all the time, for up to %v: a "+
			"lease that is longer was not waited out; --lock-ttl says how long it is").With(kept, len(played),
			longest.Round(100*time.Millisecond)))
	}
	if unsettled > 0 {
		c = c.untestedAs(text.Of("after %d of %d [schedule|schedules] units were missing, and replicas work by themselves, "+
			"so that they may bring them back: --settle says how long that may take").With(unsettled, len(played)))
	}
	return c
}

// untestedAs adds a reason.
func (c Cell) untestedAs(why text.Text) Cell {
	if c.Untested != (text.Text{}) {
		why = text.Of("%s; %s").With(c.Untested, why)
	}
	c.Untested = why
	return c
}

// foreignMode describes a foreign service as a mode. Every fault that can happen to it has the claim Unclaimed.
func foreignMode(f *target.Foreign) api.Mode {
	claims := map[api.Hazard]api.Outcomes{}
	for _, x := range fault.Ladder {
		switch {
		case x.Name == api.Retry && f.WhyNoRetry() != (text.Text{}) && f.Cancel == nil:
		case x.Lane.Pair != "" && !f.UsesRedis(), x.Lane.Sweep, x.Lane.Consume, x.Name == api.Stale && !f.UsesMySQL():
		default:
			claims[x.Name] = Unclaimed
		}
	}
	return api.Mode{
		Name: target.ServiceName, Available: true, Needs: serversOf(f), Stores: []api.Store{""},
		Claims: map[api.Store]map[api.Hazard]api.Outcomes{"": claims},
	}
}

// untried returns the cells of the selected faults that cannot be played on the service at all.
func (l *lab) untried() []Cell {
	if l.o.Serve == nil || !selectedFault(l.o, fault.Retry) || l.o.Serve.WhyNoRetry() == (text.Text{}) ||
		l.o.Serve.Cancel != nil {
		return nil
	}
	return []Cell{{Mode: target.ServiceName, Fault: api.Retry, Claim: Unclaimed, Found: Untested,
		Untested: l.o.Serve.WhyNoRetry()}}
}

// gaps returns everything that was not played on a foreign service, with the reason; faults that share it stand
// together.
func (l *lab) gaps(cells []Cell) (all []Gap) {
	add := func(name api.Hazard, what, why text.Text) {
		i := slices.IndexFunc(all, func(g Gap) bool { return g.What == what && g.Why == why })
		if i < 0 {
			i, all = len(all), append(all, Gap{What: what, Why: why})
		}
		all[i].Faults = append(all[i].Faults, name)
	}
	if l.o.Serve == nil {
		return nil
	}
	for _, f := range fault.Ladder {
		i := slices.IndexFunc(cells, func(c Cell) bool { return c.Fault == f.Name })
		switch {
		case !selectedFault(l.o, f):
			add(f.Name, text.Text{}, text.Of("--fault does not name it"))
		case i < 0:
			add(f.Name, text.Text{}, whyNoGo(l.o.Serve, f))
		case cells[i].Found == api.NotApplicable && f.Name == api.Stale:
			add(f.Name, text.Text{}, text.Of("no read outside a transaction could be answered by a replica that lags behind"))
		case cells[i].Found == api.NotApplicable:
			add(f.Name, text.Text{}, text.Of("the request sends no command after its last write"))
		case cells[i].Untested != (text.Text{}):
			add(f.Name, text.Text{}, cells[i].Untested)
		}
		if f.Pairs && i >= 0 && !l.o.Pairs {
			add(f.Name, text.Of("with the rival held too"), text.Of("--pairs plays that"))
		}
		if f.Name == api.Retry && i >= 0 && cells[i].Tried > 0 {
			add(f.Name, text.Of("minutes after the first request"), text.Of("the lab repeats a request within seconds, and a "+
				"service that forgets its key after that sells it again"))
		}
	}
	return append(all, Gap{What: text.Of("the hazards of the second table (docs/matrix.md)"),
		Why: text.Of("they need lastitem's own tables, settings or lock names")})
}

// whyNoGo says why a fault that was selected has no cell.
func whyNoGo(s *target.Foreign, f fault.Fault) text.Text {
	switch {
	case f.Lane.Sweep:
		return text.Of("the lab does not know the service's reservations")
	case f.Lane.Consume:
		return text.Of("the lab does not know the service's queues")
	case f.Lane.Pair != "" && !s.UsesRedis():
		return text.Of("the service uses no Redis")
	case f.Name == api.Stale && !s.UsesMySQL():
		return text.Of("the service uses no MySQL")
	}
	return text.Of("the lab was stopped before")
}

// CheckFaults returns an error that names the first selected fault that cannot be played on the service, and why; nil =
// all can.
func CheckFaults(f *target.Foreign, selected []api.Hazard) error {
	can := foreignMode(f).Claims[""]
	for _, name := range selected {
		switch {
		case can[name] != "":
		case name == api.Retry:
			return text.Of("--fault retry needs --key-header, or {{key}} in --request: without a key the service cannot tell " +
				"a repeated request from a second order; --repeat-without-key shows what it then does").Errorf()
		case name == api.Failover:
			return text.Of("--fault failover needs a service that uses Redis").Errorf()
		case name == api.Stale:
			return text.Of("--fault stale needs a service that uses MySQL").Errorf()
		default:
			return text.Of("--fault %s needs lastitem's own tables, settings or lock names; on your own service the lab plays "+
				"%s").Errorf(name, faultList(slices.DeleteFunc(slices.Clone(fault.Ladder), func(x fault.Fault) bool {
				return x.Lane.Sweep || x.Lane.Consume
			})))
		}
	}
	return nil
}

// faultList returns the names of faults, separated by commas.
func faultList(faults []fault.Fault) string {
	var names []string
	for _, f := range faults {
		names = append(names, string(f.Name))
	}
	return strings.Join(names, ", ")
}
