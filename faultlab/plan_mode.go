package faultlab

import (
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/stack"
)

// renews says whether a mode renews its lock while it works: it claims to survive slow work.
func renews(m api.Mode, s api.Store) bool { return m.Claims[s][api.Slow] == api.Exact }

// hasSession says whether the mode needs a service other than Redis and SQL.
func hasSession(m api.Mode) bool { return slices.ContainsFunc(m.Needs, isService) }

// setting is how the product is set for the mode: with one segment if the mode needs segments, so that all requests
// meet in the same one.
func setting(m api.Mode) api.SetStock {
	to := m.Setting(0)
	to.Segments = min(to.Segments, 1)
	return to
}

// reserveFirst says whether a schedule begins with a reservation, see rig.Ask: a mode that computes the stock, and no
// other that holds units, is broken by two requests.
func reserveFirst(m api.Mode, s api.Store) bool {
	return m.Reserves && m.Claims[s][api.Threads] != api.Exact
}

// perBuyer returns the limit of the product: one if the mode breaks a limit, or the request is about one, else none.
func perBuyer(m api.Mode, about rig.About) int64 {
	if m.BreaksLimit() || about.Limited {
		return 1
	}
	return 0
}

// slow reports whether a lock of the mode outlives its holder for very long (Consul's session: twice ten seconds, and
// the lock-delay). Random schedules of such a mode are drawn only on request.
func slow(m api.Mode) bool { return slices.Contains(m.Needs, stack.Consul) }

// isService says that a backend is neither Redis nor SQL.
func isService(backend string) bool {
	return !slices.Contains([]string{"redis", "sql", "mysql", "redlock"}, backend)
}

// outlive is how long a lock of the mode may outlive its holder: the TTL of the lane, or what its service's sessions
// need.
func outlive(m api.Mode, ttl time.Duration) time.Duration {
	longest := 2 * ttl
	for _, need := range m.Needs {
		switch need {
		case "etcd":
			longest = max(longest, 4*time.Second)
		case "zookeeper":
			longest = max(longest, 2*time.Second)
		case "consul":
			longest = max(longest, 45*time.Second) // twice the session's TTL, the lock-delay, and some delay of the agent
		}
	}
	return longest
}
