package main

import (
	"slices"
	"time"
)

// The kinds of work of a scenario's processes.
const (
	kindFree = "free" // acquire and release, each goroutine its own key
	kindHot  = "hot"  // acquire, read and write a counter in Redis, release; one key for all
	kindPark = "park" // wait for a lock that another process holds
	kindHold = "hold" // hold many locks

	kindCluster  = "cluster"  // as kindFree, on one master and on a cluster of three
	kindFailover = "failover" // as kindHot, while the master dies and its replica is promoted
)

// scenario is one measurement.
type scenario struct {
	name, title string
	kind        string
	processes   int
	goroutines  int           // of all processes together
	think       time.Duration // between a release and the next acquire
	delay       time.Duration // on the way to Redis, and again on the way back
	window      time.Duration // 0 = from the command line
	locks       int           // to hold
}

// counts reports whether a scenario only counts, without timing: then one round of all contenders together suffices.
func (s scenario) counts() bool { return s.kind == kindPark || s.kind == kindHold }

// loop is the kind of work that the workers do.
func (s scenario) loop() string {
	switch s.kind {
	case kindCluster:
		return kindFree
	case kindFailover:
		return kindHot
	}
	return s.kind
}

// suits reports whether a contender can take part: another process cannot hold a process mutex, and a bound is not
// renewed.
func (s scenario) suits(c contender) bool {
	if c.single != "" || s.kind == kindCluster {
		return s.kind == kindCluster && (c.single != "" || slices.ContainsFunc(contenders, func(o contender) bool {
			return o.single == c.name
		}))
	}
	switch s.kind {
	case kindFailover:
		return !c.alone && !c.hot
	case kindPark:
		return !c.alone && !c.hot && !c.foreign() // its commands are counted at the server, for all clients together
	case kindHold:
		return c.family != bound && !c.hot && !c.foreign()
	case kindFree:
		return !c.hot
	}
	return true
}

var scenarios = []scenario{
	{name: "free-1", title: "free lock, 1 goroutine", kind: kindFree, processes: 1, goroutines: 1},
	{name: "free-16", title: "free lock, 16 goroutines, each a key of its own", kind: kindFree, processes: 1,
		goroutines: 16},
	{name: "hot-16", title: "one hot key, 16 goroutines in one process", kind: kindHot, processes: 1, goroutines: 16},
	{name: "hot-64", title: "one hot key, 64 goroutines in one process", kind: kindHot, processes: 1, goroutines: 64},
	{name: "hot-16x4", title: "one hot key, 16 goroutines over 4 processes", kind: kindHot, processes: 4, goroutines: 16},
	{name: "hot-64x4", title: "one hot key, 64 goroutines over 4 processes", kind: kindHot, processes: 4, goroutines: 64},
	{name: "think-16x4", title: "one hot key, 16 goroutines over 4 processes, 1 ms of thinking before each acquire",
		kind:      kindHot,
		processes: 4, goroutines: 16, think: time.Millisecond},
	{name: "delay-16x4", title: "one hot key, 16 goroutines over 4 processes, Redis 1 ms away in each direction",
		kind:      kindHot,
		processes: 4, goroutines: 16, delay: time.Millisecond},
	// The engine polls for its waiters every two seconds: the window covers several polls.
	{name: "park-64", title: "64 goroutines of one process wait for a lock that another process holds", kind: kindPark,
		processes: 1, goroutines: 64, window: 10 * time.Second},
	// Renewals come every third or half of the TTL: a window of one TTL holds a whole number of both.
	{name: "hold-5000", title: "one process holds 5000 locks, TTL 30 s", kind: kindHold, processes: 1, goroutines: 16,
		locks: 5000, window: leaseTTL},
	{name: "cluster-64", title: "free locks on one master and on a cluster of three, 64 goroutines, each a key of its own",
		kind:      kindCluster,
		processes: 1, goroutines: 64},
	{name: "failover-16x4", title: "one hot key, 16 goroutines over 4 processes; the master is killed, and after 0.5 s " +
		"its replica is promoted",
		kind: kindFailover, processes: 4, goroutines: 16, window: 6 * time.Second},
}

// strikeAt is how long after the beginning of its window a failover strikes.
const strikeAt = time.Second

// leaseTTL is the TTL of every contender's locks.
const leaseTTL time.Duration = 30 * time.Second

// lead is how long a window runs before its counting begins.
const lead = 150 * time.Millisecond
