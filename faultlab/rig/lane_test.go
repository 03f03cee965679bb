package rig

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/target"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
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
	// so that only the held command could block the second request
	s.Lane.Service.Waits, s.Lane.Service.learnt = true, &learnt{pace: mostStill}
	conn = dial(t, s.Lane.B, "SHOP_REDIS")
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
	conn := dial(t, s.Lane.B, "SHOP_REDIS")
	since := wire.LastID()
	conn.do("SET", "k", "v")
	ctx := testkit.Within(t, generous)
	calls, err := s.Lane.settled(ctx, s.Lane.B, since)
	if err != nil || len(calls) != 1 || calls[0].Pattern != "SET k" {
		t.Errorf("settled() = %v, %v; want SET k alone", calls, err)
	}
}

// After a schedule that did not end, no process is left that could go on with its requests, and the next one finds new
// replicas.
func TestAbandon(t *testing.T) {
	t.Parallel()
	l := serversOnly(t)
	l.Service = Service{
		Argv:  func(Launch, string) []string { return []string{"sleep", "600"} },
		Env:   func(Launch, string) []string { return nil },
		Ready: func(context.Context, string) error { return nil },
	}
	testkit.Must(t, l.startAll(t.Context()))
	if err := l.A.Pause(t.Context()); err != nil { // as a schedule may leave it
		t.Fatal(err)
	}
	l.Warm = "a mode and its store"
	l.Abandon()
	before := map[*Actor]int{}
	for _, a := range l.actors() {
		if a.Alive() {
			t.Errorf("%s is alive after Abandon", a.Name)
		}
		before[a] = a.run.PID
	}
	testkit.Must(t, l.Heal(t.Context()))
	for a, pid := range before {
		if !a.Alive() || a.stopped || a.run.PID == pid {
			t.Errorf("%s after Heal: alive %t, stopped %t, process %d; want one that runs, and not %d", a.Name, a.Alive(),
				a.stopped, a.run.PID, pid)
		}
	}
	if l.Warm != "" {
		t.Error("the new replicas are not warmed up before they serve a schedule")
	}
}

// serversOnly returns a lane whose actors have their proxies, and no process: its Redis is its own, and so are, with
// extras, more servers.
func serversOnly(t *testing.T, extras ...string) *Lane {
	t.Helper()
	testenv.Installed(t, stack.Redis)
	servers, err := gear.Start(t.Context(), gear.Options{Only: []string{stack.Redis}, Extras: extras,
		Log: func(string, ...any) {}})
	testkit.Must(t, err)
	testkit.Closes(t, servers)
	set, err := servers.NewSet(t.Context(), gear.SetOptions{TTL: time.Second, Equipment: gear.Equipment{Own: stack.Redis}})
	testkit.Must(t, err)
	l := &Lane{Set: set}
	t.Cleanup(l.Close)
	testkit.Must(t, l.wire())
	return l
}

// idle returns a lane without servers, whose replicas do not run.
func idle(t *testing.T, service Service) *Lane {
	t.Helper()
	service.Promised = target.Reply.Promises
	l := &Lane{Set: &gear.Set{Place: &gear.Place{}}, Service: service}
	testkit.Must(t, l.wire())
	return l
}

// dial returns a client of a server behind an actor's proxies.
func dial(t *testing.T, a *Actor, env string) *client {
	t.Helper()
	to, _, _ := strings.Cut(a.URLs()[env], ",")
	o, err := redis.ParseURL(to)
	testkit.Must(t, err)
	o.Protocol, o.DisableIdentity, o.MaxRetries, o.ReadTimeout = 2, true, -1, generous
	c := &client{t, redis.NewClient(o)}
	testkit.Closes(t, c)
	c.do("PING")
	return c
}

type client struct {
	t *testing.T
	*redis.Client
}

func (c *client) do(words ...string) string {
	c.t.Helper()
	// The test's context ends before its cleanup, which may wait for a command that is under way.
	all, err := target.Commands(c.Client)(context.WithoutCancel(c.t.Context()), words...)
	testkit.Mustf(c.t, err, "%q", words)
	return strings.Join(all, " ")
}

// generous is how long a test waits for something that must happen.
const generous = 30 * time.Second
