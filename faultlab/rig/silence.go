package rig

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
	"lastitem/stack/wire"
)

// Silence bounds the time for which a lock of a process that was held, and not stopped, may have gone without a
// renewal: the longest time from one request that could be a renewal to the answer of the next. While a process renews
// a lock, that is about a third of the TTL. If it is most of a TTL, the lock expired because a process got no processor
// time, which proves nothing about the mode.
//
// services are those on which the lock is, by the names of stack; of a lock on several servers, a majority must be
// renewed. Requests to other servers renew no lock: a process may keep a session with ZooKeeper alive, for another
// mode, while its lock in Redis expires. See [keeps] for the others. A's lock may have expired before A was held, so
// its silence begins when it asked; that of a rival, which may have waited for its turn, begins with the last request
// before the hold.
//
// A process that sent nothing while it was held has no watchdog, or does not know yet that it has the lock, or gives it
// up. Such a hold of A is not counted, unless the mode renews its locks, and A had the lock: a command on the lock had
// been answered, and it was another command that was held. That of a rival is: no fault holds a rival until its lock
// expires.
func (s *Scene) Silence(services []string, renews bool) time.Duration {
	asked := map[string]map[string][]span{}
	for _, a := range s.Lane.actors() {
		asked[a.Name] = renewals(a.Calls(s.since), a.Servers(services...), s.began)
	}
	return silence(s.Events(), asked, renews)
}

// renewals returns, for each of the servers, the calls that may have renewed a lock. ZooKeeper's client sends pings for
// each of its sessions, on a connection of its own; only those of a session that has named a lock count, and not those
// of the health check.
func renewals(calls []wire.Call, servers []string, began time.Time) map[string][]span {
	named := map[int64]bool{} // connections
	for _, c := range calls {
		named[c.Conn] = named[c.Conn] || strings.Contains(c.Pattern, gear.LockPrefix)
	}
	all := map[string][]span{}
	for _, server := range servers {
		all[server] = nil
	}
	for _, c := range calls {
		r, may := keeps(c, began)
		if before, ours := all[c.Server]; may && ours && (c.Server != stack.ZooKeeper || named[c.Conn]) {
			all[c.Server] = append(before, r)
		}
	}
	return all
}

// keeps reports whether a call may have renewed a lock or the session that a lock needs, and when in the scene it did.
// In etcd and Consul only a keep-alive does; in ZooKeeper every request on the session's connection does; elsewhere
// every request does but health checks. A command without an answer has not, as far as its holder knows: the holder
// gives the lock up. Only the keep-alives of etcd are a stream, which need not answer each message.
func keeps(c wire.Call, began time.Time) (at span, may bool) {
	at = span{from: c.Sent.Sub(began), lock: strings.Contains(c.Pattern, gear.LockPrefix), session: true}
	answered := c.Answered
	switch c.Server {
	case stack.Etcd:
		may = strings.HasSuffix(c.Pattern, "LeaseKeepAlive")
		if answered.IsZero() {
			answered = c.Sent
		}
	case stack.Consul:
		may = strings.Contains(c.Pattern, "/v1/session/renew/")
	case stack.ZooKeeper:
		may = true
	default:
		may, at.session = !c.Setup && c.Name == "", false
	}
	at.to = answered.Sub(began)
	return at, may && !c.Sent.IsZero() && !answered.IsZero()
}

// span is a time in a scene: that of a hold, or of a request until its answer.
type span struct {
	from, to time.Duration
	lock     bool // the command that is held or requested names the lock
	session  bool // the request keeps a session alive, on which every lock of the process depends
}

// hold is the time for which a command was held. asked is when the client sent its request: since then A may have had
// the lock.
type hold struct {
	span
	asked time.Duration
}

// silence is [Scene.Silence] of a scene in which these things happened, with the requests of each actor to each of the
// lock's servers.
func silence(events []Event, asked map[string]map[string][]span, renews bool) (longest time.Duration) {
	held, last := map[string][]hold{}, map[string]time.Duration{}
	for _, e := range events {
		switch e.What {
		case Asked, Reserves, Pays, Cancels, Ships:
			last[e.Actor] = e.At
		case Held:
			h := hold{span{from: e.At, lock: strings.Contains(e.Text, gear.LockPrefix)}, e.At}
			if at, known := last[e.Actor]; known && e.Actor == "A" {
				h.asked = at
			}
			held[e.Actor] = append(held[e.Actor], h)
		case Passed:
			if all := held[e.Actor]; len(all) > 0 {
				all[len(all)-1].to = e.At
			}
		case Paused, Killed, Terminated:
			delete(held, e.Actor) // a stopped or dead process is not expected to renew
		}
	}
	for actor, holds := range held {
		for _, h := range holds {
			if gap, renewed, acquired := h.silence(asked[actor]); renewed || renews && acquired && !h.lock || actor != "A" {
				longest = max(longest, gap)
			}
		}
	}
	return longest
}

// silence returns the longest time without a renewal until the end of h, whether there was a renewal while h lasted,
// and whether a command on the lock had been answered before. Of several servers, it is the longest time that a
// majority of them did not exceed.
func (h hold) silence(asked map[string][]span) (longest time.Duration, renewed, acquired bool) {
	var gaps []time.Duration
	for _, requests := range asked {
		gap, sent := h.gap(requests)
		gaps, renewed = append(gaps, gap), renewed || sent
		acquired = acquired || slices.ContainsFunc(requests, func(r span) bool { return r.lock && r.to <= h.from })
	}
	if len(gaps) == 0 {
		return 0, false, false // there is no such server
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], renewed, acquired
}

// gap returns the longest time from a request to the answer of the next one, until the end of h, and whether there was
// a request while h lasted. If some requests name the lock, the others renew nothing.
func (h hold) gap(requests []span) (longest time.Duration, sent bool) {
	named := slices.ContainsFunc(requests, func(r span) bool { return r.lock })
	last, known := h.from, false
	for _, r := range slices.SortedFunc(slices.Values(requests), func(a, b span) int {
		return cmp.Compare(a.from, b.from)
	}) {
		switch {
		case named && !r.lock && !r.session || r.from >= h.to:
		case r.from <= h.asked: // a lock that is younger than the request began with another one
			if r.session || h.asked == h.from {
				last, known = r.from, true
			}
		default:
			if known {
				longest = max(longest, min(r.to, h.to)-last)
			} else if r.from > h.from {
				longest = max(longest, min(r.to, h.to)-h.from)
			}
			last, known, sent = r.from, true, sent || r.from > h.from
		}
	}
	return max(longest, h.to-last), sent
}
