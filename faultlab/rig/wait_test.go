package rig

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/internal/localstack"
	"lastitem/internal/wire"
)

// A command that is held for one request does not block the next request of the same replica, which may only be slow.
func TestSettleBesideAHeldRequest(t *testing.T) {
	t.Parallel()
	var conn *client
	var asked atomic.Int64
	turn := make(chan struct{})
	s := serving(t, func(*Actor) {
		if asked.Add(1) == 1 {
			conn.do("SET", "k", "v")
			return
		}
		<-turn
	})
	s.Lane.Service.Waits, s.Lane.pace = true, mostStill // so that only the held command could block the second request
	conn = dial(t, s.Lane.B, localstack.Redis)
	first, hold, err := s.Hold(t.Context(), s.Lane.B, beforeSet, "first", generous)
	if err != nil {
		t.Fatal(err)
	}
	second := s.Ask(s.Lane.B, "second")
	go func() {
		time.Sleep(3 * blockedAfter)
		close(turn)
	}()
	if s.Settle(t.Context(), s.Lane.B, second) {
		t.Errorf("Settle() = blocked, events %v; want it answered", s.Events())
	}
	third := s.Ask(s.Lane.B, "third")
	if s.Settle(t.Context(), s.Lane.B, third) || !s.Settle(t.Context(), s.Lane.B, first) {
		t.Errorf("the third is blocked, or the first is not: events %v", s.Events())
	}
	hold.Pass()
	if err := first.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// A request that waits is blocked, although its process goes on sending keep-alives: one that the proxy knows as such, or any other command.
func TestSettleBesideKeepAlives(t *testing.T) {
	t.Parallel()
	for _, keepAlive := range [][]string{{"BLPOP", "session", "0.01"}, {"GET", "session"}} {
		t.Run(keepAlive[0], func(t *testing.T) {
			t.Parallel()
			s, turn := besideKeepAlives(t, keepAlive...)
			ctx, cancel := context.WithTimeout(t.Context(), generous)
			defer cancel()
			p := s.Ask(s.Lane.B, "key")
			if !s.Settle(ctx, s.Lane.B, p) || !s.happened(Blocked) {
				t.Errorf("Settle() = answered or ended by its context, events %v; want it blocked", s.Events())
			}
			close(turn)
		})
	}
}

// A trace ends, although its process goes on sending keep-alives, and has none of them.
func TestSettledBesideKeepAlives(t *testing.T) {
	t.Parallel()
	s, turn := besideKeepAlives(t, "BLPOP", "session", "0.01")
	defer close(turn)
	conn := dial(t, s.Lane.B, localstack.Redis)
	since := wire.LastID()
	conn.do("SET", "k", "v")
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	calls, err := s.Lane.settled(ctx, s.Lane.B, since)
	if err != nil || len(calls) != 1 || calls[0].Pattern != "SET k" {
		t.Errorf("settled() = %v, %v; want SET k alone", calls, err)
	}
}
