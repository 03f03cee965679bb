package rig

import (
	"context"
	"errors"
	"slices"
	"testing"

	"lastitem/stack"
	"lastitem/testkit"
)

// A restarted server is empty and has its old address. Clients see at once that their connections have ended, and other
// servers keep theirs.
func TestOwnServerRestartsEmpty(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	if got, want := l.Own.Names(), []string{stack.Redis, redlockNode}; !slices.Equal(got, want) {
		t.Fatalf("OwnServers = %q, want %q", got, want)
	}
	before := l.Own.servers[stack.Redis].run.Addr
	cut, kept := dial(t, l.A, stack.Redis), dial(t, l.A, redlockNode)
	cut.do("SET", "k", "v")
	kept.do("SET", "k", "v")
	l.warm = "any"
	testkit.Must(t, l.Own.Restart(t.Context(), stack.Redis))
	if after := l.Own.servers[stack.Redis].run.Addr; after != before || l.warm != "" {
		t.Errorf("restarted at %s, warm %q, want at %s and no longer warm", after, l.warm, before)
	}
	if answer, err := cut.read(generous); err == nil {
		t.Errorf("the old connection answers %q, want its end", answer)
	}
	testkit.Is(t, dial(t, l.A, stack.Redis).do("EXISTS", "k"), "0", "EXISTS on the restarted server")
	testkit.Is(t, kept.do("EXISTS", "k"), "1", "EXISTS on the other server")
}

// A frozen server answers nothing until it goes on; a killed one is started again between schedules.
func TestOwnServersAreRestored(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	frozen := dial(t, l.B, stack.Redis)
	testkit.Must(t, l.Own.Freeze(stack.Redis))
	frozen.send("PING")
	frozen.wantSilence("a frozen server")
	testkit.Must(t, l.Own.Thaw(stack.Redis))
	if answer, err := frozen.read(generous); answer != "PONG" {
		t.Errorf("after Thaw: %q, %v, want PONG", answer, err)
	}
	testkit.Must(t, l.Own.Freeze(stack.Redis))
	l.Own.servers[redlockNode].run.Kill()
	testkit.Must(t, l.Own.restore(t.Context()))
	for _, server := range l.Own.Names() {
		testkit.Is(t, tell(t, l, server, "PING"), "PONG", "%s after restore", server)
	}
}

// A server that does not start again fails its schedule only; it is started before the next one.
func TestOwnServerDoesNotRestart(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Own.Restart(gone, stack.Redis); err == nil {
		t.Fatal("Restart after the end of its context = nil, want an error")
	}
	testkit.Must(t, l.Own.restore(t.Context()))
	if got := dial(t, l.A, stack.Redis).do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after restore = %s, want an answer", got)
	}
}

// A node is past its restart guard once per start.
func TestOutOfGuard(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	n := l.Own.servers[redlockNode]
	for _, step := range []func() error{
		func() error { return nil }, // it has just been started
		func() error { return l.Own.Restart(t.Context(), redlockNode) },
	} {
		testkit.Must(t, step())
		if !n.young {
			t.Error("a node that has started is not young")
		}
		if err := l.Own.OutOfGuard(t.Context(), redlockNode); err != nil || n.young {
			t.Errorf("OutOfGuard = %v, young %t, want neither", err, n.young)
		}
	}
}

// A lane that is closed leaves none of its servers behind, stopped ones included: a run has many lanes, and closes each
// when it is done with it.
func TestCloseEndsServers(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	if err := errors.Join(l.Forget(t.Context(), redlockNode), l.startPair(t.Context(), Equipment{Pair: stack.Redis}),
		l.Own.Freeze(redlockNode)); err != nil {
		t.Fatal(err)
	}
	all := l.nodes()
	if len(all) != 4 {
		t.Errorf("%d servers, want two of the lane, a spare and a master", len(all))
	}
	l.Close()
	for _, n := range all {
		if !n.ended() {
			t.Errorf("%s is alive after Close", n.child.Name)
		}
	}
}

// After a schedule that did not end, no process is left that could go on with its requests, and the next one finds new
// replicas.
func TestAbandon(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	l.Service = Service{
		Argv:  func(Launch, string) []string { return []string{"sleep", "600"} },
		Env:   func(Launch, string) []string { return nil },
		Ready: func(context.Context, string) error { return nil },
	}
	testkit.Must(t, l.startAll(t.Context()))
	if err := l.A.Pause(t.Context()); err != nil { // as a schedule may leave it
		t.Fatal(err)
	}
	l.warm = "a mode and its store"
	l.Abandon()
	before := map[*Actor]int{}
	for _, a := range l.actors() {
		if a.alive() {
			t.Errorf("%s is alive after Abandon", a.Name)
		}
		before[a] = a.run.PID
	}
	testkit.Must(t, l.Heal(t.Context()))
	for a, pid := range before {
		if !a.alive() || a.stopped || a.run.PID == pid {
			t.Errorf("%s after Heal: alive %t, stopped %t, process %d; want one that runs, and not %d", a.Name, a.alive(),
				a.stopped, a.run.PID, pid)
		}
	}
	if l.warm != "" {
		t.Error("the new replicas are not warmed up before they serve a schedule")
	}
}

// A lane refuses to kill, stop or empty a shared server.
func TestOwnServersOnly(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	const other = "redlock 1"
	_, told := l.Own.Tell(t.Context(), other, "PING")
	_, logged := l.Own.Logged(t.Context(), other)
	for what, err := range map[string]error{
		"Tell": told, "Logged": logged, "Restart": l.Own.Restart(t.Context(), other), "Freeze": l.Own.Freeze(other),
		"Thaw":       l.Own.Thaw(other),
		"OutOfGuard": l.Own.OutOfGuard(t.Context(), other), "RestartFrom": l.Own.RestartFrom(t.Context(), other, 0),
		"Jump": l.Own.Jump(t.Context(), generous, other), "Jump without a clock": l.Own.Jump(t.Context(), generous,
			redlockNode),
	} {
		if err == nil {
			t.Errorf("%s = nil, want an error", what)
		}
	}
}
