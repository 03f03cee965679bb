package rig

import (
	"testing"
	"time"

	"lastitem/internal/localstack"
)

// An actor that is cut off from a service reaches none of its nodes, and nothing that it sends is delivered later. Other services, and other
// actors, are not cut off.
func TestPart(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	cut, other, rival := dial(t, l.A, redlockNode), dial(t, l.A, localstack.Redis), dial(t, l.B, redlockNode)
	l.A.Part(true, localstack.Redlock)
	cut.send("SET", "k", "v")
	cut.wantSilence("a command over the cut")
	for what, c := range map[string]*client{"another service": other, "another actor": rival} {
		if got := c.do("EXISTS", "k"); got != "0" {
			t.Errorf("%s: EXISTS = %q, want 0", what, got)
		}
	}
	l.A.Part(false, localstack.Redlock)
	if got := dial(t, l.A, redlockNode).do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after the cut = %q, want 0: the command is lost", got)
	}
	l.A.Part(true, localstack.Redis)
	l.A.join()
	if l.A.parted {
		t.Error("join has left the actor cut off")
	}
	if got := dial(t, l.A, localstack.Redis).do("PING"); got != "PONG" {
		t.Errorf("PING after join = %q", got)
	}
}

// HoldMessage holds one message to one subscriber. Messages to other subscribers, and the answers to commands, pass.
func TestHoldMessage(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	a, b := dial(t, l.A, localstack.Redis), dial(t, l.B, localstack.Redis)
	for _, c := range []*client{a, b} {
		if got, want := c.do("SUBSCRIBE", "news"), "subscribe news 1"; got != want {
			t.Fatalf("SUBSCRIBE = %q, want %q", got, want)
		}
	}
	h := l.A.HoldMessage(localstack.Redis)
	tell(t, l, localstack.Redis, "PUBLISH", "news", "one")
	select {
	case <-h.Reached():
	case <-time.After(generous):
		t.Fatal("the message was not held")
	}
	const want = "message news one"
	if got, err := b.read(generous); got != want {
		t.Errorf("B reads %q, %v, want %q", got, err, want)
	}
	a.wantSilence("a held message")
	h.Pass()
	if got, err := a.read(generous); got != want {
		t.Errorf("A reads %q, %v, want %q", got, err, want)
	}
	tell(t, l, localstack.Redis, "PUBLISH", "news", "two")
	if got, err := a.read(generous); got != "message news two" {
		t.Errorf("A reads %q, %v, want the second message", got, err)
	}
}
