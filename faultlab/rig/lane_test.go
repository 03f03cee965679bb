package rig

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// An actor that is cut off from a service reaches none of its nodes, and nothing that it sends is delivered later.
// Other services, and other actors, are not cut off.
func TestPart(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	cut, other, rival := dial(t, l.A, redlockNode), dial(t, l.A, stack.Redis), dial(t, l.B, redlockNode)
	l.A.Part(true, stack.Redlock)
	cut.send("SET", "k", "v")
	cut.wantSilence("a command over the cut")
	for what, c := range map[string]*client{"another service": other, "another actor": rival} {
		testkit.Is(t, c.do("EXISTS", "k"), "0", "%s: EXISTS", what)
	}
	l.A.Part(false, stack.Redlock)
	if got := dial(t, l.A, redlockNode).do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after the cut = %q, want 0: the command is lost", got)
	}
	l.A.Part(true, stack.Redis)
	l.A.join()
	if l.A.parted {
		t.Error("join has left the actor cut off")
	}
	if got := dial(t, l.A, stack.Redis).do("PING"); got != "PONG" {
		t.Errorf("PING after join = %q", got)
	}
}

// HoldMessage holds one message to one subscriber. Messages to other subscribers, and the answers to commands, pass.
func TestHoldMessage(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	a, b := dial(t, l.A, stack.Redis), dial(t, l.B, stack.Redis)
	for _, c := range []*client{a, b} {
		if got, want := c.do("SUBSCRIBE", "news"), "subscribe news 1"; got != want {
			t.Fatalf("SUBSCRIBE = %q, want %q", got, want)
		}
	}
	h := l.A.HoldMessage(stack.Redis)
	tell(t, l, stack.Redis, "PUBLISH", "news", "one")
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
	tell(t, l, stack.Redis, "PUBLISH", "news", "two")
	if got, err := a.read(generous); got != "message news two" {
		t.Errorf("A reads %q, %v, want the second message", got, err)
	}
}

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
	conn = dial(t, s.Lane.B, stack.Redis)
	first, hold, err := s.Hold(t.Context(), s.Lane.B, beforeSet, "first", generous)
	testkit.Must(t, err)
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
	testkit.Check(t, first.Wait(t.Context()))
}

// A request that waits is blocked, although its process goes on sending keep-alives: one that the proxy knows as such,
// or any other command.
func TestSettleBesideKeepAlives(t *testing.T) {
	t.Parallel()
	for _, keepAlive := range [][]string{{"BLPOP", "session", "0.01"}, {"GET", "session"}} {
		t.Run(keepAlive[0], func(t *testing.T) {
			t.Parallel()
			s, turn := besideKeepAlives(t, keepAlive...)
			ctx := testkit.Within(t, generous)
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
	conn := dial(t, s.Lane.B, stack.Redis)
	since := wire.LastID()
	conn.do("SET", "k", "v")
	ctx := testkit.Within(t, generous)
	calls, err := s.Lane.settled(ctx, s.Lane.B, since)
	if err != nil || len(calls) != 1 || calls[0].Pattern != "SET k" {
		t.Errorf("settled() = %v, %v; want SET k alone", calls, err)
	}
}

// redlockNode is the second server of a lane in a test.
const redlockNode = "redlock 3"

// serversOnly returns a lane without replicas: Redis and redlockNode are its own, each actor has its proxies.
func serversOnly(t *testing.T, e Equipment) *Lane {
	t.Helper()
	testenv.Installed(t, stack.Redis)
	running, err := stack.Start(t.Context(), stack.Options{Only: []string{}})
	testkit.Must(t, err)
	s := &Servers{Stack: running}
	testkit.Closes(t, s)
	for _, name := range []string{stack.Redis, redlockNode} {
		s.links = append(s.links, link{server: name, codec: codec.Redis, url: "redis://default:secret@127.0.0.1:1/0",
			addr: "127.0.0.1:1"})
	}
	e.Own = stack.Redis + "," + redlockNode
	l := &Lane{TTL: time.Second, servers: s, links: s.links}
	l.Own.lane = l
	testkit.Must(t, l.Own.start(t.Context(), e))
	for name, a := range map[string]**Actor{"A": &l.A, "B": &l.B, "C": &l.C} {
		if *a, err = newActor(l, name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*a).close)
	}
	return l
}

// tell sends a command to one of the lane's own servers, bypassing the proxies.
func tell(t *testing.T, l *Lane, server string, words ...string) string {
	t.Helper()
	answer, err := l.Own.Tell(t.Context(), server, words...)
	testkit.Mustf(t, err, "%q", words)
	return answer
}

// pttl returns how many milliseconds a key has left; -1 = it has no TTL, -2 = there is no such key.
func pttl(t *testing.T, l *Lane, server, key string) int {
	t.Helper()
	ms, err := strconv.Atoi(tell(t, l, server, "PTTL", key))
	testkit.Must(t, err)
	return ms
}

// client is a connection through an actor's proxy.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, a *Actor, server string) *client {
	t.Helper()
	conn := testkit.Dial(t, a.proxies[server].Addr)
	c := &client{t, conn, bufio.NewReader(conn)}
	if got := c.do("AUTH", "secret"); got != "OK" {
		t.Fatalf("AUTH = %q", got)
	}
	return c
}

func (c *client) send(words ...string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, respCommand(words))
	testkit.Must(c.t, err)
}

// read returns the next answer; "" = none came in time, or the connection has ended.
func (c *client) read(within time.Duration) (string, error) {
	c.t.Helper()
	testkit.Must(c.t, c.conn.SetReadDeadline(time.Now().Add(within)))
	var all []string
	err := readReply(c.r, &all)
	return strings.Join(all, " "), err
}

// generous is how long a test waits for something that must happen; moment is how long it watches for something that
// must not.
const (
	generous = 30 * time.Second
	moment   = 200 * time.Millisecond
)

func (c *client) do(words ...string) string {
	c.t.Helper()
	c.send(words...)
	answer, err := c.read(generous)
	testkit.Mustf(c.t, err, "%q", words)
	return answer
}

// wantSilence fails the test if an answer comes.
func (c *client) wantSilence(what string) {
	c.t.Helper()
	if answer, err := c.read(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("%s: got %q, %v, want no answer", what, answer, err)
	}
}
