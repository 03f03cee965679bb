package gear

import (
	"context"
	"slices"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
)

// Sweeping ends overdue reservations, and Consuming writes the orders of tickets: a turn of it begins with a read.
var (
	Sweeping = Work{
		Database: func(c wire.Call) bool {
			return strings.HasPrefix(c.Pattern, "SELECT id, expires_us FROM reservation ")
		},
		stack.Redis: func(c wire.Call) bool { return strings.HasPrefix(c.Pattern, "SMEMBERS ") },
	}
	Consuming = Work{stack.Redis: func(c wire.Call) bool {
		return strings.Contains(c.Pattern, "Hands a consumer the next tickets of a product")
	}}
)

// Turn lets the replica's turns of a work go on, if they are parked, and parks the next ones, one of each store: they
// are held before their first call. So a replica works by itself only when the lab says so.
func (w *Wires) Turn(work Work) {
	before := w.parked
	w.parked, w.work = nil, work
	for server, first := range work {
		if p := w.proxies[server]; p != nil {
			w.parked = append(w.parked, p.Add(wire.Rule{Match: first, Every: true}))
		}
	}
	w.began = wire.LastID()
	for _, turn := range before {
		turn.Pass()
	}
}

// Began is the number of a call: those with a higher one came after the last turn had been let go.
func (w *Wires) Began() int64 { return w.began }

// Rests says whether the replica's turns are over, and the next ones parked.
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

// Rest returns when the replica's turn is over.
func (w *Wires) Rest(ctx context.Context) error {
	return Until(ctx, "a turn of "+w.replica, w.Rests)
}

// Unanswered returns the calls that a server has not answered or not received yet, without parked turns.
func (w *Wires) Unanswered() []wire.Call {
	var all []wire.Call
	for _, p := range w.proxies {
		all = append(all, p.Unanswered()...)
	}
	return slices.DeleteFunc(all, w.besides)
}
