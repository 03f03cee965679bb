package rig

import "strings"

// Equipment is what a lane has beside three replicas on the servers of all lanes. Two equal ones serve the same faults.
type Equipment struct {
	// Expiry gives locks a short TTL, for faults that wait for its end. Elsewhere it is so long that nothing ever expires.
	Expiry bool
	// Pair makes Redis a master with a replica of the lane's own; see [Lane.Failover].
	Pair bool
	// SQL makes the database one of the lane's own, durable, with more of its command line, "--NAME=value --NAME=value"; "" = the one of all
	// lanes.
	SQL string
	// Plain says that the replicas come into their own database by an account that may do nothing but use its schema.
	Plain bool
	// Own names Redis servers that the lane has for itself, "redis,redlock 3", and may kill, stop and empty. Those that the lab does
	// not have are left out. Conf is lines of their redis.conf, "maxmemory-policy allkeys-lru;appendonly yes".
	Own, Conf string
	// Settings are environment variables of the replicas, "NAME=value NAME=value"; they come after the lane's own. {{ttl}}
	// stands for the TTL of the lane's locks.
	Settings string
}

// String lists what is special, each after a comma.
func (e Equipment) String() string {
	var b strings.Builder
	if e.Expiry {
		b.WriteString(", locks that expire")
	}
	if e.Pair {
		b.WriteString(", Redis with a replica")
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
	for _, s := range strings.Fields(e.Settings) {
		b.WriteString(", " + s)
	}
	return b.String()
}
