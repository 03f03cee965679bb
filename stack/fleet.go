package stack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// outFor is how long a target that failed is left out, as nginx does with max_fails=1 fail_timeout=2s.
const outFor = 2 * time.Second

// fleet sends each request to one of the targets, in turn. A POST that could not connect goes to the next target, since
// nothing was sent; nothing that was sent, and no other method, goes anywhere else.
type fleet struct {
	next        http.RoundTripper
	targets     []*target
	turn        atomic.Uint64
	keepFailing bool
	console     string // host:port; "" = none
}

// target is one replica.
type target struct {
	addr string
	mu   sync.Mutex
	out  time.Time // until when it is left out
}

// passage is one request on its way through the balancer; its context carries it. The body is not
// the request's GetBody, which would make net/http repeat a request.
type passage struct {
	body  []byte
	tried []string // addresses
}

// passageKey is the key of a *passage in a context.
type passageKey struct{}

func passageOf(ctx context.Context) *passage {
	if p, ok := ctx.Value(passageKey{}).(*passage); ok {
		return p
	}
	return &passage{}
}

// upstreams writes the addresses that a request was sent to, or would have been, as nginx does in $upstream_addr.
func upstreams(ctx context.Context) string { return strings.Join(passageOf(ctx).tried, ", ") }

// RoundTrip implements http.RoundTripper.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	p := passageOf(r.Context())
	seen := make(map[*target]bool, len(f.targets))
	for {
		t := f.pick(seen)
		seen[t] = true
		p.tried = append(p.tried, t.addr)
		r.URL.Host = t.addr
		res, err := f.next.RoundTrip(r)
		if err == nil {
			return res, nil
		}
		if r.Context().Err() == nil {
			t.failed(time.Now())
		}
		if !neverSent(err) || r.Method != http.MethodPost || len(seen) == len(f.targets) || r.Context().Err() != nil {
			return nil, err
		}
		if len(p.body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(p.body))
		}
	}
}

// pick returns the next target that was not tried and is not left out; where there is none, the next that was not
// tried.
func (f *fleet) pick(seen map[*target]bool) *target {
	now, start := time.Now(), f.turn.Add(1)-1
	var left *target
	for i := range uint64(len(f.targets)) {
		t := f.targets[(start+i)%uint64(len(f.targets))]
		if seen[t] {
			continue
		}
		if f.keepFailing || t.try(now) {
			return t
		}
		if left == nil {
			left = t
		}
	}
	return left
}

// try says whether the target may be sent a request: not while it is left out.
func (t *target) try(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !now.Before(t.out)
}

// failed leaves the target out for a while.
func (t *target) failed(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = now.Add(outFor)
}

// neverSent says that no connection could be made.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
