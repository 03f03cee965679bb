package stepper

import (
	"context"
	"fmt"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
)

// Lesson is a mode that the reader tries to break.
type Lesson struct {
	Name  string    `json:"name"` // as it appears in addresses
	Mode  string    `json:"mode"`
	Store api.Store `json:"store"`
	Stock int64     `json:"stock"`
	Title text.Text `json:"title"`
	// Story describes the mode, Aim the state of the stores that wins the lesson, and Moral what the lesson teaches.
	Story text.Text `json:"story"`
	Aim   text.Text `json:"aim"`
	Hint  text.Text `json:"hint"`
	Moral text.Text `json:"moral"`
	// Way is a schedule that reaches the aim; "" = no schedule does, and the lesson teaches just that.
	Way string `json:"way"`
	// Asks is what A and B ask for, of a reservation of the last unit that was made before; nil = each wants to buy.
	Asks []rig.Kind `json:"asks,omitempty"`

	// Consumers are the letters of the clients that write orders and do not buy. Event is what the move x does in a
	// lesson about tickets.
	Consumers string    `json:"consumers,omitempty"`
	Event     text.Text `json:"event"`

	splits    bool // a replica answers reads outside transactions
	event     func(context.Context, *play, *Step) (possible bool, err error)
	equipment gear.Equipment // of its lane
	leaks     int64          // units that Redis has lost, beside the ticket that is in flight
	renews    bool           // the mode renews its locks while its process runs
	reached   func(*play) bool
}

// named returns the lesson with a name.
func named(name string) (Lesson, bool) {
	i := slices.IndexFunc(lessons, func(l Lesson) bool { return l.Name == name })
	if i < 0 {
		return Lesson{}, false
	}
	return lessons[i], true
}

// lock returns the name of the key with the lock of the lesson's mode.
func (l Lesson) lock(lane *rig.Lane) string {
	return fmt.Sprintf("lock:%s:{%d}", l.Mode, lane.Product())
}

// lag is the event of a lesson: from now on the replica applies nothing or, the next time, all that it has missed.
func lag(ctx context.Context, p *play, _ *Step) (possible bool, err error) {
	if p.lags = !p.lags; p.lags {
		return true, p.replica.Lag(ctx)
	}
	return true, p.replica.CatchUp(ctx)
}

// oversold is an aim: more units are ordered than there were.
func oversold(p *play) bool { return int64(len(p.orders)) > p.lesson.Stock }

// charged is an aim: one request of a client, sent twice, has become two orders.
func charged(p *play) bool { return p.most() > 1 }

// returned is an aim: more units are in stock than there were.
func returned(p *play) bool { return p.stock > p.lesson.Stock }

// promised is an aim: more units are ordered and held than there were.
func promised(p *play) bool { return int64(len(p.orders)+p.stores.held()) > p.lesson.Stock }

// stolen is an aim: a client has deleted the other client's lock while the other client's request is in flight.
func stolen(p *play) bool { return p.foreign }

// shut is an aim: the holder of a lock without a TTL is dead, stock is left, and the other client was refused.
func shut(p *play) bool {
	i := slices.IndexFunc(p.stores.Redis, func(k gear.Key) bool { return k.Name == p.lesson.lock(p.lane) && k.TTL < 0 })
	if i < 0 || p.stock == 0 {
		return false
	}
	owner := p.client(p.owners[p.stores.Redis[i].Name])
	return owner != nil && owner.phase == Dead && slices.ContainsFunc(p.clients, func(c *client) bool {
		return c != owner && c.phase == Answered && c.request.Op().Code == api.LockBusy
	})
}
