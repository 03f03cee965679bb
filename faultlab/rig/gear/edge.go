package gear

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// The rules of a lane's nginx; see [Equipment.Nginx].
const (
	// Resends: proxy_next_upstream error timeout non_idempotent.
	Resends = "resends"
	// SendsOnce is the shop's own rule: a request that was sent to a replica is not sent again.
	SendsOnce = "sends-once"
)

// Edge is the lane's nginx. It sends every request to A, through a proxy, and has B as the next replica.
type Edge struct {
	place  *Place
	resend bool
	run    *stack.Running
	proxy  *wire.Proxy // in front of A
	before [2]string   // the URLs of A and B with which it was started
	starts int
	holds  []*wire.Hold // until release
}

// ReadTimeout is how long the lane's nginx waits for a replica's answer.
const ReadTimeout = 2 * time.Second

// URL returns the URL of the lane's nginx before the replicas at two URLs. It starts nginx again if they are others
// than the last time.
func (e *Edge) URL(ctx context.Context, a, b string) (string, error) {
	if now := [2]string{a, b}; e.before != now {
		if err := e.start(ctx, now); err != nil {
			return "", err
		}
	}
	return "http://" + e.run.Addr, nil
}

func (e *Edge) start(ctx context.Context, replicas [2]string) (err error) {
	e.end()
	first, next := strings.TrimPrefix(replicas[0], "http://"), strings.TrimPrefix(replicas[1], "http://")
	if e.proxy, err = wire.NewProxy("replica A", first, codec.HTTP); err != nil {
		return err
	}
	e.starts++
	e.run, err = e.place.Stack.SpawnNginx(ctx, stack.NginxServer{
		Name: fmt.Sprintf("lane %d nginx %d", e.place.Number, e.starts), First: e.proxy.Addr, Next: next,
		Resend: e.resend, Read: ReadTimeout,
	})
	if err == nil {
		e.before = replicas
	}
	return err
}

// end ends nginx and the proxy.
func (e *Edge) end() {
	if e.run != nil {
		e.run.Kill()
	}
	if e.proxy != nil {
		e.proxy.Close()
	}
	*e = Edge{place: e.place, resend: e.resend, starts: e.starts}
}

// HoldAnswer holds the next answer of A on its way to nginx, which [Edge.URL] has started.
func (e *Edge) HoldAnswer() *wire.Hold {
	hold := e.proxy.Add(wire.Rule{Answer: true})
	e.holds = append(e.holds, hold)
	return hold
}

// release takes back every rule of a schedule that has ended, however it ended.
func (e *Edge) release() {
	for _, h := range e.holds {
		h.Cancel()
	}
	e.holds = nil
}
