package rig

import (
	"slices"
	"time"
)

// Silence is the longest time for which a process that was held, and not stopped, sent nothing that could be a renewal: nothing to any
// server but the database, apart from health checks. While a process renews a lock, that is about a third of the TTL. If it is most of a
// TTL, the lock expired because the process got no processor time, which proves nothing about the mode.
//
// A process that sent nothing while it was held has no watchdog, or does not know yet that it has the lock. Such a hold of A is not counted,
// unless renews says that A must have renewed its lock. That of a rival is: no fault holds a rival until its lock expires.
func (s *Scene) Silence(renews bool) time.Duration {
	sent := map[string][]time.Duration{}
	for _, a := range s.Lane.actors() {
		for _, c := range a.Calls(s.since) {
			if !c.Sent.IsZero() && !c.Setup && c.Name == "" && c.Server != Database {
				sent[a.Name] = append(sent[a.Name], c.Sent.Sub(s.began))
			}
		}
	}
	return silence(s.Events(), sent, renews)
}

// silence is [Scene.Silence] of a scene in which these things happened, and the actors sent at these times.
func silence(events []Event, sent map[string][]time.Duration, renews bool) (longest time.Duration) {
	type span struct{ from, to time.Duration }
	held := map[string][]span{}
	for _, e := range events {
		switch e.What {
		case Held:
			held[e.Actor] = append(held[e.Actor], span{from: e.At})
		case Passed:
			if all := held[e.Actor]; len(all) > 0 {
				all[len(all)-1].to = e.At
			}
		case Paused, Killed, Terminated:
			delete(held, e.Actor) // a stopped or dead process is not expected to renew
		}
	}
	for actor, spans := range held {
		at := slices.Sorted(slices.Values(sent[actor]))
		for _, h := range spans {
			last := h.from
			if actor == "A" && !renews && !slices.ContainsFunc(at, func(t time.Duration) bool { return t > h.from && t < h.to }) {
				continue
			}
			for _, t := range append(slices.Clone(at), h.to) {
				if t > last && t <= h.to {
					longest, last = max(longest, t-last), t
				}
			}
		}
	}
	return longest
}
