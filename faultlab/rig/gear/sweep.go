package gear

import (
	"context"
	"slices"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// begins says of each store whether a call is the one with which a sweep of it begins.
var begins = map[string]func(wire.Call) bool{
	Database: func(c wire.Call) bool {
		return strings.HasPrefix(c.Pattern, "SELECT id, expires_us FROM reservation ")
	},
	stack.Redis: func(c wire.Call) bool { return strings.HasPrefix(c.Pattern, "SMEMBERS ") },
}

// Sweep lets the replica's sweeps go on, if they are parked, and parks the next ones, one of each store: they are held
// before they look for overdue reservations. So a replica that sweeps does so only when the lab says so.
func (w *Wires) Sweep() {
	before := w.parked
	w.parked = nil
	for server, first := range begins {
		if p := w.proxies[server]; p != nil {
			w.parked = append(w.parked, p.Add(wire.Rule{Match: first, Every: true}))
		}
	}
	w.swept = wire.LastID()
	for _, sweep := range before {
		sweep.Pass()
	}
}

// Swept is the number of a call: those with a higher one came after the last sweep had been let go.
func (w *Wires) Swept() int64 { return w.swept }

// Rests says whether the replica's sweeps are over.
func (w *Wires) Rests() bool {
	return !slices.ContainsFunc(w.parked, func(next *wire.Hold) bool {
		select {
		case <-next.Reached():
			return false
		default:
			return true
		}
	})
}

// Rest returns when the replica's sweep is over.
func (w *Wires) Rest(ctx context.Context) error {
	return Until(ctx, "a sweep of "+w.replica, w.Rests)
}

// Unanswered returns the calls that a server has not answered or not received yet, without a parked sweep.
func (w *Wires) Unanswered() []wire.Call {
	var all []wire.Call
	for _, p := range w.proxies {
		all = append(all, p.Unanswered()...)
	}
	return slices.DeleteFunc(all, func(c wire.Call) bool {
		first := begins[c.Server]
		return c.Sent.IsZero() && first != nil && first(c)
	})
}
