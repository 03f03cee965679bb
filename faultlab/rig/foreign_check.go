package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/target"
)

// Try makes one purchase at each replica, without any fault. If the lab cannot test the service, the error names the
// option to change.
func Try(ctx context.Context, l *Lane, f *target.Foreign) error {
	if err := l.idle(ctx, settling); err != nil {
		return err
	}
	for _, a := range l.actors() {
		if err := l.set(ctx, Ask{Stock: Stock}); err != nil {
			return err
		}
		since, began := wire.LastID(), time.Now()
		r := remote(f, Site{Set: l.Set, URL: a.URL})
		r.Watch = func(step string, _ target.Call, _ target.Reply, _ map[string]string) {
			if step == string(Cancel) || step == string(Ship) {
				began = time.Now() // the last purchase, whose order stands, comes after them
			}
		}
		err := r.Try(ctx, l.Product(), Stock, 1, workWithin)
		if err == nil {
			err = seen(a, since)
		}
		if err == nil {
			err = named(ctx, l, r)
		}
		if err != nil {
			return fmt.Errorf("faultlab: %w%s%s", err, refusals(a), lastWords(a))
		}
		if reply, _, _ := r.Tried(l.Product()); l.Service.Promised(reply) || l.helped(a, since) {
			l.Service.learnt.suspect(time.Since(began))
		}
	}
	if f.Refused.Body == "" && l.Service.learnt.rest() == 0 { // it refuses in its answer
		empty(ctx, l, f)
	}
	return l.set(ctx, Ask{Stock: Stock})
}

// empty learns what the service answers at a stock of zero, if it can be set and refuses: a rival that is turned away
// may be told so by the same status.
func empty(ctx context.Context, l *Lane, f *target.Foreign) {
	if l.set(ctx, Ask{Stock: 0}) != nil {
		return
	}
	key := fmt.Sprintf("lab-%d-zero-%d", l.Number, time.Now().UnixNano())
	ask := target.Ask{Product: l.Product(), Quantity: 1, Key: key}
	if r, said, err := f.Once(ctx, ask, via(ctx, l.client, l.A.URL)); err == nil && said.Outcome == judge.Refused {
		l.Service.learnt.emptied(r)
	}
}

// seen returns an error if no command of the request passed the actor's proxies.
func seen(a *Actor, since int64) error {
	if slices.ContainsFunc(a.Calls(since), func(c wire.Call) bool { return !c.Setup && !c.Poll }) {
		return nil
	}
	return errors.New("the request was served, but no command passed the proxies: your service does not use the " +
		"addresses that --serve gives it ({{redis...}}, {{mysql...}}, {{postgres...}})")
}

// refusals returns the proxies' reasons for not reading a connection, such as TLS or compression.
func refusals(a *Actor) string {
	err := a.Err()
	if err == nil {
		return ""
	}
	return "\n    " + strings.ReplaceAll(err.Error(), "\n", "\n    ")
}

// named returns an error if the answer to the purchase and the row that it wrote name different orders.
func named(ctx context.Context, l *Lane, r *target.Remote) error {
	ledger, err := r.Ledger(ctx, l.Product(), Stock)
	if err != nil {
		return err
	}
	reply, _, _ := r.Tried(l.Product())
	said, order := r.Read(reply).OrderID, ledger.Orders[0]
	if said != "" && said != order.OrderID {
		return fmt.Errorf("the answer names the order %s, --orders-... names it %s; give its place in the answer by "+
			"--order-id (%s)", said, order.OrderID, target.Shown(reply))
	}
	r.Anonymous = said == "" && order.Key == ""
	return nil
}

// lastWords returns the last lines of a replica's output.
func lastWords(a *Actor) string {
	lines := a.run.LastLines(8)
	if len(lines) == 0 {
		return ""
	}
	return "\n    " + strings.Join(lines, "\n    ")
}

// Lease is a Redis key that exists only while a request runs: most likely a lock.
type Lease struct {
	Key string        `json:"key"`    // in the form of codec.Key, the same in every run
	TTL time.Duration `json:"ttl_ns"` // as set by the service; 0 = never expires
}

func (x Lease) String() string {
	if x.TTL == 0 {
		return x.Key + ", which never expires"
	}
	return x.Key + " for " + x.TTL.String()
}

// Leases finds the locks of a request: it holds the request before each of its commands (steps) and lists the keys of
// the lane's Redis, also keys that scripts make. nil = no step is a Redis command, or no lock was seen.
func (l *Lane) Leases(ctx context.Context, ask Ask, steps []Position) ([]Lease, error) {
	if !slices.ContainsFunc(steps, func(p Position) bool { return p.Server == stack.Redis }) {
		return nil, nil
	}
	held := map[string]time.Duration{}
	for _, at := range steps {
		s, err := l.NewScene(ctx, ask)
		if err != nil {
			return nil, err
		}
		a, hold, err := s.Hold(ctx, l.A, at, s.NewKey(), 0)
		if errors.Is(err, ErrNotReached) {
			continue
		}
		if err != nil {
			return nil, err
		}
		during, err := ttls(ctx, l.Redis())
		hold.Pass()
		if err := errors.Join(err, a.Wait(ctx), l.Quiesce(ctx)); err != nil {
			return nil, err
		}
		after, err := ttls(ctx, l.Redis())
		if err != nil {
			return nil, err
		}
		for key, ttl := range during {
			if _, stays := after[key]; !stays {
				held[codec.Key(key)] = max(held[codec.Key(key)], ttl)
			}
		}
	}
	var all []Lease
	for key, ttl := range held {
		all = append(all, Lease{Key: key, TTL: ttl})
	}
	slices.SortFunc(all, func(a, b Lease) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// leaseUnit: TTLs are rounded up to a multiple of it, since some time has passed when they are read.
const leaseUnit = 50 * time.Millisecond

// ttls returns the remaining TTL of each key of the lane's Redis; 0 = never expires.
func ttls(ctx context.Context, redis gear.Node) (map[string]time.Duration, error) {
	keys, err := redis.All(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	found := map[string]time.Duration{}
	for _, key := range keys {
		text, err := redis.Do(ctx, "PTTL", key)
		if err != nil {
			return nil, err
		}
		ms, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return nil, err
		case ms >= 0:
			ttl := time.Duration(ms) * time.Millisecond
			found[key] = (ttl + leaseUnit - 1).Truncate(leaseUnit)
		case ms == -1:
			found[key] = 0
		}
	}
	return found, nil
}
