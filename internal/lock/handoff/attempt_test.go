package handoff

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A grant message overtakes the reply to an acquire, and does not suffice, so another acquire is sent. A second message overtakes this one,
// which may thus arrive after the release: the attempt must be cancelled then. (A writer gets a message without a mark from cancel.lua, which
// does not count readers, and the second message from the last reader.)
func TestOvertakenAcquireMayArriveLate(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	e.onGrantMessage(got.token, "", 2, 1, "k")
	e.mu.Lock()
	e.handleReply(got, answer{sent: e.now(), time: 1}, true) // to the first acquire: it has queued
	e.mu.Unlock()
	e.onGrantMessage(got.token, markAlone, 2, 2, "k")
	e.mu.Lock()
	if got.state != granted || !got.mayArriveLate {
		t.Errorf("state %d, may arrive late: %t, want %d, true", got.state, got.mayArriveLate, granted)
	}
	e.mu.Unlock()
}

// A release that queues the process again was not answered, so it may arrive late and queue the token then: the attempt must be cancelled.
func TestUnansweredReleaseMayArriveLate(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	e.onReleaseReply(got, got.token, answer{err: net.ErrClosed, verdict: -1})
	e.mu.Lock()
	defer e.mu.Unlock()
	if !got.mayArriveLate {
		t.Error("the attempt is not cancelled at its end")
	}
}

// A writer is evicted, by its own process, before it reads the message that granted it the lock, and while an acquire that was sent twice, and
// executed before the eviction, has not been answered. Neither the message nor the answer grants anything.
func TestGrantFromBeforeAnEviction(t *testing.T) {
	t.Parallel()
	for before, happens := range map[string]func(e *Engine, c *contender){
		"draining": func(e *Engine, c *contender) { e.onGrantMessage(c.token, markDrain, 2, 1, "k") },
		"queued": func(e *Engine, c *contender) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.handleReply(c, answer{sent: e.now(), time: 1}, true)
		},
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			e, got := unansweredWriter(t)
			evicted := got.token
			happens(e, got)
			e.onEvicted(evicted)
			e.onGrantMessage(evicted, markAlone, 2, 2, "k")
			e.mu.Lock()
			defer e.mu.Unlock()
			if got.state == granted {
				t.Fatal("granted by the message")
			}
			e.handleReply(got, answer{verdict: 2, fence: 2, sent: e.now(), time: 2}, true)
			if got.state != asking || got.token == evicted {
				t.Errorf("state %s, same token: %t, want %s with a new token", stateNames[got.state], got.token == evicted, stateNames[asking])
			}
		})
	}
}

// The reply to an acquire of an earlier attempt says nothing about the present one.
func TestReplyAboutAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	e.onAcquireReply(&request{contender: got, token: e.token(got.number+1, got.fences()), reply: int64(2)})
	e.mu.Lock()
	defer e.mu.Unlock()
	if got.state != asking {
		t.Errorf("state %s, want %s", stateNames[got.state], stateNames[asking])
	}
}

// unansweredWriter is a writer that is asking, on an engine whose server does not answer.
func unansweredWriter(t *testing.T) (*Engine, *contender) {
	t.Helper()
	silent := make(chan struct{})
	client := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		<-silent
		return nil, net.ErrClosed
	}})
	e, err := New(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(silent)
		_ = e.Close(context.Background())
		_ = client.Close()
	})
	w := &waiter{ctx: t.Context(), ready: make(chan struct{})}
	w.place.member = w
	c, err := e.enqueue(w, "k", writing, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e, c
}
