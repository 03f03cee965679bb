package rig

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lastitem/internal/wire"
)

// Silence bounds the time for which a lock of a process that was held, and not stopped, may have gone without a renewal: the longest time from
// one request that could be a renewal to the answer of the next. Such requests are all that the lock's server answered, apart from health checks;
// the last one before the hold counts, since it may have acquired the lock. Requests to other servers renew no lock: a process may keep a session
// with ZooKeeper alive, for another mode, while its lock in Redis expires. Of a lock on several servers, a majority must be renewed. While a process
// renews a lock, the silence is about a third of the TTL. If it is most of a TTL, the lock expired because a process got no processor time, which
// proves nothing about the mode.
//
// services are those on which the lock is, by the names of localstack. A process that sent them nothing while it was held has no watchdog, or does
// not know yet that it has the lock, or gives it up. Such a hold of A is not counted, unless the mode renews its locks, and A had the lock: a command
// on the lock had been answered, and it was another command that was held. That of a rival is: no fault holds a rival until its lock expires.
func (s *Scene) Silence(services []string, renews bool) time.Duration {
	asked := map[string]map[string][]span{}
	for _, a := range s.Lane.actors() {
		byServer := map[string][]span{}
		for _, server := range a.servers(services) {
			byServer[server] = nil
		}
		for _, c := range a.Calls(s.since) {
			r, may := mayRenew(c, s.began)
			if all, ours := byServer[c.Server]; may && ours {
				byServer[c.Server] = append(all, r)
			}
		}
		asked[a.Name] = byServer
	}
	return silence(s.Events(), asked, renews)
}

// mayRenew reports whether a call may have renewed a lock, and when in the scene it did. A command without an answer has not, as far as its
// holder knows: the holder gives the lock up. What keeps a session alive may be a stream, which has no answer to each message.
func mayRenew(c wire.Call, began time.Time) (at span, may bool) {
	answered := c.Answered
	if c.Poll && answered.IsZero() {
		answered = c.Sent
	}
	may = !c.Sent.IsZero() && !answered.IsZero() && !c.Setup && c.Name == ""
	return span{c.Sent.Sub(began), answered.Sub(began), strings.Contains(c.Pattern, lockPrefix)}, may
}

// span is a time in a scene: that of a hold, or of a request until its answer.
type span struct {
	from, to time.Duration
	lock     bool // the command that is held or requested names the lock
}

// silence is [Scene.Silence] of a scene in which these things happened, with the requests of each actor to each of the lock's servers.
func silence(events []Event, asked map[string]map[string][]span, renews bool) (longest time.Duration) {
	held := map[string][]span{}
	for _, e := range events {
		switch e.What {
		case Held:
			held[e.Actor] = append(held[e.Actor], span{from: e.At, lock: strings.Contains(e.Text, lockPrefix)})
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

// silence returns the longest time without a renewal while h lasted, whether there was a renewal at all, and whether a command on the lock had been
// answered before h began. Of several servers, it is the longest time that a majority of them did not exceed.
func (h span) silence(asked map[string][]span) (longest time.Duration, renewed, acquired bool) {
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

// gap returns the longest time from a request to the answer of the next one while h lasted, and whether there was a request at all.
func (h span) gap(requests []span) (longest time.Duration, sent bool) {
	last := h.from
	for _, r := range slices.SortedFunc(slices.Values(requests), func(a, b span) int { return cmp.Compare(a.from, b.from) }) {
		switch {
		case r.from <= h.from:
			last = r.from
		case r.from < h.to:
			longest, last, sent = max(longest, min(r.to, h.to)-last), r.from, true
		}
	}
	return max(longest, h.to-last), sent
}
