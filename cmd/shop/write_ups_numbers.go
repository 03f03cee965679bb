package main

import (
	"time"

	"lastitem/contract/api"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// number is a number that a well-known write-up states, with the runs that measure it here. docs/articles.md prints
// ours beside theirs.
type number struct {
	writeUp      string // the letter of its section in docs/articles.md
	what, theirs text.Text
	shows        shows
	runs         []numberRun
}

// numberRun is one run that a number needs. Runs that are equal are made once.
type numberRun struct {
	mode     string
	plan     string // a named plan
	part     int    // which of its plans, from 0
	store    api.Store
	whole    bool // without segments, where the plan has some
	replicas int
	rtt      time.Duration // between the replicas and the servers; 0 = loopback
	repeat   int           // how often, of which the median of accepted requests per second counts; 0 = once
}

// shows says what a number tells of its runs.
type shows int

const (
	showsLeft   shows = iota // the stock that is left after the only run
	showsRates               // accepted requests per second of each run
	showsFactor              // the first run's accepted requests per second over the second's
)

// far is the round trip of the runs that have one: that of servers in another rack or zone.
const far = 2 * time.Millisecond

// numbers are what the write-ups state, in the order of docs/articles.md.
func numbers() []number {
	unsafe := numberRun{mode: "unsafe-sql", plan: "jmeter", replicas: 1}
	locked := numberRun{mode: "mutex", plan: "jmeter", store: api.SQL, replicas: 1}
	all := []number{
		{"A", text.Of("500 in 5 segments of 100, against one lock"), times(5), showsFactor, segments(0, 0)},
		{"A", text.Of("the same, 2 ms to the servers"), times(5), showsFactor, segments(0, far)},
		{"D", text.Of("JMeter, 50 × 100 requests, stock 5000: left"), text.Of("more than 4000"), showsLeft,
			[]numberRun{unsafe}},
		{"D", text.Of("the same with synchronized: left"), text.Plain("0"), showsLeft, []numberRun{locked}},
		{"D", text.Of("accepted per second without and with it"), text.Of("3000 and more, 1000 and more"), showsRates,
			[]numberRun{unsafe, locked}},
		{"D", text.Of("JMeter, prototype scope, stock in Redis: left"), text.Of("more than 3800"), showsLeft,
			[]numberRun{{mode: "mutex-per-request", plan: "jmeter", replicas: 1}}},
		{"D", text.Of("JMeter, @Transactional, stock in MySQL: left"), text.Of("some"), showsLeft,
			[]numberRun{{mode: "mutex-in-tx", plan: "jmeter", replicas: 1}}},
		{"E", text.Of("case 1, 5 clients, stock 100: left"), text.Of("99, should be 95"), showsLeft,
			[]numberRun{{mode: "unsafe", plan: "five", replicas: 3}}},
		{"E", text.Of("case 6, the same with Redisson's lock: left"), text.Plain("95"), showsLeft,
			[]numberRun{{mode: "watchdog", plan: "five", replicas: 3}}},
		{"E", text.Of("1000 in 10 segments of 100, against one lock"), times(10), showsFactor, segments(1, 0)},
		{"E", text.Of("the same, 2 ms to the servers"), times(10), showsFactor, segments(1, far)},
		{"E", text.Of("a script in Redis, accepted per second over HTTP"), text.Of("Redis: 100,000 and more"), showsRates,
			[]numberRun{{mode: "redis-lua", plan: "demo", replicas: 3, repeat: 3}}},
	}
	return all
}

// times is a factor that a write-up promises.
func times(n int) text.Text {
	return text.Of("%d times").With(n)
}

// segments are the runs of a factor: the stock in segments, and whole under one lock of the same kind.
func segments(part int, rtt time.Duration) []numberRun {
	r := numberRun{mode: "segmented", plan: "segments", part: part, replicas: 3, rtt: rtt, repeat: 3}
	one := r
	one.mode, one.whole = "handoff", true
	return []numberRun{r, one}
}

// load returns the plan of a run.
func (r numberRun) load() (plan.Plan, error) {
	plans, ok := plan.Named(r.plan)
	if !ok || r.part >= len(plans) {
		return plan.Plan{}, text.Of("no plan %s-%d").Errorf(r.plan, r.part)
	}
	p := plans[r.part]
	p.Store, p.Repeat = r.store, r.repeat
	if r.whole {
		p.Segments = 0
	}
	return p.WithDefaults(), nil
}
