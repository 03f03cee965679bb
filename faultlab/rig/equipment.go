package rig

import "strings"

// Equipment is what a lane has besides three replicas on the shared servers. Lanes with equal equipment can play the same faults.
type Equipment struct {
	// Expiry gives locks a short TTL, for faults that wait until a lock expires. Otherwise the TTL is so long that no lock expires.
	Expiry bool
	// Pair makes Redis a master with a replica of the lane's own; see [Lane.Failover].
	Pair bool
	// SQL gives the lane a durable database of its own; the text is added to its command line, "--NAME=value --NAME=value". "" = the shared
	// database.
	SQL string
	// Plain makes the replicas use an account of the lane's own database that has privileges on its schema only.
	Plain bool
	// Own names the Redis servers that the lane gets for itself, "redis,redlock 3", and may kill, stop and empty. Servers that the lab
	// did not start are left out. Conf is added to their redis.conf, "maxmemory-policy allkeys-lru;appendonly yes".
	Own, Conf string
	// Clock gives each server of the lane's own a wall clock that can be set; see [Lane.Jump]. It needs a C compiler.
	Clock bool
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
	if e.Clock {
		b.WriteString(", with a clock that can be set")
	}
	for _, s := range strings.Fields(e.Settings) {
		b.WriteString(", " + s)
	}
	return b.String()
}
