package backend

import (
	"context"
	"sync"
	"time"
)

const (
	pingTimeout  = 2 * time.Second
	pingFreshFor = time.Second
)

// health is the cached answer of a ping. A check never waits for the network longer than one ping, and concurrent checks
// share it.
type health struct {
	ping func(context.Context) error

	mu     sync.Mutex
	at     time.Time
	err    error
	closed bool
}

func watch(ping func(context.Context) error) *health { return &health{ping: ping} }

// check pings when the last answer is older than a second. A nil health is a backend that is not configured: nothing to say.
func (h *health) check() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || time.Since(h.at) < pingFreshFor {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	h.err = h.ping(ctx)
	h.at = time.Now()
	return h.err
}

func (h *health) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}
