package main

import (
	"fmt"
	"time"

	"lastitem/internal/api"
	"lastitem/loadtest"
)

// number is a number that a well-known write-up states, with the runs that measure it here. docs/articles.md prints ours beside theirs.
type number struct {
	writeUp      string // the letter of its section in docs/articles.md
	what, theirs api.Text
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
		{"A", both("500 in 5 segments of 100, against one lock", "500 拆成 5 段，与一把锁相比"), times(5), showsFactor, segments(0, 0)},
		{"A", both("the same, 2 ms to the servers", "同上，到服务器的往返时间 2 毫秒"), times(5), showsFactor, segments(0, far)},
		{"D", both("JMeter, 50 × 100 requests, stock 5000: left", "JMeter 50 × 100 次，库存 5000：还剩"), both("more than 4000", "4000 多"), showsLeft, []numberRun{unsafe}},
		{"D", both("the same with synchronized: left", "同上，加 synchronized：还剩"), same("0"), showsLeft, []numberRun{locked}},
		{"D", both("accepted per second without and with it", "吞吐量（每秒成交数），不加与加"), both("3000 and more, 1000 and more", "三千多、一千多"), showsRates, []numberRun{unsafe, locked}},
		{"D", both("JMeter, prototype scope, stock in Redis: left", "JMeter，多例模式，库存在 Redis：还剩"), both("more than 3800", "3800 多"), showsLeft, []numberRun{{mode: "mutex-per-request", plan: "jmeter", replicas: 1}}},
		{"D", both("JMeter, @Transactional, stock in MySQL: left", "JMeter，事务模式，库存在 MySQL：还剩"), both("some", "有剩余"), showsLeft, []numberRun{{mode: "mutex-in-tx", plan: "jmeter", replicas: 1}}},
		{"E", both("case 1, 5 clients, stock 100: left", "案例1，5 个客户端，库存 100：还剩"), both("99, should be 95", "99，应为 95"), showsLeft, []numberRun{{mode: "unsafe", plan: "five", replicas: 3}}},
		{"E", both("case 6, the same with Redisson's lock: left", "案例6，同上，用 Redisson 的锁：还剩"), same("95"), showsLeft, []numberRun{{mode: "watchdog", plan: "five", replicas: 3}}},
		{"E", both("1000 in 10 segments of 100, against one lock", "1000 拆成 10 段，与一把锁相比"), times(10), showsFactor, segments(1, 0)},
		{"E", both("the same, 2 ms to the servers", "同上，到服务器的往返时间 2 毫秒"), times(10), showsFactor, segments(1, far)},
		{"E", both("a script in Redis, accepted per second over HTTP", "Redis 一段脚本，经 HTTP 每秒成交数"), both("Redis: 100,000 and more", "Redis 的 QPS 10W+"), showsRates, []numberRun{{mode: "redis-lua", plan: "demo", replicas: 3, repeat: 3}}},
	}
	return all
}

// times is a factor that a write-up promises.
func times(n int) api.Text {
	return both(fmt.Sprintf("%d times", n), fmt.Sprintf("%d 倍", n))
}

// same is a text without words.
func same(text string) api.Text { return both(text, text) }

// segments are the runs of a factor: the stock in segments, and whole under one lock of the same kind.
func segments(part int, rtt time.Duration) []numberRun {
	r := numberRun{mode: "segmented", plan: "segments", part: part, replicas: 3, rtt: rtt, repeat: 3}
	one := r
	one.mode, one.whole = "handoff", true
	return []numberRun{r, one}
}

// load returns the plan of a run.
func (r numberRun) load() (loadtest.Plan, error) {
	plans, ok := loadtest.Named(r.plan)
	if !ok || r.part >= len(plans) {
		return loadtest.Plan{}, both("no plan %s-%d", "没有方案 %s-%d").Errorf(r.plan, r.part)
	}
	p := plans[r.part]
	p.Store, p.Repeat = r.store, r.repeat
	if r.whole {
		p.Segments = 0
	}
	return p.WithDefaults(), nil
}
