package loadtest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/target"
)

// Pauses before a repetition: as Retry-After says, but at most longestPause, because a longer pause would dominate the
// measurement; without the header shortestPause, doubled each time.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
)

// script makes the requests and reads the replies: the part that differs for a service that is not ours.
type script struct {
	call  func(a target.Ask) target.Call
	read  func(kind judge.HoldKind, r target.Reply) target.Answer
	keyed bool                                             // each request has a new key, its repetitions the same one
	mode  string                                           // of lastitem
	carts bool                                             // it takes carts
	note  func(kind client.Kind, code string, body []byte) // is told of every answer; nil = is not
}

// worker is one client: it sends one request at a time.
type worker struct {
	id     int
	plan   Plan
	script script
	engine client.Engine
	second client.Engine // for double clicks; nil = the plan has none
}

// arrive executes one arrival: a deduction with its repetitions if the plan has any, or what v says if the plan
// reserves. intended is when it was due, in nanoseconds on rec's clock; -1 = whenever it is sent. If rec is nil, the
// arrival is not counted.
func (w *worker) arrive(ctx context.Context, rec *recorder, product, intended int64, v visit) {
	ask := target.Ask{Mode: w.script.mode, Store: w.plan.Store, Product: product, Quantity: w.plan.Quantity,
		Buyer: v.buyer, Wait: w.plan.Wait}
	if w.script.keyed || w.plan.Holding.On() && v.twice {
		ask.Key = uuid.NewString()
	}
	if w.plan.Holding.On() {
		w.buy(ctx, rec, ask, intended, v)
		return
	}
	if v.twice && w.second != nil {
		defer w.again(ctx, rec, ask, intended)()
	}
	w.insist(ctx, rec, ask, intended, false, w.plan.Retry+1)
}

// again begins the second click of a deduction, which is one like the first.
func (w *worker) again(ctx context.Context, rec *recorder, ask target.Ask, intended int64) (await func()) {
	other := &worker{id: w.id, plan: w.plan, script: w.script, engine: w.second}
	return w.beside(func() { other.insist(ctx, rec, ask, intended, false, w.plan.Retry+1) })
}

// beside begins something on the second connection; await returns when it is over.
func (w *worker) beside(do func()) (await func()) {
	var done atomic.Bool
	w.second.Go(func() {
		do()
		done.Store(true)
	})
	return func() {
		for !done.Load() { // each call is bounded by the plan's timeout
			w.engine.Rest(context.Background(), time.Millisecond)
		}
	}
}

// insist sends a request until its outcome is known, at most so many times. The response time of a repetition counts
// from intended too: its buyer has waited since.
func (w *worker) insist(ctx context.Context, rec *recorder, ask target.Ask, intended int64, twice bool,
	tries int) target.Answer {
	for try := 0; ; try++ {
		var said target.Answer
		if twice && try == 0 && w.second != nil {
			said = w.click(rec, ask, intended)
		} else {
			said = w.send(w.engine, rec, ask, sample{intended: intended, retry: try > 0})
		}
		if !said.Again || try+1 >= tries || !w.engine.Rest(ctx, pauseAfter(try, said.RetryAfter)) {
			return said
		}
	}
}

// click sends a request over two connections at once. Of two answers the good one counts.
func (w *worker) click(rec *recorder, ask target.Ask, intended int64) target.Answer {
	var other target.Answer
	await := w.beside(func() { other = w.send(w.second, rec, ask, sample{intended: intended, retry: true, second: true}) })
	said := w.send(w.engine, rec, ask, sample{intended: intended})
	await()
	if said.Outcome != judge.OK && other.Outcome == judge.OK {
		return other
	}
	return said
}

// send sends a request once and records the outcome in s, unless rec is nil.
func (w *worker) send(engine client.Engine, rec *recorder, ask target.Ask, s sample) target.Answer {
	call := w.script.call(ask)
	if rec == nil {
		answer := engine.Do(call)
		said, _ := client.Classify(&answer, ask.Kind, w.script.read)
		return said
	}
	// The interval includes connecting, if needed. So it may be longer than the service's interval but never shorter, and
	// two intervals that do not overlap prove an order.
	called := rec.now()
	answer := engine.Do(call)
	returned := rec.now()
	said, kind := client.Classify(&answer, ask.Kind, w.script.read)
	s.op, s.kind, s.code, s.again = ask.Op(said), kind, string(said.Code), said.Again
	s.op.Client, s.op.Call, s.op.Return = w.id, called, returned
	if s.lags = s.intended >= 0 && !s.retry; s.intended < 0 {
		s.intended = called
	}
	if said.Outcome == judge.OK {
		s.code = client.CodeOK
	}
	if w.script.note != nil {
		w.script.note(kind, s.code, answer.Body)
	}
	if ask.Kind != "" {
		s.step(ask, said)
	}
	rec.add(s)
	return said
}

// pauseAfter is how long to wait before repetition try+1.
func pauseAfter(try int, asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = shortestPause << min(try, 10)
	}
	return min(asked, longestPause)
}

// rest waits for d; false means that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool { return client.Rest(ctx, d) }

// picker returns a function that chooses the products of one source of requests, numbered by stream: the same plan
// makes the same choices. With a skew, the first product is chosen most often.
func picker(p Plan, stream int) func() int64 {
	if p.Products <= 1 {
		return func() int64 { return p.Product }
	}
	random := rand.New(rand.NewPCG(p.Seed, uint64(stream)))
	if p.Zipf > 1 {
		zipf := rand.NewZipf(random, p.Zipf, 1, uint64(p.Products-1))
		return func() int64 { return p.Product + int64(zipf.Uint64()) }
	}
	return func() int64 { return p.Product + random.Int64N(int64(p.Products)) }
}
