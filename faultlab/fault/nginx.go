package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack/wire"
)

// The variants of a replica that does not answer nginx. There is one more of each for a client without an idempotency
// key.
const (
	dies  = "dies"  // the replica is killed
	hangs = "hangs" // the replica is stopped (SIGSTOP) for longer than proxy_read_timeout, or its answer is held
	noKey = "no-key"
)

// NginxRetry makes the victim die or hang after its commit. The nginx in front of it sends a POST again to the next
// replica.
var NginxRetry = Fault{
	Name: "nginx-retry",
	Title: text.Of("the replica dies or hangs after its commit, and nginx sends the POST to the next one " +
		"(proxy_next_upstream ... non_idempotent)"),
	Cuts:     []rig.Cut{rig.Command},
	Finished: true,
	Variants: behindNginx,
	AtEnd:    true,
	Happens:  always,
	Lane:     gear.Equipment{Expiry: true, Nginx: gear.Resends},
	Strike:   func(ctx context.Context, p *Play) error { return strikeBehindNginx(ctx, p, true) },
}

// NginxOnce is NginxRetry with the rule of the shop's own nginx: a request that was sent to a replica is not sent
// again.
var NginxOnce = Fault{
	Name: "nginx-no-retry",
	Title: text.Of("the same with the shop's own rule: nginx does not send again what it has sent, and answers 502 " +
		"or 504, outcome unknown"),
	Cuts:     NginxRetry.Cuts,
	Finished: true,
	Variants: behindNginx,
	AtEnd:    true,
	Happens:  always,
	Lane:     gear.Equipment{Expiry: true, Nginx: gear.SendsOnce},
	Strike:   func(ctx context.Context, p *Play) error { return strikeBehindNginx(ctx, p, false) },
}

// behindNginx returns the variants of a mode. Those without a key are only for modes that accept a key and do not
// require one.
func behindNginx(m api.Mode) []string {
	all := []string{dies, hangs}
	if keyOptional(m) {
		all = append(all, dies+"-"+noKey, hangs+"-"+noKey)
	}
	return all
}

// keyOptional says whether a mode honours idempotency keys and serves requests without one. Without a key such a mode
// behaves like the modes that have no keys.
func keyOptional(m api.Mode) bool { return slices.Contains([]string{"redis-lua", "queue"}, m.Name) }

// lockWait is how long a request waits for a lock behind nginx: longer than the TTL, and less than nginx waits.
const lockWait = gear.ReadTimeout / 2

// strikeBehindNginx sends the request to nginx and harms A when A has committed. again says whether nginx must then
// send the request to B.
func strikeBehindNginx(ctx context.Context, p *Play, again bool) error {
	key := p.keyOf()
	a, held, err := heldBehindNginx(ctx, p, key)
	if err != nil {
		return err
	}
	over, err := silenced(ctx, p, held)
	if err != nil {
		return err
	}
	if err := a.Wait(ctx); err != nil {
		return err
	}
	if err := over(); err != nil {
		return err
	}
	if by := a.Op().Replica; again && !p.Touched(p.Lane.B) || !again && by != "" {
		return fmt.Errorf("faultlab: nginx passed on an answer of replica %q; the request must go on to B: %t", by, again)
	}
	if a.Op().Outcome == judge.Declined {
		if err := p.insist(ctx, key); err != nil {
			return err
		}
	}
	p.Over(p.Outlive)
	if err := p.next(ctx); err != nil {
		return err
	}
	return p.countKeyless(ctx)
}

// keyOf is the key of the victim's request, "" in a variant without.
func (p *Play) keyOf() string {
	if strings.HasSuffix(p.Variant, noKey) {
		return ""
	}
	return p.NewKey()
}

// heldBehindNginx returns when A is held at its position, or when A's answer is held.
func heldBehindNginx(ctx context.Context, p *Play, key string) (*rig.Pending, *wire.Hold, error) {
	if p.A != nil {
		return p.HoldEdge(ctx, *p.A, key, lockWait)
	}
	return p.HoldEdgeAnswer(ctx, key, lockWait)
}

// silenced kills or stops A. over lets A go on if it was stopped.
func silenced(ctx context.Context, p *Play, held *wire.Hold) (over func() error, err error) {
	a := p.Lane.A
	if strings.HasPrefix(p.Variant, dies) {
		a.Kill()
		p.Note(a, rig.Killed, "")
		held.Drop(true)
		return func() error { return nil }, a.Discard(ctx)
	}
	if p.A == nil {
		return func() error { p.pass(a, held); return nil }, nil
	}
	if err := a.Pause(ctx); err != nil {
		return nil, err
	}
	p.Note(a, rig.Paused, "")
	return func() error {
		p.Note(a, rig.Resumed, "")
		p.pass(a, held)
		return a.Resume()
	}, nil
}

// insist repeats a request with its key until the answer is no longer "busy", for as long as a lock may outlive its
// holder. A "busy" answer tells the client that nothing has happened, so the client may repeat the request.
func (p *Play) insist(ctx context.Context, key string) error {
	for end := time.Now().Add(p.Outlive); ; {
		again := p.AskWithin(p.Lane.B, key, lockWait)
		if err := again.Wait(ctx); err != nil {
			return err
		}
		if again.Op().Outcome != judge.Declined || time.Now().After(end) {
			return nil
		}
	}
}

// countKeyless reports a double charge that no idempotency key reveals: one request has several orders without a key.
func (p *Play) countKeyless(ctx context.Context) error {
	if !strings.HasSuffix(p.Variant, noKey) {
		return nil
	}
	if err := p.Lane.Quiesce(ctx); err != nil {
		return err
	}
	ledger, err := p.Lane.Ledger(ctx)
	if err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(ledger.Orders, func(o api.Order) bool { return o.Key != "" })); n > 1 {
		p.Accuse("D", fmt.Sprintf("one client that wanted one unit, without a key, has %d orders", n))
	}
	return nil
}
