package gear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// Wires are the proxies of one replica, one before each of its servers.
type Wires struct {
	replica string // "A", "B", "C"
	lane    int
	links   []link
	proxies map[string]*wire.Proxy // by server
	holds   []*wire.Hold           // until Release
	work    Work                   // what the replica does by itself; nil = nothing
	parked  []*wire.Hold           // its next turns, see Turn
	began   int64                  // see Began
	turned  bool                   // some proxy leads to another server than its own
	parted  bool                   // cut off from some server, see Part
}

func newWires(replica string, lane int, links []link) (*Wires, error) {
	w := &Wires{replica: replica, lane: lane, links: links, proxies: map[string]*wire.Proxy{}}
	for _, link := range links {
		p, err := wire.NewProxy(link.server, link.addr, link.codec)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.proxies[link.server] = p
	}
	return w, nil
}

// named returns a codec whose patterns have {product} for the name of a lane's product, as each lane has another.
func named(c wire.Codec, product string) wire.Codec {
	name := codec.Key(product)
	if strings.Trim(name, "#*") == "" { // numbers and tokens are the same in all patterns
		return c
	}
	begin := c.Begin
	c.Begin = func() wire.Session { return naming{begin(), name} }
	return c
}

type naming struct {
	wire.Session
	name string
}

// Command makes naming a [wire.Session].
func (s naming) Command(p []byte) (wire.Message, error) {
	m, err := s.Session.Command(p)
	if m.Command != nil {
		m.Command.Pattern = strings.ReplaceAll(m.Command.Pattern, s.name, "{product}")
	}
	return m, err
}

// Close ends the proxies.
func (w *Wires) Close() {
	for _, p := range w.proxies {
		p.Close()
	}
}

// URLs returns the addresses of the proxies, by the variable that tells the replica about the server.
func (w *Wires) URLs() map[string]string {
	urls := map[string]string{}
	for _, link := range w.links {
		to := link.at(w.proxies[link.server].Addr, w.lane)
		if before := urls[link.env]; before != "" {
			to = before + "," + to
		}
		urls[link.env] = to
	}
	return urls
}

// Servers returns the names of the replica's servers: all of them, or those of some services, by the names of stack,
// with all nodes of a service.
func (w *Wires) Servers(services ...string) (names []string) {
	for name := range w.proxies {
		if services == nil || slices.ContainsFunc(services, func(s string) bool {
			return name == s || strings.HasPrefix(name, s+" ")
		}) {
			names = append(names, name)
		}
	}
	return names
}

// Calls returns the calls that passed the proxies after the call with the given number, in the order in which they were
// sent, without those of a replica that watches for a turn of its own.
func (w *Wires) Calls(since int64) []wire.Call {
	var all []wire.Call
	for _, p := range w.proxies {
		all = append(all, p.Since(since)...)
	}
	if w.consumes() {
		all = slices.DeleteFunc(all, w.besides)
	}
	slices.SortFunc(all, func(x, y wire.Call) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// Forget drops the calls up to a number.
func (w *Wires) Forget(last int64) {
	for _, p := range w.proxies {
		p.Forget(last)
	}
}

// Err returns the errors of proxies that could not read a connection, as with TLS or compression: they cannot have held
// its commands.
func (w *Wires) Err() error {
	var errs []error
	for _, p := range w.proxies {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// Add adds a rule to the proxy before a server, until [Wires.Release].
func (w *Wires) Add(server string, r wire.Rule) (*wire.Hold, error) {
	proxy := w.proxies[server]
	if proxy == nil {
		return nil, fmt.Errorf("faultlab: %s has no server %q", w.replica, server)
	}
	hold := proxy.Add(r)
	w.holds = append(w.holds, hold)
	return hold, nil
}

// HoldMessage holds the next pub/sub message that the server sends to the replica.
func (w *Wires) HoldMessage(server string) (*wire.Hold, error) {
	return w.Add(server, wire.Rule{Push: true, Match: func(c wire.Call) bool {
		return strings.Contains(c.Pattern, "MESSAGE ")
	}})
}

// Release takes back every rule of a schedule that has ended, however it ended.
func (w *Wires) Release() {
	for _, h := range w.holds {
		h.Cancel()
	}
	w.holds = nil
}

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// Lose makes servers unreachable for the replica, until the lane is reset.
func (w *Wires) Lose(servers ...string) {
	for _, name := range servers {
		w.proxies[name].Turn(nowhere)
		w.turned = true
	}
}

// Part cuts the replica off from servers, including all nodes of a service: the proxies silently drop everything in
// both directions. A call with on = false, or the next reset of the lane, ends the partition.
func (w *Wires) Part(on bool, servers ...string) {
	for _, name := range w.Servers(servers...) {
		w.proxies[name].Sever(on)
		w.parted = on
	}
}

// reset ends what a schedule has done to the wires; the proxy before the server except stays as it is.
func (w *Wires) reset(except string) {
	w.Release()
	for _, link := range w.links {
		if w.turned && link.server != except {
			w.proxies[link.server].Turn(link.addr)
		}
		if w.parted {
			w.proxies[link.server].Sever(false)
		}
	}
	w.turned, w.parted = false, false
}

// Discard drops what the replica, which is dead, had sent and the proxies have not delivered, and waits until the
// servers have ended its sessions.
func (w *Wires) Discard(ctx context.Context) error {
	for server, p := range w.proxies {
		if err := p.Discard(ctx); err != nil {
			return fmt.Errorf("faultlab: the sessions of %s with %s: %w", w.replica, server, err)
		}
	}
	return nil
}

// Work is what a replica does by itself, in turns: for each store, whether a call is the one with which a turn begins.
type Work map[string]func(wire.Call) bool

// Watches says whether a consumer asks with a call whether there is anything to read. That is no part of a turn.
func Watches(c wire.Call) bool {
	return c.Server == stack.Redis && (c.Pattern == "SCAN" || strings.HasPrefix(c.Pattern, "XLEN ") ||
		strings.Contains(c.Pattern, ":ticketing"))
}

// besides says that a call belongs to nothing that goes on: it begins a parked turn, or watches for one.
func (w *Wires) besides(c wire.Call) bool {
	first := w.work[c.Server]
	return c.Sent.IsZero() && first != nil && first(c) || w.consumes() && Watches(c)
}

func (w *Wires) consumes() bool { return w.work != nil && w.work[Database] == nil }
