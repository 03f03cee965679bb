package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// etcdProxy is a proxy before an etcd, a client through it and one past it.
func etcdProxy(t *testing.T) (p *wire.Proxy, far, near *clientv3.Client, prefix string) {
	t.Helper()
	etcd := testenv.Etcd(t)
	p = newProxy(t, etcd.Addr, codec.GRPC)
	through := testenv.Coordination{Addr: p.Addr, Prefix: etcd.Prefix}
	return p, through.EtcdClient(t), etcd.EtcdClient(t), etcd.Prefix
}

func puts(key string) func(wire.Call) bool {
	return func(c wire.Call) bool { return strings.HasPrefix(c.Text, "KV.Put ") && strings.Contains(c.Text, key) }
}

// A stream is held, never the connection: others go on, in whichever order.
func TestGRPCHoldsStreams(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	ctx := t.Context()
	command := p.Add(wire.Rule{Match: puts(prefix + "command")})
	answer := p.Add(wire.Rule{Match: puts(prefix + "answer"), Answer: true})
	done := map[string]chan error{}
	for _, key := range []string{"command", "answer"} {
		done[key] = make(chan error, 1)
		go func() {
			_, err := far.Put(ctx, prefix+key, "1")
			done[key] <- err
		}()
	}
	reached(t, command)
	reached(t, answer)
	for i := range 20 { // headers of which the table would be full
		_, err := far.Put(ctx, fmt.Sprint(prefix, "other", i), strings.Repeat("x", 20_000))
		testkit.Must(t, err)
	}
	there := func(key string) int64 {
		r, err := near.Get(ctx, prefix+key)
		testkit.Must(t, err)
		return r.Count
	}
	if there("command") != 0 || there("answer") != 1 {
		t.Errorf("%d of the held command has arrived, %d of the held answer", there("command"), there("answer"))
	}
	if n := len(p.Unanswered()); n != 2 {
		t.Errorf("unanswered: %v", p.Unanswered())
	}
	answer.Pass()
	testkit.Check(t, <-done["answer"])
	command.Pass()
	if err := <-done["command"]; err != nil || there("command") != 1 {
		t.Errorf("the held command: %v, %d", err, there("command"))
	}
}

// A call that its client has given up still reaches the server once the proxy passes it on. Dropping a call or an
// answer without an error does not break the other streams of the connection.
func TestGRPCCuts(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	// giveUp puts a key, and cancels the call once the proxy holds it and then() has returned.
	giveUp := func(key string, held *wire.Hold, then func()) {
		// the server gets this deadline, too, and must not reach it before the late call
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			select {
			case <-held.Reached():
				then()
				cancel()
			case <-ctx.Done():
			}
		}()
		if _, err := far.Put(ctx, prefix+key, "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("Put %s = %v, want that it is given up", key, err)
		}
	}
	late := p.Add(wire.Rule{Match: puts(prefix + "late")})
	dropped := p.Add(wire.Rule{Match: puts(prefix + "dropped")})
	lost := p.Add(wire.Rule{Match: puts(prefix + "lost"), Answer: true})
	giveUp("late", late, func() {})
	giveUp("dropped", dropped, func() { dropped.Drop(false) })
	giveUp("lost", lost, func() { lost.Drop(false) })
	count := func(key string) int64 {
		r, err := near.Get(t.Context(), prefix+key)
		testkit.Must(t, err)
		return r.Count
	}
	if count("late") != 0 || count("dropped") != 0 || count("lost") != 1 {
		t.Errorf("late %d, dropped %d, lost %d; want 0, 0, 1", count("late"), count("dropped"), count("lost"))
	}
	late.Pass()
	testkit.Until(t, "the late write arrives", func() bool { return count("late") == 1 })
	testkit.Until(t, "nothing is unanswered", func() bool { return len(p.Unanswered()) == 0 })
	_, err := far.Put(t.Context(), prefix+"last", "1")
	testkit.Check(t, err)
	reset := p.Add(wire.Rule{Match: puts(prefix + "reset")})
	go func() { reached(t, reset); reset.Drop(true) }()
	if _, err := far.Put(t.Context(), prefix+"reset", "1"); err == nil || count("reset") != 0 {
		t.Errorf("Put by a connection that is reset: %v, %d", err, count("reset"))
	}
}

// Events of a watch are pushes; one is lost, and the next is not.
func TestGRPCPushes(t *testing.T) {
	t.Parallel()
	p, far, near, prefix := etcdProxy(t)
	lost := p.Add(wire.Rule{Push: true, Match: func(c wire.Call) bool { return strings.Contains(c.Text, prefix+"lost") }})
	events := far.Watch(clientv3.WithRequireLeader(t.Context()), prefix, clientv3.WithPrefix(),
		clientv3.WithCreatedNotify())
	if r := <-events; !r.Created {
		t.Fatalf("%+v", r)
	}
	_, err := near.Put(t.Context(), prefix+"lost", "1")
	testkit.Must(t, err)
	reached(t, lost)
	lost.Drop(false)
	_, err = near.Put(t.Context(), prefix+"seen", "1")
	testkit.Must(t, err)
	r := <-events
	if len(r.Events) != 1 || string(r.Events[0].Kv.Key) != prefix+"seen" {
		t.Errorf("%+v, want only what came after the lost one", r.Events)
	}
}
