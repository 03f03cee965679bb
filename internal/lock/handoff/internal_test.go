package handoff

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"lastitem/internal/lock"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// IsPoll reports whether a script is a waiter's poll, for tests outside of this package.
func IsPoll(cmd redis.Cmder) bool {
	script, _ := cmd.Args()[1].(string) // its hash or its text
	return script == enginePoll.Hash() || redis.NewScript(script).Hash() == enginePoll.Hash()
}

// Receive handles a message as if it had come.
func (e *Engine) Receive(message string) { e.subscriber.receive(message) }

// Watches says whether the engine polls key: one of its waiters knows that it is in the queue.
func (e *Engine) Watches(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pollers.byKey[key] != nil
}

// A grant message overtakes the reply to an acquire, and does not suffice, so another acquire is sent. A second message
// overtakes this one, which may thus arrive after the release: the attempt must be cancelled then. (A writer gets a
// message without a mark from cancel.lua, which does not count readers, and the second message from the last reader.)
func TestOvertakenAcquireMayArriveLate(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	e.onGrantMessage(got.token, "", 2, 1, "k")
	e.mu.Lock()
	got.handleReply(answer{sent: e.now(), time: 1}, true) // to the first acquire: it has queued
	e.mu.Unlock()
	e.onGrantMessage(got.token, markAlone, 2, 2, "k")
	e.mu.Lock()
	if got.state != granted || !got.mayArriveLate {
		t.Errorf("state %d, may arrive late: %t, want %d, true", got.state, got.mayArriveLate, granted)
	}
	e.mu.Unlock()
}

// A release that queues the process again was not answered, so it may arrive late and queue the token then: the attempt
// must be cancelled.
func TestUnansweredReleaseMayArriveLate(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	got.onReleaseReply(got.token, answer{err: net.ErrClosed, verdict: -1})
	e.mu.Lock()
	defer e.mu.Unlock()
	if !got.mayArriveLate {
		t.Error("the attempt is not cancelled at its end")
	}
}

// A writer is evicted, by its own process, before it reads the message that granted it the lock, and while an acquire
// that was sent twice, and executed before the eviction, has not been answered. Neither the message nor the answer
// grants anything.
func TestGrantFromBeforeAnEviction(t *testing.T) {
	t.Parallel()
	for before, happens := range map[string]func(e *Engine, c *contender){
		"draining": func(e *Engine, c *contender) { e.onGrantMessage(c.token, markDrain, 2, 1, "k") },
		"queued": func(e *Engine, c *contender) {
			e.mu.Lock()
			defer e.mu.Unlock()
			c.handleReply(answer{sent: e.now(), time: 1}, true)
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
			got.handleReply(answer{verdict: 2, fence: 2, sent: e.now(), time: 2}, true)
			if got.state != asking || got.token == evicted {
				t.Errorf("state %s, same token: %t, want %s with a new token", stateNames[got.state], got.token == evicted,
					stateNames[asking])
			}
		})
	}
}

// The reply to an acquire of an earlier attempt says nothing about the present one.
func TestReplyAboutAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	e, got := unansweredWriter(t)
	got.onAcquireReply(&request{token: "another", reply: int64(2)})
	e.mu.Lock()
	defer e.mu.Unlock()
	if got.state != asking {
		t.Errorf("state %s, want %s", stateNames[got.state], stateNames[asking])
	}
}

// The engine knows which clients send a request again on their own, and how soon.
func TestClientThatRepeats(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		c    redis.UniversalClient
		want time.Duration
	}{
		"none":          {redis.NewClient(&redis.Options{MaxRetries: -1}), never},
		"default":       {redis.NewClient(&redis.Options{MinRetryBackoff: time.Hour, MaxRetryBackoff: 20}), 20},
		"at once":       {redis.NewClient(&redis.Options{MinRetryBackoff: -1}), 0},
		"cluster":       {redis.NewClusterClient(&redis.ClusterOptions{MinRetryBackoff: 30}), 30},
		"cluster, none": {redis.NewClusterClient(&redis.ClusterOptions{MaxRedirects: -1}), never},
		"cluster, its nodes": {
			redis.NewClusterClient(&redis.ClusterOptions{MaxRedirects: -1, MaxRetries: 1, MinRetryBackoff: -1}), 0,
		},
	} {
		e, err := New(test.c, Options{})
		testkit.Must(t, err)
		testkit.Is(t, e.server.repeatsAfter, test.want, "%s: repeats after", why)
		_ = test.c.Close()
	}
}

// unansweredWriter is a writer that is asking, on an engine whose server does not answer.
func unansweredWriter(t *testing.T) (*Engine, *contender) {
	t.Helper()
	silent := make(chan struct{})
	client := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn,
		error) {
		<-silent
		return nil, net.ErrClosed
	}})
	e, err := New(client, Options{})
	testkit.Must(t, err)
	t.Cleanup(func() {
		close(silent)
		_ = e.Close(context.Background())
		_ = client.Close()
	})
	w := &waiter{ctx: t.Context(), ready: make(chan struct{})}
	w.place.member = w
	c, err := e.enqueue(w, "k", writing, 0)
	testkit.Must(t, err)
	return e, c
}

// A process that was stopped may run its holder before its timers. Here the engine's timer cannot proceed at all. Still
// every context of the hold has ended when anybody checks it past the TTL, and so have the contexts derived from it.
func TestContextEndsWithoutTheTimer(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	s := testenv.Redis(t)
	e, err := New(s.Client, Options{TTL: ttl})
	testkit.Must(t, err)
	defer func() { _ = e.Close(context.Background()) }()
	all := map[string]context.Context{}
	for name, l := range map[string]lock.Locker{"handoff": e.Handoff(), "read": e.ReadWrite().Read()} {
		lease, err := l.Acquire(t.Context(), s.Prefix+name)
		testkit.Must(t, err)
		inner, err := l.Acquire(lock.WithReentry(context.WithoutCancel(lease.Context())), s.Prefix+name)
		testkit.Must(t, err)
		all[name], all[name+", detached re-entry"] = lease.Context(), inner.Context()
	}
	derived, cancel := context.WithCancel(all["handoff"])
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	time.Sleep(ttl)
	for which, ctx := range all {
		testkit.IsError(t, ctx.Err(), context.Canceled, "%s: Err() past the TTL", which)
		testkit.IsError(t, context.Cause(ctx), lock.ErrLost, "%s: cause", which)
		select {
		case <-ctx.Done():
		default:
			t.Errorf("%s: Done() is open past the TTL", which)
		}
	}
	testkit.IsError(t, derived.Err(), context.Canceled, "Err() of a derived context")
}

// The engine is tested from outside; here is what only a cluster has, whose nodes fail one by one.

// sharded is an engine that subscribes to shard channels through c, and sends c nothing else.
func sharded(t *testing.T, c *redis.Client, ttl time.Duration) *Engine {
	t.Helper()
	e, err := New(c, Options{TTL: ttl})
	testkit.Must(t, err)
	e.server.publish = "SPUBLISH"
	t.Cleanup(func() {
		testkit.Check(t, errors.Join(e.Close(context.Background()), c.Close()))
	})
	return e
}

// A node is out of reach for longer than an unused channel is kept: a waiter of its locks is subscribed again when it
// is back.
func TestSubscriptionOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	o := *testenv.Redis(t).Client.Options()
	var up atomic.Bool
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !up.Load() {
			time.Sleep(200 * time.Millisecond)
			return nil, errors.New("down")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	e := sharded(t, redis.NewClient(&o), minTTL)
	time.AfterFunc(time.Second, func() { up.Store(true) })
	ctx := testkit.Within(t, testenv.Still)
	testkit.Is(t, e.subscriber.awaitSubscribed(ctx, "k"), nil, "awaitSubscribed")
}

// The connections to two nodes have each missed a message: neither has to wait until the other has been replaced.
func TestSubscriberMissesAtTwoNodes(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	keys := []string{"a", "b"}
	for _, key := range keys {
		e.subscriber.byNode[key] = &nodeSubscriber{
			channels: map[string]*channel{e.subscriber.channel(key): {confirmed: true}},
		}
	}
	for _, key := range keys {
		e.subscriber.missed(key, e.now())
		if !e.subscriber.byNode[key].suspect {
			t.Errorf("the connection for %s is not suspect", key)
		}
	}
	clear(e.subscriber.byNode)
}

// The locks that one command renews have one slot and one script, whatever their keys are.
func TestRenewalGroupOfSimilarNames(t *testing.T) {
	e := sharded(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), 0)
	reader, other := &contender{key: "a", mode: reading}, &contender{key: "a readers", mode: exclusive}
	if e.keeper.group(reader) == e.keeper.group(other) {
		t.Errorf("a read of %q and a lock of %q are both of batch %q", reader.key, other.key, e.keeper.group(other))
	}
}

// A tick touches no alarm that is not due. The alarms here belong to nothing, so touching one would crash. They are due
// soon, like the polls and renewals of a busy process.
func TestTickStopsAtTheFirstAlarmThatIsNotDue(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	e, err := New(c, Options{TTL: time.Hour})
	testkit.Must(t, err)
	defer func() { _ = e.Close(t.Context()) }()
	const n = 1000
	e.mu.Lock()
	for i := range n {
		e.agenda.schedule(&alarm{}, e.now()+time.Minute+time.Duration(i))
		e.agenda.schedule(&alarm{contender: &contender{attempt: attempt{state: granted}}},
			e.now()+time.Minute+time.Duration(i))
	}
	e.mu.Unlock()
	e.tick()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.agenda.polls) != n || len(e.agenda.renewals) != n {
		t.Errorf("%d and %d alarms are left of %d each", len(e.agenda.polls), len(e.agenda.renewals), n)
	}
}

// A queue is in order in both directions, whoever leaves, and whoever left can come back. Leaving takes constant time:
// in the end the links from both ends to the middle are cut, so that a search for it would fail.
func TestFifo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, other, want, places := &fifo[int]{}, &fifo[int]{}, []int{}, make([]place[int], 6)
		for range 20 {
			n := rapid.IntRange(0, len(places)-1).Draw(t, "member")
			switch i := slices.Index(want, n); {
			case i < 0:
				places[n].member = &n
				q.push(&places[n])
				want = append(want, n)
			case i == 0:
				if got := *q.pop(); got != n {
					t.Fatalf("pop() = %d, want %d", got, n)
				}
				want = want[1:]
			default:
				if other.remove(&places[n]) || !q.remove(&places[n]) || q.remove(&places[n]) {
					t.Fatalf("%d leaves: want true once, and of its own queue", n)
				}
				want = slices.Delete(want, i, i+1)
			}
			var forwards, backwards []int
			for n := range q.all() {
				forwards = append(forwards, *n)
			}
			for p := q.last; p != nil; p = p.before {
				backwards = append([]int{*p.member}, backwards...)
			}
			if !slices.Equal(forwards, want) || !slices.Equal(backwards, want) || q.size != len(want) {
				t.Fatalf("forwards %v, backwards %v, size %d, want %v", forwards, backwards, q.size, want)
			}
		}
	})
	q, places := &fifo[int]{}, make([]place[int], 7)
	for i := range places {
		q.push(&places[i])
	}
	places[1].after, places[5].before = nil, nil
	if !q.remove(&places[3]) || places[2].after != &places[4] || places[4].before != &places[2] {
		t.Error("it did not leave, or its neighbours do not know")
	}
}
