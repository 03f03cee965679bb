package gear

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lastitem/stack"
)

// firstProduct is the product of lane 0; each lane has its own product.
const firstProduct = 1001

// Place is where the gear of a lane stands: the lane's number, its links to the servers, and the wires of its replicas.
type Place struct {
	Number int           // unique among the lanes, and less than Options.Lanes
	TTL    time.Duration // of the locks that have one
	Stack  *stack.Stack
	// Warm is the mode and store whose requests all replicas have served; "" = none, or a server or a replica was started
	// again since.
	Warm string

	alone bool // the lane's Redis has no other lane's keys
	links []link
	wires []*Wires
}

// Product returns the product of the lane.
func (p *Place) Product() int64 { return firstProduct + int64(p.Number) }

// prefix is the common prefix of the lane's lock names, as the shop's environment sets it; all keys of the lane begin
// with the part before LockPrefix, see space.
func (p *Place) prefix() string { return p.space() + LockPrefix }

// space returns the prefix of all keys of the lane.
func (p *Place) space() string { return fmt.Sprintf("lane%d:", p.Number) }

// LockPrefix begins the name of a lock, after the lane's own prefix.
const LockPrefix = "lock:"

// linkTo returns the lane's link to a server; nil = it has none.
func (p *Place) linkTo(server string) *link {
	i := slices.IndexFunc(p.links, func(x link) bool { return x.server == server })
	if i < 0 {
		return nil
	}
	return &p.links[i]
}

// Direct returns the addresses of the servers themselves, by the variable that tells a replica about them.
func (p *Place) Direct() map[string]string {
	urls := map[string]string{}
	for _, link := range p.links {
		urls[link.env] = link.at(link.addr, p.Number)
	}
	return urls
}

// NewWires returns the proxies of a replica. [Wires.Close] ends them.
func (p *Place) NewWires(replica string) (*Wires, error) {
	w, err := newWires(replica, p.Number, p.links)
	if err == nil {
		p.wires = append(p.wires, w)
	}
	return w, err
}

// turn makes all replicas reach a server at an address.
func (p *Place) turn(server, addr string) {
	for _, w := range p.wires {
		w.proxies[server].Turn(addr)
	}
}

// clock returns a clock for one of the lane's own servers; nil = the equipment has no clocks.
func (p *Place) clock(ctx context.Context, e Equipment, name string) (*stack.Clock, error) {
	if !e.Clock {
		return nil, nil //nolint:nilnil // nil = the machine's clock
	}
	return p.Stack.NewClock(ctx, name)
}

// polling is the time between two checks of a condition.
const polling = time.Millisecond

// Until waits for a condition until ctx ends.
func Until(ctx context.Context, what string, is func() bool) error {
	for !is() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("faultlab: waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(polling):
		}
	}
	return nil
}
