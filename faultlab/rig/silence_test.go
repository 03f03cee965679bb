package rig

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"lastitem/judge"
	"lastitem/stack"
	"lastitem/stack/wire"
	"lastitem/target"
	"lastitem/testkit"
)

func TestSilence(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	paused := []Event{held[0], {At: 110 * ms, Actor: "A", What: Paused}, {At: 890 * ms, Actor: "A", What: Resumed},
		held[1]}
	rival := []Event{{At: 100 * ms, Actor: "B", What: Held}, {At: 900 * ms, Actor: "B", What: Passed}}
	atLock := []Event{{At: 100 * ms, Actor: "A", What: Held, Text: "before redis: DEL lane#:lock:m:{#}"}, held[1]}
	late := []Event{{At: 100 * ms, Actor: "A", What: Asked}, {At: 900 * ms, Actor: "A", What: Held},
		{At: 990 * ms, Actor: "A", What: Passed}}
	at := func(from time.Duration, lock, session bool) span { return span{from, from + ms, lock, session} }
	often, once := answered(50*ms, 300*ms, 500*ms, 700*ms), answered(50*ms, 800*ms)
	by := func(actor string, spans ...span) map[string]map[string][]span {
		asked := map[string]map[string][]span{"A": {"redis": nil}, "B": {"redis": nil}}
		asked[actor]["redis"] = spans
		return asked
	}
	for name, test := range map[string]struct {
		events []Event
		asked  map[string]map[string][]span
		want   time.Duration
		renews bool
	}{
		"nobody is held":           {nil, by("A", answered(0, 5000*ms)...), 0, false},
		"it renews":                {held, by("A", answered(50*ms, 300*ms, 500*ms, 700*ms, 950*ms)...), 250 * ms, false},
		"it was slow before":       {held, by("A", answered(0, 500*ms, 700*ms)...), 500 * ms, false},
		"over two connections":     {held, by("A", answered(700*ms, 300*ms, 500*ms)...), 200 * ms, false},
		"the middle renewal fails": {held, by("A", answered(300*ms, 850*ms)...), 550 * ms, false},
		"it never renews":          {held, by("A", answered(50*ms)...), 0, false},
		"only another one sends":   {held, by("B", answered(300*ms, 500*ms, 700*ms)...), 0, false},
		"stopped on purpose":       {paused, by("A"), 0, false},
		"held to the end":          {held[:1], by("A", answered(5000*ms)...), 0, false},
		"it should have renewed":   {held, by("A", answered(50*ms)...), 850 * ms, true},
		"it has no lock yet":       {held, by("A"), 0, true},
		"it is held at the lock":   {atLock, by("A", answered(50*ms)...), 0, true},
		"a rival is held too long": {rival, by("B"), 800 * ms, false},
		"a rival renews":           {rival, by("B", answered(300*ms, 500*ms, 700*ms)...), 200 * ms, false},
		"a stopped one cannot":     {paused, by("A"), 0, true},

		// A lock on five servers lives as long as three of them hear of it.
		"three hear of it": {held, map[string]map[string][]span{"A": {"1": often, "2": nil, "3": often, "4": once,
			"5": often}}, 250 * ms, false},
		"two hear of it": {held, map[string]map[string][]span{"A": {"1": often, "2": nil, "3": once, "4": once, "5": often}},
			750 * ms, false},
		"no such server": {held, map[string]map[string][]span{"A": nil}, 0, false},

		// A's lock may have expired before A was held.
		"a late renewal": {late, by("A", at(0, true, false), at(110*ms, true, false),
			at(850*ms, true, false), at(950*ms, true, false)), 741 * ms, false},
		"work is no renewal": {late, by("A", at(110*ms, true, false), at(500*ms, false, false),
			at(950*ms, true, false)), 841 * ms, false},
		"a session that is older": {late, by("A", at(0, false, true), at(300*ms, false, true),
			at(700*ms, false, true), at(950*ms, false, true)), 401 * ms, false},
		"a session that was not kept": {late, by("A", at(0, false, true), at(880*ms, false, true),
			at(950*ms, false, true)), 881 * ms, false},
		"renewed in time": {late, by("A", at(110*ms, true, false), at(400*ms, true, false),
			at(700*ms, true, false), at(950*ms, true, false)), 301 * ms, false},
		"an earlier request is another's": {late, by("A", at(0, true, false), at(800*ms, true, false),
			at(950*ms, true, false)), 151 * ms, false},

		// A renewal may have been executed as late as its answer came: from the acquire to the answer of the first renewal.
		"until the answer": {held, by("A", span{from: 50 * ms, to: 60 * ms}, span{from: 250 * ms, to: 700 * ms},
			span{from: 450 * ms, to: 710 * ms}, span{from: 750 * ms, to: 760 * ms}), 650 * ms, false},
	} {
		testkit.Is(t, silence(test.events, test.asked, test.renews), test.want, "%s: silence()", name)
	}
}

func answered(times ...time.Duration) (all []span) {
	for _, at := range times {
		all = append(all, span{from: at, to: at, lock: true})
	}
	return all
}

// A session that is kept alive with another service, for another mode, renews no lock in Redis.
func TestSilenceOfTheLocksServers(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, stack.Redlock)
	const firstNode = stack.Redlock + " 1"
	s := &Scene{Lane: l, diary: diary{began: time.Now()}, since: wire.LastID()}
	redis, other := dial(t, l.A, "SHOP_REDIS"), dial(t, l.A, "SHOP_REDLOCK")
	redis.do("EXISTS", "lane1:lock:k")
	s.Note(l.A, Held, "")
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		other.do("EXISTS", "k")
	}
	s.Note(l.A, Passed, "")
	all := s.Events()
	hold := all[1].At - all[0].At
	if got := s.Silence([]string{stack.Redis}, true); got < hold {
		t.Errorf("Silence() of Redis = %v, want at least %v", got, hold)
	}
	if got := s.Silence([]string{firstNode}, true); got >= hold {
		t.Errorf("Silence() of %s = %v, want less than %v", firstNode, got, hold)
	}
}

// A renewal that is never answered renews nothing: the silence goes on until the next answer.
func TestUnansweredIsNoRenewal(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := began.Add
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		call wire.Call
		want bool
	}{
		"answered":     {wire.Call{Server: "redis", Sent: at(ms), Answered: at(2 * ms)}, true},
		"not answered": {wire.Call{Server: "redis", Sent: at(ms)}, false},
		"not sent":     {wire.Call{Server: "redis"}, false},
		"a message of a keep-alive": {wire.Call{Server: "etcd", Pattern: "Lease.LeaseKeepAlive", Sent: at(ms), Poll: true},
			true},
		"a ping without an answer": {wire.Call{Server: "zookeeper", Pattern: "ping 1", Sent: at(ms), Poll: true}, false},
		"a read in etcd": {wire.Call{Server: "etcd", Pattern: "KV.Range", Sent: at(ms), Answered: at(2 * ms)},
			false},
		"a health check": {wire.Call{Server: "redis", Name: "health", Sent: at(ms), Answered: at(2 * ms)}, false},
	} {
		if _, may := keeps(test.call, began); may != test.want {
			t.Errorf("%s: keeps() = %t, want %t", name, may, test.want)
		}
	}
}

// The pings of ZooKeeper's sessions are on connections of their own. Another session of the process is kept alive while
// the lock's is lost.
func TestSilenceOfTheLocksSession(t *testing.T) {
	t.Parallel()
	began := time.Now()
	const ms = time.Millisecond
	call := func(conn int64, at time.Duration, pattern string) wire.Call {
		return wire.Call{Server: stack.ZooKeeper, Conn: conn, Pattern: pattern, Sent: began.Add(at),
			Answered: began.Add(at + ms)}
	}
	calls := []wire.Call{call(1, 10*ms, "create /lastitem/lane#:lock:zookeeper:{#}/#"), call(2, 50*ms, "ping"),
		call(1, 200*ms, "ping")}
	for at := 250 * ms; at < 900*ms; at += 200 * ms {
		calls = append(calls, call(2, at, "ping"), call(2, at+10*ms, "sync /"))
	}
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	asked := map[string]map[string][]span{"A": renewals(calls, []string{stack.ZooKeeper}, began)}
	if got, want := silence(held, asked, true), 700*ms; got != want {
		t.Errorf("silence() = %v, want %v, from the last ping of the lock's session", got, want)
	}
}

// serving returns a scene whose actor B serves a request by calling do.
func serving(t *testing.T, do func(b *Actor)) *Scene {
	t.Helper()
	l := serversOnly(t)
	l.client = http.DefaultClient
	l.Service = Service{
		Promised: target.Reply.Promises,
		Call:     target.Ask.Call,
		Read:     func(judge.ReservationKind, target.Reply) target.Answer { return target.Answer{Outcome: judge.OK} },
	}
	replica := testkit.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { do(l.B) }))
	l.B.URL = replica.URL
	return &Scene{Lane: l, diary: diary{began: time.Now()}}
}

// beforeSet is where B is held, before its only command.
var beforeSet = Position{Server: stack.Redis, Pattern: "SET k", Nth: 1, Cut: Command}

func (s *Scene) happened(what What) bool {
	return slices.ContainsFunc(s.Events(), func(e Event) bool { return e.What == what })
}

// A request that reaches its position is held there.
func TestHoldOrYieldHolds(t *testing.T) {
	t.Parallel()
	var conn *client
	s := serving(t, func(*Actor) { conn.do("SET", "k", "v") })
	conn = dial(t, s.Lane.B, "SHOP_REDIS")
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", generous)
	if err != nil || p.answered() || !s.happened(Held) {
		t.Fatalf("HoldOrYield = %v, answered %t, events %v; want it held", err, p.answered(), s.Events())
	}
	there, err := s.Lane.Own.Tell(t.Context(), stack.Redis, "EXISTS", "k")
	testkit.Must(t, err)
	testkit.Is(t, there, "0", "EXISTS while the SET is held")
	hold.Pass()
	testkit.Check(t, p.Wait(t.Context()))
}

// A request that is answered before its position is not held, and neither is a later request.
func TestHoldOrYieldAnswered(t *testing.T) {
	t.Parallel()
	s := serving(t, func(*Actor) {})
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", generous)
	if err != nil || !p.answered() || s.happened(Held) {
		t.Errorf("HoldOrYield = %v, answered %t, held %t; want it answered and not held", err, p.answered(), s.happened(Held))
	}
	testkit.Is(t, dial(t, s.Lane.B, "SHOP_REDIS").do("SET", "k", "v"), "OK", "a later SET")
	hold.Pass()
}

// A command that is in flight when its request is answered is held all the same, as a release of Redlock is that the
// others have overtaken.
func TestHeldAfterTheAnswer(t *testing.T) {
	t.Parallel()
	var conn *client
	s := serving(t, func(b *Actor) {
		go conn.Do(t.Context(), "WAIT", "1", "200") // for 200 ms, since there is no replica
		for len(b.Unanswered()) == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	conn = dial(t, s.Lane.B, "SHOP_REDIS")
	at := Position{Server: stack.Redis, Pattern: "WAIT", Nth: 1, Cut: Answer}
	_, first, err := s.Hold(t.Context(), s.Lane.B, at, "first", generous)
	testkit.Must(t, err)
	first.Pass()
	_, second, err := s.HoldOrYield(t.Context(), s.Lane.B, at, "second", generous)
	held := slices.DeleteFunc(s.Events(), func(e Event) bool { return e.What != Held })
	if err != nil || len(held) != 2 {
		t.Fatalf("HoldOrYield = %v, events %v; want it held", err, s.Events())
	}
	second.Pass()
}

// A request that waits yields, although its process goes on sending commands: keep-alives of a session, for example.
func TestHoldOrYieldBesideKeepAlives(t *testing.T) {
	t.Parallel()
	s, turn := besideKeepAlives(t, "GET", "session")
	ctx := testkit.Within(t, generous)
	if _, _, err := s.HoldOrYield(ctx, s.Lane.B, beforeSet, "key", 0); err != nil || !s.happened(Blocked) {
		t.Errorf("HoldOrYield = %v, events %v; want it blocked", err, s.Events())
	}
	close(turn)
}

// besideKeepAlives returns a scene whose actor B waits inside its process, until turn is closed, and sends a command 50
// times a second.
func besideKeepAlives(t *testing.T, command ...string) (s *Scene, turn chan struct{}) {
	t.Helper()
	turn, beating := make(chan struct{}), make(chan struct{})
	s = serving(t, func(*Actor) { <-turn })
	conn := dial(t, s.Lane.B, "SHOP_REDIS")
	go func() {
		defer close(beating)
		for {
			select {
			case <-turn:
				return
			case <-time.After(20 * time.Millisecond):
				conn.do(command...)
			}
		}
	}()
	t.Cleanup(func() { <-beating })
	return s, turn
}

// A request that waits inside its process yields, and is held when it gets to its position after all.
func TestHoldOrYieldYields(t *testing.T) {
	t.Parallel()
	var conn *client
	turn := make(chan struct{})
	s := serving(t, func(*Actor) {
		<-turn
		conn.do("SET", "k", "v")
	})
	conn = dial(t, s.Lane.B, "SHOP_REDIS")
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", 0)
	if err != nil || p.answered() || !s.happened(Blocked) || s.happened(Held) {
		t.Fatalf("HoldOrYield = %v, answered %t, events %v; want it blocked", err, p.answered(), s.Events())
	}
	close(turn)
	s.Yield(t.Context(), s.Lane.B, beforeSet, p, hold, generous)
	if !s.happened(Held) {
		t.Errorf("events %v, want it held", s.Events())
	}
	hold.Pass()
	testkit.Check(t, p.Wait(t.Context()))
}
