package gear

import (
	"strconv"
	"strings"
)

// Equipment lists what a lane has besides its three replicas and the shared servers. Lanes with equal equipment can
// play the same faults.
type Equipment struct {
	// Expiry gives locks a short TTL, for faults that wait until a lock expires. Otherwise the TTL is so long that no lock
	// expires.
	Expiry bool
	// Pair names a Redis server, "redis" or "redlock 3", that is the lane's own and a master with replicas; see
	// [Pair.Failover]. "" = none. Replicas is their number, 0 = one. Sentinel makes a redis-sentinel watch them; see
	// [Pair.AwaitSwitch].
	Pair     string
	Replicas int
	Sentinel bool
	// SQL gives the lane its own durable database; the text is added to the command line, "--NAME=value --NAME=value". ""
	// = the shared database.
	SQL string
	// Plain makes the replicas use an account that has privileges on its schema only, in the lane's own database.
	Plain bool
	// Own names the Redis servers that the lane does not share, "redis,redlock 3"; it may kill, stop and empty them.
	// Servers that the lab did not start are left out. Conf is added to their redis.conf and to that of the Pair,
	// "maxmemory-policy allkeys-lru;appendonly yes".
	Own, Conf string
	// Clock gives each of the lane's own servers a wall clock that can be set; see [Clocks.Jump]. It needs a C compiler.
	Clock bool
	// Nginx puts an nginx in front of A and B: [Resends] or [SendsOnce]; see [Edge]. "" = none.
	Nginx string
	// Sweep has A and C end overdue reservations, and Consume has them write the orders of tickets; B does not. They do it
	// when the lab says so, see [Wires.Turn]. A lane has one of the two at most. With Everyone B does too.
	Sweep, Consume, Everyone bool
	// Settings are environment variables of the replicas, "NAME=value NAME=value"; they override the lane's own. {{ttl}}
	// stands for the TTL of the lane's locks.
	Settings string
}

// String lists the parts of the equipment, each after a comma: ", Redis with a replica". "" = none.
func (e Equipment) String() string {
	var b strings.Builder
	if e.Expiry {
		b.WriteString(", locks that expire")
	}
	if e.Pair != "" {
		b.WriteString(", " + e.Pair + " with " + strconv.Itoa(max(e.Replicas, 1)) + " replica(s)")
	}
	if e.Sentinel {
		b.WriteString(" and a sentinel")
	}
	if e.SQL != "" {
		b.WriteString(", a database of their own")
	}
	if e.Own != "" {
		b.WriteString(", a lock server of their own")
	}
	if e.Conf != "" {
		b.WriteString(" (" + strings.ReplaceAll(e.Conf, ";", ", ") + ")")
	}
	if e.Clock {
		b.WriteString(", with a clock that can be set")
	}
	if e.Nginx != "" {
		b.WriteString(", an nginx that " + strings.ReplaceAll(e.Nginx, "-", " "))
	}
	if e.Sweep {
		b.WriteString(", two that sweep")
	}
	if e.Consume {
		b.WriteString(", " + map[bool]string{false: "two", true: "three"}[e.Everyone] + " that write the orders of tickets")
	}
	for _, s := range strings.Fields(e.Settings) {
		b.WriteString(", " + s)
	}
	return b.String()
}

// conf returns the lines of Conf.
func (e Equipment) conf() []string {
	if e.Conf == "" {
		return nil
	}
	return strings.Split(e.Conf, ";")
}
