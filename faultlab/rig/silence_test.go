package rig

import (
	"testing"
	"time"

	"lastitem/internal/localstack"
	"lastitem/internal/wire"
)

func TestSilence(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	paused := []Event{held[0], {At: 110 * ms, Actor: "A", What: Paused}, {At: 890 * ms, Actor: "A", What: Resumed}, held[1]}
	rival := []Event{{At: 100 * ms, Actor: "B", What: Held}, {At: 900 * ms, Actor: "B", What: Passed}}
	for name, test := range map[string]struct {
		events []Event
		sent   map[string][]time.Duration // answered at once
		want   time.Duration
		renews bool
	}{
		"nobody is held":           {nil, map[string][]time.Duration{"A": {0, 5000 * ms}}, 0, false},
		"it renews":                {held, map[string][]time.Duration{"A": {50 * ms, 300 * ms, 500 * ms, 700 * ms, 950 * ms}}, 250 * ms, false},
		"it was slow before":       {held, map[string][]time.Duration{"A": {0, 500 * ms, 700 * ms}}, 500 * ms, false},
		"over two connections":     {held, map[string][]time.Duration{"A": {700 * ms, 300 * ms, 500 * ms}}, 200 * ms, false},
		"the middle renewal fails": {held, map[string][]time.Duration{"A": {300 * ms, 850 * ms}}, 550 * ms, false},
		"it never renews":          {held, map[string][]time.Duration{"A": {50 * ms}}, 0, false},
		"only another one sends":   {held, map[string][]time.Duration{"B": {300 * ms, 500 * ms, 700 * ms}}, 0, false},
		"stopped on purpose":       {paused, nil, 0, false},
		"held to the end":          {held[:1], map[string][]time.Duration{"A": {5000 * ms}}, 0, false},
		"it should have renewed":   {held, map[string][]time.Duration{"A": {50 * ms}}, 850 * ms, true},
		"it has no lock yet":       {held, nil, 0, true},
		"it is held at the lock":   {[]Event{{At: 100 * ms, Actor: "A", What: Held, Text: "before redis: DEL lane#:lock:m:{#}"}, held[1]}, map[string][]time.Duration{"A": {50 * ms}}, 0, true},
		"a rival is held too long": {rival, nil, 800 * ms, false},
		"a rival renews":           {rival, map[string][]time.Duration{"B": {300 * ms, 500 * ms, 700 * ms}}, 200 * ms, false},
		"a stopped one cannot":     {paused, nil, 0, true},
	} {
		if got := silence(test.events, requests(test.sent), test.renews); got != test.want {
			t.Errorf("%s: silence() = %v, want %v", name, got, test.want)
		}
	}
}

// requests on a lock are sent to one server, and answered as soon as they are sent.
func requests(sent map[string][]time.Duration) map[string]map[string][]span {
	all := map[string]map[string][]span{}
	for _, actor := range []string{"A", "B"} {
		all[actor] = map[string][]span{"redis": answered(sent[actor]...)}
	}
	return all
}

func answered(times ...time.Duration) (all []span) {
	for _, at := range times {
		all = append(all, span{from: at, to: at, lock: true})
	}
	return all
}

// A lock on five servers lives as long as three of them hear of it.
func TestSilenceOfAMajority(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	often, once := answered(50*ms, 300*ms, 500*ms, 700*ms), answered(50*ms, 800*ms)
	for name, c := range map[string]struct {
		asked map[string][]span
		want  time.Duration
	}{
		"three hear of it": {map[string][]span{"1": often, "2": nil, "3": often, "4": once, "5": often}, 250 * ms},
		"two hear of it":   {map[string][]span{"1": often, "2": nil, "3": once, "4": once, "5": often}, 750 * ms},
		"no such server":   {nil, 0},
	} {
		if got := silence(held, map[string]map[string][]span{"A": c.asked}, false); got != c.want {
			t.Errorf("%s: silence() = %v, want %v", name, got, c.want)
		}
	}
}

// A session that is kept alive with another service, for another mode, renews no lock in Redis.
func TestSilenceOfTheLocksServers(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	s := &Scene{Lane: l, began: time.Now(), since: wire.LastID()}
	redis, other := dial(t, l.A, localstack.Redis), dial(t, l.A, redlockNode)
	redis.do("EXISTS", "lane1:lock:k")
	s.Note(l.A, Held, "")
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		other.do("EXISTS", "k")
	}
	s.Note(l.A, Passed, "")
	all := s.Events()
	hold := all[1].At - all[0].At
	if got := s.Silence([]string{localstack.Redis}, true); got < hold {
		t.Errorf("Silence() of Redis = %v, want at least %v", got, hold)
	}
	if got := s.Silence([]string{redlockNode}, true); got >= hold {
		t.Errorf("Silence() of %s = %v, want less than %v", redlockNode, got, hold)
	}
}

// A's lock may have expired before A was held.
func TestSilenceBeforeTheHold(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	events := []Event{{At: 100 * ms, Actor: "A", What: Asked}, {At: 900 * ms, Actor: "A", What: Held}, {At: 990 * ms, Actor: "A", What: Passed}}
	at := func(from time.Duration, lock, session bool) span { return span{from, from + ms, lock, session} }
	for name, c := range map[string]struct {
		requests []span
		want     time.Duration
	}{
		"a late renewal":                  {[]span{at(0, true, false), at(110*ms, true, false), at(850*ms, true, false), at(950*ms, true, false)}, 741 * ms},
		"work is no renewal":              {[]span{at(110*ms, true, false), at(500*ms, false, false), at(950*ms, true, false)}, 841 * ms},
		"a session that is older":         {[]span{at(0, false, true), at(300*ms, false, true), at(700*ms, false, true), at(950*ms, false, true)}, 401 * ms},
		"a session that was not kept":     {[]span{at(0, false, true), at(880*ms, false, true), at(950*ms, false, true)}, 881 * ms},
		"renewed in time":                 {[]span{at(110*ms, true, false), at(400*ms, true, false), at(700*ms, true, false), at(950*ms, true, false)}, 301 * ms},
		"an earlier request is another's": {[]span{at(0, true, false), at(800*ms, true, false), at(950*ms, true, false)}, 151 * ms},
	} {
		if got := silence(events, map[string]map[string][]span{"A": {"x": c.requests}}, false); got != c.want {
			t.Errorf("%s: silence() = %v, want %v", name, got, c.want)
		}
	}
}

// A renewal may have been executed as late as its answer came.
func TestSilenceUntilTheAnswer(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	late := map[string]map[string][]span{"A": {"redis": {{from: 50 * ms, to: 60 * ms}, {from: 250 * ms, to: 700 * ms}, {from: 450 * ms, to: 710 * ms}, {from: 750 * ms, to: 760 * ms}}}}
	if got := silence(held, late, false); got != 650*ms {
		t.Errorf("silence() = %v, want 650ms, from the acquire to the answer of the first renewal", got)
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
		"answered":                  {wire.Call{Server: "redis", Sent: at(ms), Answered: at(2 * ms)}, true},
		"not answered":              {wire.Call{Server: "redis", Sent: at(ms)}, false},
		"not sent":                  {wire.Call{Server: "redis"}, false},
		"a message of a keep-alive": {wire.Call{Server: "etcd", Pattern: "Lease.LeaseKeepAlive", Sent: at(ms), Poll: true}, true},
		"a ping without an answer":  {wire.Call{Server: "zookeeper", Pattern: "ping 1", Sent: at(ms), Poll: true}, false},
		"a read in etcd":            {wire.Call{Server: "etcd", Pattern: "KV.Range", Sent: at(ms), Answered: at(2 * ms)}, false},
		"a health check":            {wire.Call{Server: "redis", Name: "health", Sent: at(ms), Answered: at(2 * ms)}, false},
	} {
		if _, may := keeps(test.call, began); may != test.want {
			t.Errorf("%s: keeps() = %t, want %t", name, may, test.want)
		}
	}
}

// The pings of ZooKeeper's sessions are on connections of their own. Another session of the process is kept alive while the lock's is lost.
func TestSilenceOfTheLocksSession(t *testing.T) {
	t.Parallel()
	began := time.Now()
	const ms = time.Millisecond
	call := func(conn int64, at time.Duration, pattern string) wire.Call {
		return wire.Call{Server: localstack.ZooKeeper, Conn: conn, Pattern: pattern, Sent: began.Add(at), Answered: began.Add(at + ms)}
	}
	calls := []wire.Call{call(1, 10*ms, "create /lastitem/lane#:lock:zookeeper:{#}/#"), call(2, 50*ms, "ping"), call(1, 200*ms, "ping")}
	for at := 250 * ms; at < 900*ms; at += 200 * ms {
		calls = append(calls, call(2, at, "ping"), call(2, at+10*ms, "sync /"))
	}
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	asked := map[string]map[string][]span{"A": renewals(calls, []string{localstack.ZooKeeper}, began)}
	if got, want := silence(held, asked, true), 700*ms; got != want {
		t.Errorf("silence() = %v, want %v, from the last ping of the lock's session", got, want)
	}
}
